package state

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Store is the state as of one Position. Apply and SetBarrier belong to one goroutine;
// Snapshot and Position may be called by any at any time and never wait.
type Store struct {
	db        *memdb.MemDB
	published atomic.Pointer[Snapshot]
}

// New returns an empty store at sequence 0.
func New() *Store {
	db, err := memdb.NewMemDB(schema())
	if err != nil {
		impossible("schema", err)
	}
	// Writing to a snapshot does the same without waking watchers, of which there are none,
	// and without remembering for whom.
	s := &Store{db: db.Snapshot()}
	s.publish(Position{}, false, nil)
	return s
}

// Snapshot returns the state after the last Apply, with the Position it belongs to. It
// never changes.
func (s *Store) Snapshot() *Snapshot { return s.published.Load() }

// Position returns where the store stands.
func (s *Store) Position() Position { return s.published.Load().position }

// SetBarrier leaves progress undefined until the fact with this sequence has been applied:
// the stream's last sequence as read at start. A barrier only ever moves forward.
func (s *Store) SetBarrier(sequence uint64) {
	snapshot := *s.published.Load()
	snapshot.position.barrier = max(snapshot.position.barrier, sequence)
	s.published.Store(&snapshot)
}

// StartBehind puts an empty store that has applied nothing behind a sequence, so that the next
// fact may be one that begins anew (events.Fact.Anew).
func (s *Store) StartBehind(sequence uint64) {
	snapshot := *s.published.Load()
	snapshot.position.Sequence = sequence
	s.published.Store(&snapshot)
}

// Changes is what one Apply did, in the order of the facts. An object that changed twice
// is listed twice.
type Changes struct {
	Pods     []PodChange
	Nodes    []NodeChange
	Others   []ObjectChange
	Position Position
}

// PodChange is one change of one pod: Before is nil for a new one, After for a deleted
// one, and then DeletedRV is the resourceVersion of the deletion (or of the list that no
// longer had the pod).
type PodChange struct {
	Before, After *Pod
	DeletedRV     uint64
}

// NodeChange is one change of one node; nil as in PodChange.
type NodeChange struct{ Before, After *Node }

// ObjectChange is one change of one object of another kind; nil as in PodChange.
type ObjectChange struct {
	Kind          events.Kind
	Before, After *Object
}

// Apply brings the store forward by facts, which must be in sequence order, in one step:
// readers see all of them or none. Facts whose sequence has been applied are skipped (I7).
//
// On an error nothing changes: *events.ErrGap when a sequence is skipped, *EpochError when
// an epoch changed unseen; both: build the store again. A fact that cannot be read is a hole: the
// store counts on, stays as it was in front of it, and has no progress until it is built again from facts
// behind it (Position.Hole). Facts of kinds that are not known are left out, see Snapshot.Partial.
func (s *Store) Apply(facts []events.SequencedFact) (Changes, error) {
	a := newApplication(s.db, s.Position())
	for _, f := range facts {
		if f.Sequence <= a.changes.Position.Sequence {
			continue
		}
		next, err := a.changes.Position.next(f)
		if err != nil {
			return Changes{}, err
		}
		var unreadable *FactError
		switch err := a.applyAt(next, f); {
		case errors.As(err, &unreadable):
			next = next.behindHole()
			a.unreadable = fmt.Errorf("state: fact %d: %w", f.Sequence, err)
		case err != nil:
			return Changes{}, fmt.Errorf("state: fact %d: %w", f.Sequence, err)
		}
		a.changes.Position = next
	}
	if err := a.write(s.db); err != nil {
		return Changes{}, err
	}
	s.publish(a.changes.Position, a.partial, a.unreadable)
	return a.changes, nil
}

// applyAt applies a fact that leads to a position: nothing behind a hole.
func (a *application) applyAt(p Position, f events.SequencedFact) error {
	if hole, there := p.Hole(); there && hole != f.Sequence {
		return nil
	}
	return a.apply(f.Fact)
}

func (s *Store) publish(p Position, partial bool, unreadable error) {
	if before := s.published.Load(); before != nil {
		partial, unreadable = partial || before.partial, cmp.Or(before.unreadable, unreadable)
	}
	s.published.Store(&Snapshot{read: s.db.Txn(false), position: p, partial: partial, unreadable: unreadable})
}
