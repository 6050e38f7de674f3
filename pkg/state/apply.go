package state

import (
	"errors"
	"fmt"

	memdb "github.com/hashicorp/go-memdb"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// application is one Apply in progress. It reads the tables as they were before and keeps its changes in drafts
// until all facts are applied: a memdb transaction that is read between writes copies its paths again for each
// write. An error leaves the tables as they are, because nothing has been written.
type application struct {
	pods    draft[Pod]
	nodes   draft[Node]
	objects draft[Object]
	sites   siteDraft
	// changes is the result; its position advances with each fact.
	changes Changes
	// reader reuses its buffers for all pods of the application.
	reader podReader
	// byUID and byName are the tables of pods.
	byUID, byName *podLookup
	// applied counts the facts of the store, with those of this application.
	applied uint64
	// partial: facts of kinds of a later version were left out.
	partial bool
	// unreadable is the reason why the first unreadable fact cannot be read.
	unreadable error
}

// newApplication begins an application on the tables as they are. The two lookups of pods cache the pages that they
// find, for the drafts and for the write.
func newApplication(db *memdb.MemDB, p Position) *application {
	base := db.Txn(false)
	byUID, byName := newPodLookup(podsByUID, base), newPodLookup(podsByName, base)
	return &application{
		byUID: byUID, byName: byName,
		changes: Changes{Position: p},
		pods:    newPodDraft(byUID, byName),
		nodes:   newDraft(base, tableNodes, func(n *Node) (string, string) { return n.UID, n.Name }),
		objects: newDraft(base, tableObjects, func(o *Object) (string, string) {
			return objectKey(o.Kind, o.UID), objectNameKey(o)
		}),
		sites: siteDraft{base: base, byNode: map[string]*siteChange{}},
	}
}

// write writes the drafts to the tables, in one transaction. The order of tables does not matter to readers, who
// see all of them or none.
func (a *application) write(db *memdb.MemDB) error {
	txn := db.Txn(true)
	defer txn.Abort()
	err := a.byUID.write(txn, a.pods.order)
	if err == nil {
		err = a.byName.write(txn, a.pods.order)
	}
	if err == nil {
		err = a.sites.write(txn)
	}
	if err == nil {
		err = writeRows(txn, tableNodes, &a.nodes)
	}
	if err == nil {
		err = writeRows(txn, tableObjects, &a.objects)
	}
	if err != nil {
		return err
	}
	txn.Commit()
	return nil
}

// apply applies the content of one fact; its position has been checked. Facts of unknown kinds are skipped and make
// the state partial. Facts about progress and epochs change only the position.
func (a *application) apply(f events.Fact) error {
	if f.Kind != "" && !f.Kind.Known() {
		a.partial = true
		return nil
	}
	switch f.Op {
	case events.OpProgress, events.OpEpochBegin, events.OpEpochEnd:
		return nil
	case events.OpUnreadable:
		return &FactError{errors.New(f.Cause)}
	case events.OpUpsert:
		return a.upsert(f)
	case events.OpDelete:
		return a.remove(f)
	default:
		return &FactError{fmt.Errorf("op %d is unknown, want 1 to 5", f.Op)}
	}
}

// upsert adds or replaces one object. A fact with the resourceVersion that is already held (a repair repeats what
// readers know) changes nothing and is not decoded.
func (a *application) upsert(f events.Fact) error {
	switch f.Kind {
	case events.KindPod:
		return a.upsertPod(f)
	case events.KindNode:
		return a.upsertNode(f)
	default:
		return a.upsertObject(f)
	}
}

// upsertPod adds or replaces a pod. The steps: skip a version that is held; decode and check the identity; delete
// another pod that has the name, since its own deletion was missed or comes later; replace. The lookup by name is
// left out when the pod has kept its name, which is the frequent case and saves a search.
func (a *application) upsertPod(f events.Fact) error {
	before, err := a.pods.byID(f.UID)
	if err != nil || before != nil && !before.TooLarge() && isRepeated(f, before.ResourceVersion) {
		return err
	}
	after, err := a.reader.read(f.Object, f.ResourceVersion)
	if err != nil {
		return decodeError(f, err)
	}
	if err := checkIdentity(f, after.UID, after.Namespace, after.Name); err != nil {
		return err
	}
	var other *Pod
	if before == nil || podsByName.key(before) != podsByName.key(after) { // else no other pod has its name
		if other, err = a.pods.namesake(after); err != nil {
			return err
		}
	}
	if other != nil {
		if err := a.replacePod(PodChange{Before: other, DeletedRV: f.ResourceVersion}); err != nil {
			return err
		}
	}
	return a.replacePod(PodChange{Before: before, After: after})
}

// isRepeated reports whether a fact repeats what is held. A fact about an object that is held reduced may contain
// more of the same version: what is reduced, and to what, depends on the queue's version of Berth.
func isRepeated(f events.Fact, held uint64) bool {
	return held == f.ResourceVersion && f.ResourceVersion != 0
}

// replacePod records one change of a pod in all drafts. Before and After may be on different nodes only if the pod
// was replaced: the API server does not move a bound pod. The old place is given up first in any case.
func (a *application) replacePod(c PodChange) error {
	if c.Before != nil && c.Before.NodeName != "" {
		if err := a.sites.remove(c.Before); err != nil {
			return err
		}
	}
	if c.After != nil && c.After.NodeName != "" {
		if err := a.sites.add(c.After); err != nil {
			return err
		}
	}
	a.changes.Pods = append(a.changes.Pods, c)
	a.pods.replace(c.Before, c.After)
	return nil
}

// upsertNode adds or replaces a node, with the same steps as upsertPod.
func (a *application) upsertNode(f events.Fact) error {
	before, err := a.nodes.byID(f.UID)
	if err != nil || before != nil && !strip.Reduced(before.Object) && isRepeated(f, before.ResourceVersion) {
		return err
	}
	obj, err := decodeObject(f)
	if err != nil {
		return err
	}
	after := newNode(obj.(*corev1.Node), f.ResourceVersion)
	other, err := a.nodes.namesake(after)
	if err != nil {
		return err
	}
	if other != nil {
		a.replaceNode(other, nil)
	}
	a.replaceNode(before, after)
	return nil
}

// replaceNode records one change of a node. The pods on it are found by the node's name and need no change.
func (a *application) replaceNode(before, after *Node) {
	a.changes.Nodes = append(a.changes.Nodes, NodeChange{Before: before, After: after})
	a.nodes.replace(before, after)
}

// upsertObject adds or replaces an object of another kind, with the same steps as upsertPod.
func (a *application) upsertObject(f events.Fact) error {
	before, err := a.objects.byID(objectKey(f.Kind, f.UID))
	if err != nil || before != nil && !strip.Reduced(before.API) && isRepeated(f, before.ResourceVersion) {
		return err
	}
	obj, err := decodeObject(f)
	if err != nil {
		return err
	}
	after := newObject(f.Kind, obj, f.ResourceVersion)
	other, err := a.objects.namesake(after)
	if err != nil {
		return err
	}
	if other != nil {
		a.replaceObject(f.Kind, other, nil)
	}
	a.replaceObject(f.Kind, before, after)
	return nil
}

// replaceObject records one change of another object.
func (a *application) replaceObject(k events.Kind, before, after *Object) {
	a.changes.Others = append(a.changes.Others, ObjectChange{Kind: k, Before: before, After: after})
	a.objects.replace(before, after)
}

// remove deletes one object; an unknown one is no error: its deletion may be delivered again, or the object may
// have lost its name to another one before.
func (a *application) remove(f events.Fact) error {
	switch f.Kind {
	case events.KindPod:
		before, err := a.pods.byID(f.UID)
		if err != nil || before == nil {
			return err
		}
		return a.replacePod(PodChange{Before: before, DeletedRV: f.ResourceVersion})
	case events.KindNode:
		before, err := a.nodes.byID(f.UID)
		if before != nil {
			a.replaceNode(before, nil)
		}
		return err
	default:
		before, err := a.objects.byID(objectKey(f.Kind, f.UID))
		if before != nil {
			a.replaceObject(f.Kind, before, nil)
		}
		return err
	}
}
