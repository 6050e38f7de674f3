package state

import (
	"fmt"
	"sync/atomic"

	memdb "github.com/hashicorp/go-memdb"
	corev1 "k8s.io/api/core/v1"

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
	s := &Store{db: db}
	s.publish(Position{})
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
// an epoch changed unseen (both: build the store again), anything else for a fact that
// cannot be read.
func (s *Store) Apply(facts []events.SequencedFact) (Changes, error) {
	txn := s.db.Txn(true)
	defer txn.Abort()
	a := application{txn: txn, changes: Changes{Position: s.Position()}}
	for _, f := range facts {
		if f.Sequence <= a.changes.Position.Sequence {
			continue
		}
		next, err := a.changes.Position.next(f)
		if err != nil {
			return Changes{}, err
		}
		if err := a.apply(f.Fact); err != nil {
			return Changes{}, fmt.Errorf("state: fact %d: %w", f.Sequence, err)
		}
		a.changes.Position = next
	}
	txn.Commit()
	s.publish(a.changes.Position)
	return a.changes, nil
}

func (s *Store) publish(p Position) {
	s.published.Store(&Snapshot{db: s.db.Snapshot(), position: p})
}

// application is one Apply under way.
type application struct {
	txn     *memdb.Txn
	changes Changes
}

func (a *application) apply(f events.Fact) error {
	switch f.Op {
	case events.OpProgress, events.OpEpochBegin, events.OpEpochEnd:
		return nil
	case events.OpUpsert:
		return a.upsert(f)
	case events.OpDelete:
		return a.remove(f.Kind, f.UID, f.ResourceVersion)
	default:
		return fmt.Errorf("op %d is unknown, want 1 to 5", f.Op)
	}
}

// upsert adds or replaces one object. A fact that brings the resourceVersion already held
// (a repair repeats what readers know) changes nothing and is not decoded.
func (a *application) upsert(f events.Fact) error {
	before, err := a.held(f.Kind, f.UID)
	if err != nil {
		return err
	}
	if before.resourceVersion() == f.ResourceVersion && f.ResourceVersion != 0 {
		return nil
	}
	obj, err := decodeObject(f.Kind, f.UID, f.Object)
	if err != nil {
		return err
	}
	after := valueOf(f.Kind, obj, f.ResourceVersion)
	if err := a.evictNamesake(after, f); err != nil {
		return err
	}
	return a.replace(before, after, f.ResourceVersion)
}

// evictNamesake removes another object that holds the name: the API server lets a name
// belong to one UID at a time, so the older one is gone and its deletion was missed or
// follows (a relist names the new before it misses the old).
func (a *application) evictNamesake(after value, f events.Fact) error {
	other, err := a.namesake(after)
	if err != nil || other.uid() == "" || other.uid() == f.UID {
		return err
	}
	return a.replace(other, value{}, f.ResourceVersion)
}

// remove deletes one object; one that is unknown is no error.
func (a *application) remove(k events.Kind, uid string, rv uint64) error {
	before, err := a.held(k, uid)
	if err != nil || before.uid() == "" {
		return err
	}
	return a.replace(before, value{}, rv)
}

// value is one object of any table; at most one field is set.
type value struct {
	pod    *Pod
	node   *Node
	object *Object
}

func valueOf(k events.Kind, obj APIObject, rv uint64) value {
	switch o := obj.(type) {
	case *corev1.Pod:
		pod := NewPod(o)
		pod.ResourceVersion = max(pod.ResourceVersion, rv)
		return value{pod: pod}
	case *corev1.Node:
		node := NewNode(o)
		node.ResourceVersion = max(node.ResourceVersion, rv)
		return value{node: node}
	default:
		return value{object: &Object{
			Kind:            k,
			UID:             string(obj.GetUID()),
			Namespace:       obj.GetNamespace(),
			Name:            obj.GetName(),
			ResourceVersion: max(parseResourceVersion(obj.GetResourceVersion()), rv),
			API:             obj,
		}}
	}
}

func (v value) uid() string {
	switch {
	case v.pod != nil:
		return v.pod.UID
	case v.node != nil:
		return v.node.UID
	case v.object != nil:
		return v.object.UID
	default:
		return ""
	}
}

func (v value) resourceVersion() uint64 {
	switch {
	case v.pod != nil:
		return v.pod.ResourceVersion
	case v.node != nil:
		return v.node.ResourceVersion
	case v.object != nil:
		return v.object.ResourceVersion
	default:
		return 0
	}
}

// held finds the object of this kind and UID; the zero value when there is none.
func (a *application) held(k events.Kind, uid string) (value, error) {
	switch k {
	case events.KindPod:
		return a.first(tablePods, indexID, uid)
	case events.KindNode:
		return a.first(tableNodes, indexID, uid)
	default:
		return a.first(tableObjects, indexID, objectKey(k, uid))
	}
}

// namesake finds the object of v's kind that holds v's name.
func (a *application) namesake(v value) (value, error) {
	switch {
	case v.pod != nil:
		return a.first(tablePods, indexName, v.pod.Key())
	case v.node != nil:
		return a.first(tableNodes, indexName, v.node.Name)
	default:
		return a.first(tableObjects, indexName, objectNameKey(v.object))
	}
}

func (a *application) first(table, index, key string) (value, error) {
	raw, err := a.txn.First(table, index, key)
	if err != nil {
		return value{}, err
	}
	switch v := raw.(type) {
	case *Pod:
		return value{pod: v}, nil
	case *Node:
		return value{node: v}, nil
	case *Object:
		return value{object: v}, nil
	default:
		return value{}, nil
	}
}

// replace writes one change to the tables and the list of changes. Either side may be
// empty, not both.
func (a *application) replace(before, after value, rv uint64) error {
	switch {
	case before.pod != nil || after.pod != nil:
		change := PodChange{Before: before.pod, After: after.pod}
		if after.pod == nil {
			change.DeletedRV = rv
		}
		a.changes.Pods = append(a.changes.Pods, change)
		if err := a.writePlaced(before.pod, after.pod); err != nil {
			return err
		}
		return write(a.txn, tablePods, before.pod, after.pod)
	case before.node != nil || after.node != nil:
		a.changes.Nodes = append(a.changes.Nodes, NodeChange{Before: before.node, After: after.node})
		return write(a.txn, tableNodes, before.node, after.node)
	default:
		change := ObjectChange{Before: before.object, After: after.object}
		if before.object != nil {
			change.Kind = before.object.Kind
		} else {
			change.Kind = after.object.Kind
		}
		a.changes.Others = append(a.changes.Others, change)
		return write(a.txn, tableObjects, before.object, after.object)
	}
}

// writePlaced keeps the table of bound pods. Its key holds the node name, which the API
// server never changes once set; a change is handled all the same.
func (a *application) writePlaced(before, after *Pod) error {
	if before != nil && before.NodeName != "" && (after == nil || after.NodeName != before.NodeName) {
		if err := a.txn.Delete(tablePlaced, before); err != nil {
			return err
		}
	}
	if after != nil && after.NodeName != "" {
		return a.txn.Insert(tablePlaced, after)
	}
	return nil
}

func write[T any](txn *memdb.Txn, table string, before, after *T) error {
	if after != nil {
		return txn.Insert(table, after)
	}
	return txn.Delete(table, before)
}
