package identity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Generation identifies which ledger this is, of all those that one Kubernetes cluster has had: the key generation,
// at one revision. A ledger that was lost, or restored from a backup, lacks promises that members have acted on,
// and has some that have ended. If Kubernetes itself was restored, high-waters name resourceVersions that do not
// exist yet. In these cases the leader of the queues begins a new generation:
//
//  1. Close: from here on no member places, binds or evicts anything.
//  2. Clear: every promise, term and guard is deleted.
//  3. It waits until requests that are under way have ended, and reads how far Kubernetes has come.
//  4. Open: members resume, on an empty ledger whose floor is the progress that was read. A bind that arrived at
//     the last moment shows in the facts up to that floor.
//
// A crash at any point leaves a closed generation; the next leader begins another one.
type Generation struct {
	Number uint64
	// Store is the identity of the store in which it was begun (Store.ID).
	Store uint64
	// Open reports whether members may act on the ledger.
	Open bool
	// Reason is for human readers: why the generation was begun, or doubted.
	Reason string
	// FactsAfter is an epoch of facts. Members act only on facts of later epochs. Kubernetes may have been restored
	// from a backup since the queue published earlier facts, and their resourceVersions are then above every
	// high-water of this ledger. 0 in a first generation.
	FactsAfter uint64
	// Revision is the mod revision it was read at; 0 when there is none, as in a ledger that predates generations.
	Revision int64
	Later    string
}

// EncodeGeneration encodes the value of the key generation.
func EncodeGeneration(g Generation) ([]byte, error) {
	m := &ledgerpb.Generation{
		Version: ledger.SchemaVersion, Number: g.Number, Store: g.Store, Open: g.Open, Reason: g.Reason,
		FactsAfter: g.FactsAfter,
	}
	codec.RestoreUnknown(m, g.Later)
	return codec.Marshal(m)
}

// DecodeGeneration decodes the key generation as stored.
func DecodeGeneration(kv ledger.KV) (Generation, error) {
	var m ledgerpb.Generation
	if err := codec.Unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return Generation{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return Generation{
		Number: m.GetNumber(), Store: m.GetStore(), Open: m.GetOpen(), Reason: m.GetReason(),
		FactsAfter: m.GetFactsAfter(), Revision: kv.ModRevision, Later: codec.Unknown(&m),
	}, nil
}

// replace builds the transaction that makes g the generation, in place of the one at its Revision.
func (g Generation) replace() (ledger.Txn, error) {
	value, err := EncodeGeneration(g)
	if err != nil {
		return ledger.Txn{}, err
	}
	return ledger.Txn{
		Compares: []ledger.Compare{{Key: KeyGeneration, Target: ledger.ModRevision, Revision: g.Revision}},
		Puts:     []ledger.Put{{Key: KeyGeneration, Value: value}},
	}, nil
}

// FirstGeneration begins the generation of a ledger that has none and has not been lost or restored: a new ledger,
// or one that predates generations.
//
// Compares and puts: generation.
func FirstGeneration(store uint64) (ledger.Txn, error) {
	return Generation{Number: 1, Store: store, Open: true}.replace()
}

// Doubt closes a generation, because a member suspects that the store has been replaced or has gone back. The
// leader of the queues begins the next one.
//
// Compares and puts: generation.
func (g Generation) Doubt(reason string) (ledger.Txn, error) {
	g.Open, g.Reason = false, reason
	return g.replace()
}

// Next begins the generation after g, closed, in a store. It writes the floor again as well: every transaction that
// relies on documents that do not exist loses from then on, so no earlier transaction can commit when the
// generation is opened. factsAfter is an epoch of facts later than any that was used.
//
// Compares and puts: generation, floor.
func (g Generation) Next(store uint64, reason string, floor ledger.Floor, factsAfter uint64) (Generation, ledger.Txn,
	error) {
	next := Generation{
		Number: g.Number + 1, Store: store, Reason: reason,
		FactsAfter: max(g.FactsAfter, factsAfter), Revision: g.Revision, Later: g.Later,
	}
	txn, err := next.withFloor(floor.HW, floor)
	return next, txn, err
}

// OpenAt opens a generation that has been cleared. hw is how far Kubernetes has come, per kind of fact: no member
// decides before its facts have reached it. Floor is the floor as read.
//
// Compares: generation, floor. Puts: the same.
func (g Generation) OpenAt(hw map[string]uint64, floor ledger.Floor) (ledger.Txn, error) {
	g.Open = true
	return g.withFloor(hw, floor)
}

// withFloor replaces the generation and the floor.
func (g Generation) withFloor(hw map[string]uint64, floor ledger.Floor) (ledger.Txn, error) {
	t, err := g.replace()
	if err != nil {
		return ledger.Txn{}, err
	}
	value, err := codec.EncodeFloor(ledger.Floor{HW: hw, Later: floor.Later})
	if err != nil {
		return ledger.Txn{}, err
	}
	t.Compares = append(t.Compares, ledger.Compare{Key: ledger.KeyFloor, Target: ledger.ModRevision,
		Revision: floor.Revision})
	t.Puts = append(t.Puts, ledger.Put{Key: ledger.KeyFloor, Value: value})
	return t, nil
}

// promised are the key prefixes of everything that a generation promises.
var promised = []string{
	ledger.PrefixNode, ledger.PrefixIncarnation, ledger.PrefixBudget, ledger.PrefixVolume, ledger.PrefixPool,
	ledger.PrefixPlan, registry.PrefixTerm, registry.PrefixGuard,
}

// Promises returns the keys of a list that belong to a generation and are deleted with it.
func Promises(kvs []ledger.KV) (keys []string) {
	for _, kv := range kvs {
		if slices.ContainsFunc(promised, func(prefix string) bool { return strings.HasPrefix(kv.Key, prefix) }) {
			keys = append(keys, kv.Key)
		}
	}
	return keys
}

// Clear builds the transaction that deletes some of the keys of a closed generation, as many as fit; rest are the
// others.
//
// Compares: generation. Deletes: the keys. A crash changes nothing that matters.
func (g Generation) Clear(keys []string) (txn ledger.Txn, rest []string) {
	n := min(len(keys), ledger.MaxTxnOps)
	return ledger.Txn{
		Compares: []ledger.Compare{{Key: KeyGeneration, Target: ledger.ModRevision, Revision: g.Revision}}, Deletes: keys[:n],
	}, keys[n:]
}

// Keys of what a ledger is, relative to the cluster's prefix.
const (
	// KeyCluster names the Kubernetes cluster this ledger belongs to (UID of its
	// kube-system namespace), written once by the first queue that leads.
	KeyCluster = "cluster"
	// KeyGeneration holds the Generation: which ledger this is, and whether members may act on it.
	KeyGeneration = "generation"
)
