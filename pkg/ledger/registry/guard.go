package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Part is one part of a term's guard in one domain.
type Part string

const (
	// Carriers is put by every placement of a pod that carries the term.
	Carriers Part = "c"
	// Matchers is put by every placement of a pod that the term selects and that does not carry the term.
	Matchers Part = "m"
)

// WholeCluster is the domain of guards that do not belong to one label value. (No label value contains a star.)
const WholeCluster = "*"

// KeyTerm is the key of a registered term.
func KeyTerm(id TermID) string { return PrefixTerm + string(id) }

// KeyGuard is the key of one part of a term's guard in a domain, which is a value of the term's topology key or
// WholeCluster.
func KeyGuard(id TermID, domain string, part Part) string {
	return PrefixGuard + string(id) + "/" + domain + "/" + string(part)
}

// ParseGuard is the inverse of KeyGuard.
func ParseGuard(key string) (id TermID, domain string, part Part, ok bool) {
	rest, ok := strings.CutPrefix(key, PrefixGuard)
	fields := strings.Split(rest, "/")
	if !ok || len(fields) != 3 || (Part(fields[2]) != Carriers && Part(fields[2]) != Matchers) {
		return "", "", "", false
	}
	return TermID(fields[0]), fields[1], Part(fields[2]), true
}

// GuardUse is how one placement uses one guard.
type GuardUse struct {
	Key string
	// Compare requires that the guard is still at Revision, which is 0 for a guard that does not exist. The
	// revision must be one whose placements the decision has counted: see Terms.Guard.
	Compare  bool
	Revision int64
	// Put moves the guard, so that every placement that compares it has to be decided again.
	Put bool
}

// MergeGuards adds the guard uses of one placement to those of a transaction: one compare and one put per key. It
// returns an error when two decisions rest on different revisions of one key.
func MergeGuards(all map[string]GuardUse, uses []GuardUse) error {
	for _, u := range uses {
		if _, _, _, ok := ParseGuard(u.Key); !ok {
			return fmt.Errorf("ledger: place batch: guard %q: want %s<term>/<domain>/<part>", u.Key, PrefixGuard)
		}
		old, known := all[u.Key]
		if known && old.Compare && u.Compare && old.Revision != u.Revision {
			return fmt.Errorf("ledger: place batch: guard %s is compared with revisions %d and %d",
				u.Key, old.Revision, u.Revision)
		}
		if known {
			u.Put = u.Put || old.Put
			if !u.Compare {
				u.Compare, u.Revision = old.Compare, old.Revision
			}
		}
		all[u.Key] = u
	}
	return nil
}

// MoveGuards adds the compares and puts of merged uses, in the order of their keys. The value of a guard names the
// pod that moved it.
func MoveGuards(t *ledger.Txn, all map[string]GuardUse, mover func(key string) ledger.Entry) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		u := all[key]
		if u.Compare {
			t.Compares = append(t.Compares, ledger.Compare{Key: key, Target: ledger.ModRevision, Revision: u.Revision})
		}
		if !u.Put {
			continue
		}
		value, err := encodeGuard(mover(key).PodUID, mover(key).Token)
		if err != nil {
			return err
		}
		t.Puts = append(t.Puts, ledger.Put{Key: key, Value: value})
	}
	return nil
}

// Weight is the guard's largest possible share of MaxTxnBytes.
func (u GuardUse) Weight() int { return ledger.KeyWeight(len(u.Key)) + maxGuardBytes }

// maxGuardBytes bounds the value of a guard: a pod's UID, a token, and the tags and lengths around them.
const maxGuardBytes = 36 + 8 + 4*10
