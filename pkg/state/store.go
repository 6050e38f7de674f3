package state

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/persist"
)

// Store is the state at one Position. Apply and SetBarrier belong to one goroutine; Snapshot and Position may be
// called by any goroutine at any time and never block.
type Store struct {
	// db has everything but the pods. It is written by the goroutine that applies facts; readers use the transaction in
	// published.
	db *memdb.MemDB
	// read is a read-only transaction on db as it is.
	read *memdb.Txn
	// pods is the newest version of the pods, and edits the number of the last edit that led to it, or failed.
	pods      podTable
	edits     persist.Edit
	published atomic.Pointer[Snapshot]
}

// New returns an empty store at sequence 0.
func New() *Store {
	db, err := memdb.NewMemDB(schema())
	if err != nil {
		impossible("schema", err)
	}
	// Writing to a snapshot is the same without waking watchers, of which there are none, and without the
	// bookkeeping for them.
	s := &Store{db: db.Snapshot()}
	s.read = s.db.Txn(false)
	s.publish(Position{}, &application{})
	return s
}

// Snapshot returns the state after the last Apply, with the Position it belongs to. It never changes.
func (s *Store) Snapshot() *Snapshot { return s.published.Load() }

// Position returns the store's position.
func (s *Store) Position() Position { return s.published.Load().position }

// SetBarrier leaves progress undefined until the fact with this sequence has been applied: the stream's last
// sequence as read at start. A barrier only moves forward.
func (s *Store) SetBarrier(sequence uint64) {
	s.published.Store(s.published.Load().Behind(sequence))
}

// StartBehind positions an empty store that has applied nothing at a sequence, so that the next fact may be one
// that starts from scratch (events.Fact.Anew). Must not be called after Apply.
func (s *Store) StartBehind(sequence uint64) {
	snapshot := *s.published.Load()
	snapshot.position.Sequence = sequence
	s.published.Store(&snapshot)
}

// Changes describes what one Apply did, in the order of the facts. An object that changed twice is listed twice:
// its first After is the second Before. Facts that changed nothing are not listed.
type Changes struct {
	Pods   []PodChange
	Nodes  []NodeChange
	Others []ObjectChange
	// Position is the position after the last fact.
	Position Position
}

// PodChange is one change of one pod. Before is nil for a new pod. After is nil for a deleted pod, and then
// DeletedRV is the resourceVersion of the deletion (or of the list that no longer contained the pod). A pod whose
// name has passed to another UID is listed as deleted, with the resourceVersion of the fact about the new one.
type PodChange struct {
	Before, After *Pod
	DeletedRV     uint64
}

// NodeChange is one change of one node; nil as in PodChange. The pods on the node do not change with it.
type NodeChange struct{ Before, After *Node }

// ObjectChange is one change of one object of another kind; nil as in PodChange.
type ObjectChange struct {
	Kind          events.Kind
	Before, After *Object
}

// Apply applies facts, which must be in sequence order and with all facts of a frame, in one step: readers see all of
// them or none. It skips facts whose sequence has been applied (I7).
//
// On an error nothing changes: *eventlog.ErrGap when a sequence is skipped, *EpochError when an epoch changed unseen;
// after either, the store must be rebuilt. A fact that cannot be read is a hole: the store continues to count
// sequences, keeps its content from before the hole, and has no progress until it is rebuilt from facts after it
// (Position.Hole). Facts of unknown kinds are left out, see Snapshot.Partial.
func (s *Store) Apply(facts []events.SequencedFact) (Changes, error) {
	a := newApplication(s, s.Position())
	before := s.Position().Sequence
	applied := uint64(0)
	for _, f := range facts {
		if f.Sequence <= before {
			continue
		}
		next, err := a.changes.Position.next(f)
		if err != nil {
			return Changes{}, err
		}
		var unreadable *FactError
		switch err := a.applyBehind(a.changes.Position, f); {
		case errors.As(err, &unreadable):
			next = next.behindHole()
			a.unreadable = fmt.Errorf("state: fact %d: %w", f.Sequence, err)
		case err != nil:
			return Changes{}, fmt.Errorf("state: fact %d: %w", f.Sequence, err)
		}
		a.changes.Position = next
		applied++
	}
	if err := a.write(s); err != nil {
		return Changes{}, err
	}
	a.applied = s.Snapshot().applied + applied
	s.publish(a.changes.Position, a)
	return a.changes, nil
}

// applyBehind applies a fact after a position, but nothing after a hole.
func (a *application) applyBehind(p Position, f events.SequencedFact) error {
	if _, there := p.Hole(); there {
		return nil
	}
	return a.apply(f.Fact)
}

// publish makes the state visible to readers, with what an application found. That a store is partial, or why a fact
// could not be read, stays true for all later snapshots of the store: only a rebuild changes it.
func (s *Store) publish(p Position, a *application) {
	partial, unreadable := a.partial, a.unreadable
	if before := s.published.Load(); before != nil {
		partial, unreadable = partial || before.partial, cmp.Or(before.unreadable, unreadable)
	}
	s.published.Store(&Snapshot{
		read: s.read, pods: s.pods, position: p, applied: a.applied, partial: partial, unreadable: unreadable,
	})
}
