package replica

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// Roster is the part of a View about members: which are alive, which partitions each owns, and which it should own.
// A member's own ownership is never learned ahead of the watch (see View.Learn).
type Roster struct {
	owners  map[int32]ownership
	wanted  map[int32]ownership
	members map[string]membership
}

// ownership is the value of own/<partition> or want/<partition>. epoch is the create revision of the former, so it is
// another one whenever the partition is taken; modified is the revision of this value.
type ownership struct {
	owner    roster.Owner
	epoch    int64
	modified int64
}

// membership is the value of member/<role>/<id>, and its revision.
type membership struct {
	member   roster.Member
	modified int64
}

func newRoster() Roster {
	return Roster{owners: map[int32]ownership{}, wanted: map[int32]ownership{}, members: map[string]membership{}}
}

func (r *Roster) clone() Roster {
	return Roster{owners: maps.Clone(r.owners), wanted: maps.Clone(r.wanted), members: maps.Clone(r.members)}
}

// carryOver keeps what was learned later than the list, which was read at revision. Owners are never learned.
func (r *Roster) carryOver(was *Roster, revision int64) {
	keepLater(r.wanted, was.wanted, revision, func(o ownership) int64 { return o.modified })
	keepLater(r.members, was.members, revision, func(m membership) int64 { return m.modified })
}

// ofRoster reports whether a key is of a partition's owner, of the member it is wanted for, or of a member.
func ofRoster(key string) bool {
	return strings.HasPrefix(key, roster.PrefixOwn) || strings.HasPrefix(key, roster.PrefixWant) ||
		strings.HasPrefix(key, roster.PrefixMember)
}

// Owner returns the holder of a partition, and the epoch (create revision) that the holder compares.
func (r *Roster) Owner(partition int32) (owner roster.Owner, epoch int64, ok bool) {
	o, ok := r.owners[partition]
	return o.owner, o.epoch, ok
}

// Owners iterates over the held partitions and their owners, in no order.
func (r *Roster) Owners() iter.Seq2[int32, roster.Owner] {
	return func(yield func(int32, roster.Owner) bool) {
		for p, o := range r.owners {
			if !yield(p, o.owner) {
				return
			}
		}
	}
}

// Wanted iterates over the partitions that are wanted for a certain member, with the member's id.
func (r *Roster) Wanted() iter.Seq2[int32, string] {
	return func(yield func(int32, string) bool) {
		for p, o := range r.wanted {
			if !yield(p, o.owner.Member) {
				return
			}
		}
	}
}

// Members returns the live members of a role, sorted by id.
func (r *Roster) Members(role string) []roster.Member {
	var out []roster.Member
	for _, m := range r.members {
		if m.member.Role == role {
			out = append(out, m.member)
		}
	}
	slices.SortFunc(out, func(a, b roster.Member) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (r *Roster) put(kv ledger.KV, set *changeSet) error {
	switch {
	case strings.HasPrefix(kv.Key, roster.PrefixOwn):
		return r.putOwner(kv, set)
	case strings.HasPrefix(kv.Key, roster.PrefixWant):
		return r.putWanted(kv, set)
	default:
		return r.putMember(kv, set)
	}
}

// putOwner stores an owner. A value without a create revision continues the epoch that is known. A renewal by the
// same member in the same epoch is no change of the partition.
func (r *Roster) putOwner(kv ledger.KV, set *changeSet) error {
	p, ok := roster.ParseOwn(kv.Key)
	if !ok {
		return fmt.Errorf("ledger: key %s: want %s and a partition below %d", kv.Key, roster.PrefixOwn, ledger.Partitions)
	}
	old := r.owners[p]
	if kv.ModRevision <= old.modified {
		return nil
	}
	owner, err := roster.DecodeOwner(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	epoch := kv.CreateRevision
	if epoch == 0 {
		epoch = old.epoch
	}
	r.owners[p] = ownership{owner: owner, epoch: epoch, modified: kv.ModRevision}
	if epoch != old.epoch || owner.Member != old.owner.Member {
		set.partition(p)
	}
	return nil
}

func (r *Roster) putWanted(kv ledger.KV, set *changeSet) error {
	p, ok := roster.ParseWant(kv.Key)
	if !ok {
		return fmt.Errorf("ledger: key %s: want %s and a partition below %d", kv.Key, roster.PrefixWant, ledger.Partitions)
	}
	if kv.ModRevision <= r.wanted[p].modified {
		return nil
	}
	owner, err := roster.DecodeOwner(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	r.wanted[p] = ownership{owner: owner, modified: kv.ModRevision}
	set.partition(p)
	return nil
}

func (r *Roster) putMember(kv ledger.KV, set *changeSet) error {
	if kv.ModRevision <= r.members[kv.Key].modified {
		return nil
	}
	m, err := roster.DecodeMember(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	r.members[kv.Key] = membership{member: m, modified: kv.ModRevision}
	set.members = true
	return nil
}

func (r *Roster) drop(key string, revision int64, set *changeSet) {
	if p, ok := roster.ParseOwn(key); ok {
		if old, known := r.owners[p]; known && old.modified < revision {
			delete(r.owners, p)
			set.partition(p)
		}
		return
	}
	if p, ok := roster.ParseWant(key); ok {
		if old, known := r.wanted[p]; known && old.modified < revision {
			delete(r.wanted, p)
			set.partition(p)
		}
		return
	}
	if old, known := r.members[key]; known && old.modified < revision {
		delete(r.members, key)
		set.members = true
	}
}
