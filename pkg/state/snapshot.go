package state

import (
	"fmt"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Snapshot is the state at one Position. It never changes, costs nothing to hold and may be read by any number of
// goroutines. It serves lookups of objects and operators' questions; a scheduling cycle keeps its own NodeInfos and
// does not scan it.
//
// Looking a pod up by UID costs a hash and some ten reads at any size; other lookups cost the depth of a radix tree.
// Iterators cost that and the number of objects that they yield. They may be stopped and started again, and see the
// same objects each time.
type Snapshot struct {
	// read is a read-only transaction. Lookups do not change it, so goroutines may share it.
	read     *memdb.Txn
	pods     podTable
	position Position
	applied  uint64
	partial  bool
	// unreadable explains why the fact at the position's hole cannot be read.
	unreadable error
}

// Position returns the position of this state in the log.
func (s *Snapshot) Position() Position { return s.position }

// Applied returns how many facts the store has applied since it was made, of whatever effect.
func (s *Snapshot) Applied() uint64 { return s.applied }

// Behind returns the same state with a barrier: progress is undefined until the position has reached the sequence. A
// barrier only moves forward; see Store.SetBarrier.
func (s *Snapshot) Behind(sequence uint64) *Snapshot {
	if sequence <= s.position.barrier {
		return s
	}
	behind := *s
	behind.position.barrier = sequence
	return &behind
}

// Partial reports that facts were left out because only a later version knows their kinds. Such a state is
// sufficient for this version, but must not be marshalled for others.
func (s *Snapshot) Partial() bool { return s.partial }

// Unreadable explains why a fact could not be read, nil if all could: see Position.Hole.
func (s *Snapshot) Unreadable() error { return s.unreadable }

// Pod finds a pod by UID.
func (s *Snapshot) Pod(uid string) (*Pod, bool) {
	pod, _ := s.pods.find(uid)
	return pod, pod != nil
}

// PodByName finds a pod by namespace and name.
func (s *Snapshot) PodByName(namespace, name string) (*Pod, bool) {
	slot, ok, err := s.names().find(podKey{namespace, name})
	if err != nil {
		impossible("lookup "+tableNames, err)
	}
	if !ok {
		return nil, false
	}
	return s.pods.at(slot), true
}

// names returns the order of the pods by name.
func (s *Snapshot) names() podNames { return podNames{s.read, &s.pods} }

// Pods yields all pods, sorted by namespace and name.
func (s *Snapshot) Pods() iter.Seq[*Pod] { return s.names().all() }

// PodsIn yields the pods of one namespace, sorted by name. Its cost is proportional to their number.
func (s *Snapshot) PodsIn(namespace string) iter.Seq[*Pod] { return s.names().in(namespace) }

// PodsOnNode yields the pods bound to a node, terminal ones included, sorted by UID.
func (s *Snapshot) PodsOnNode(nodeName string) iter.Seq[*Pod] { return s.podsAt(tablePlaced, nodeName) }

// PodsOfGroup yields the members of a pod group (spec.schedulingGroup), bound, terminal and gated ones included, sorted
// by UID, whether the PodGroup exists or not.
func (s *Snapshot) PodsOfGroup(namespace, name string) iter.Seq[*Pod] {
	return s.podsAt(tableMembers, groupKey(namespace, name))
}

// podsAt yields the pods of a site.
func (s *Snapshot) podsAt(table, key string) iter.Seq[*Pod] {
	here, ok := one[site](s, table, indexID, key)
	if !ok {
		here = &site{}
	}
	return func(yield func(*Pod) bool) {
		for _, slot := range here.slots {
			if !yield(s.pods.at(slot)) {
				return
			}
		}
	}
}

// Node finds a node by UID.
func (s *Snapshot) Node(uid string) (*Node, bool) { return one[Node](s, tableNodes, indexID, uid) }

// NodeByName finds a node by name.
func (s *Snapshot) NodeByName(name string) (*Node, bool) {
	return one[Node](s, tableNodes, indexName, name)
}

// Nodes yields all nodes, sorted by name.
func (s *Snapshot) Nodes() iter.Seq[*Node] { return all[Node](s, tableNodes, indexName+"_prefix", "") }

// Object finds an object of a kind other than pods and nodes by UID.
func (s *Snapshot) Object(k events.Kind, uid string) (*Object, bool) {
	return one[Object](s, tableObjects, indexID, objectKey(k, uid))
}

// ObjectByName finds an object of a kind other than pods and nodes by name; namespace is
// empty for kinds without one.
func (s *Snapshot) ObjectByName(k events.Kind, namespace, name string) (*Object, bool) {
	return one[Object](s, tableObjects, indexName, string(k)+separator+namespace+"/"+name)
}

// Objects yields all objects of one kind other than pods and nodes, sorted by namespace
// and name.
func (s *Snapshot) Objects(k events.Kind) iter.Seq[*Object] {
	return all[Object](s, tableObjects, indexName+"_prefix", string(k)+separator)
}

// ObjectsIn yields the objects of one kind in one namespace, sorted by name.
func (s *Snapshot) ObjectsIn(k events.Kind, namespace string) iter.Seq[*Object] {
	return all[Object](s, tableObjects, indexName+"_prefix", string(k)+separator+namespace+"/")
}

// ObjectsOf yields the objects of one kind that are filed under a key, sorted by namespace and name:
// PersistentVolumes and CSIStorageCapacities by their storage class, VolumeAttachments by their node, allocated
// ResourceClaims under the empty key. No other kinds are filed. Its cost is proportional to the number of objects
// under the key.
func (s *Snapshot) ObjectsOf(k events.Kind, key string) iter.Seq[*Object] {
	return all[Object](s, tableObjects, indexFile+"_prefix", filePrefix(k, key))
}

// one looks up a key; ok is false if no object has it.
func one[T any](s *Snapshot, table, index, key string) (*T, bool) {
	raw, err := s.read.First(table, index, key)
	if err != nil {
		impossible("lookup "+table+"."+index, err)
	}
	v, ok := raw.(*T)
	return v, ok
}

// all yields the rows of an index whose keys have a prefix, in the order of keys.
func all[T any](s *Snapshot, table, index, prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		rows, err := s.read.Get(table, index, prefix)
		if err != nil {
			impossible("scan "+table+"."+index, err)
		}
		for raw := rows.Next(); raw != nil; raw = rows.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}

// impossible ends the process on an error that memdb returns only for tables, indexes and argument types it does
// not know. They are constants of this package, so no input leads here, and a made-up answer would be a wrong view
// of the cluster.
func impossible(what string, err error) {
	panic(fmt.Sprintf("state: %s: %v", what, err)) //nolint:panic // see above: an assertion
}
