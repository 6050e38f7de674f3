package state

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// application is one Apply in progress. It edits a version of the pods of its own. It reads memdb's tables as they were
// before and keeps changes of them in drafts until all facts are applied: a memdb transaction that is read between
// writes copies its paths again for each write. An error leaves the tables as they are, because nothing has been
// written, and the version of the pods is dropped.
type application struct {
	pods    podEdit
	names   nameDraft
	nodes   draft[Node]
	objects draft[Object]
	// sites are the pods of each node, groups those of each pod group.
	sites, groups siteDraft
	// changes is the result; its position advances with each fact.
	changes Changes
	// reader reuses its buffers for all pods of the application.
	reader podReader
	// applied counts the facts of the store, with those of this application.
	applied uint64
	// partial: facts of kinds of a later version were left out.
	partial bool
	// unreadable is the reason why the first unreadable fact cannot be read.
	unreadable error
}

// newApplication begins an application on the tables as they are.
func newApplication(s *Store, p Position) *application {
	s.edits++
	base := s.read
	a := &application{
		changes: Changes{Position: p},
		pods:    podEdit{podTable: s.pods, number: s.edits},
		nodes:   newDraft(base, tableNodes, func(n *Node) (string, string) { return n.UID, n.Name }),
		objects: newDraft(base, tableObjects, func(o *Object) (string, string) {
			return objectKey(o.Kind, o.UID), objectNameKey(o)
		}),
	}
	before := s.pods
	a.names = nameDraft{was: podNames{base, &before}, now: &a.pods.podTable}
	a.sites = siteDraft{base: base, table: tablePlaced, pods: &a.pods.podTable}
	a.groups = siteDraft{base: base, table: tableMembers, pods: &a.pods.podTable}
	return a
}

// write writes the drafts to the tables, in one transaction, and makes the edited pods those of the store. The order
// does not matter to readers, who see all of it or nothing once it is published.
func (a *application) write(s *Store) error {
	if err := a.writeTables(s); err != nil {
		return err
	}
	s.pods = a.pods.end()
	return nil
}

// writeTables writes the drafts, if there are any: what happens to pods between bind and deletion leaves none.
func (a *application) writeTables(s *Store) error {
	if len(a.names.changed)+len(a.sites.order)+len(a.groups.order)+len(a.nodes.order)+len(a.objects.order) == 0 {
		return nil
	}
	txn := s.db.Txn(true)
	defer txn.Abort()
	err := a.names.write(txn)
	if err == nil {
		err = a.sites.write(txn)
	}
	if err == nil {
		err = a.groups.write(txn)
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
	s.read = s.db.Txn(false)
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
	before, slot := a.pods.find(f.UID)
	if before != nil && !before.TooLarge() && isRepeated(f, before.ResourceVersion) {
		return nil
	}
	after, err := a.reader.read(f.Object, f.ResourceVersion)
	if err != nil {
		return decodeError(f, err)
	}
	if err := checkIdentity(f, after.UID, after.Namespace, after.Name); err != nil {
		return err
	}
	return a.putPod(after, before, slot, f.ResourceVersion)
}

// isRepeated reports whether a fact repeats what is held. A fact about an object that is held reduced may contain
// more of the same version: what is reduced, and to what, depends on the queue's version of Berth.
func isRepeated(f events.Fact, held uint64) bool {
	return held == f.ResourceVersion && f.ResourceVersion != 0
}

// putPod adds a pod, or replaces the version before, nil for none, in its slot. rv is that of the fact.
func (a *application) putPod(after, before *Pod, slot uint32, rv uint64) error {
	if before != nil && keyOf(before) == keyOf(after) { // then no other pod has its name
		return a.replacePod(slot, before, after)
	}
	if err := a.takeName(keyOf(after), rv); err != nil {
		return err
	}
	if before == nil {
		slot = a.pods.insert(after)
		a.names.set(keyOf(after), holder{slot: slot})
		a.changes.Pods = append(a.changes.Pods, PodChange{After: after})
		if err := a.join(slot, after); err != nil {
			return err
		}
		return a.moveToSite(slot, nil, after)
	}
	a.names.set(keyOf(before), holder{free: true})
	a.names.set(keyOf(after), holder{slot: slot})
	return a.replacePod(slot, before, after)
}

// takeName deletes the pod that has a name. The API server lets a name belong to one UID at a time, so that pod is
// gone, and its deletion was missed or follows later (a relist adds the new object before it notices that the old one
// is absent).
func (a *application) takeName(name podKey, rv uint64) error {
	slot, taken, err := a.names.holder(name)
	if err != nil || !taken {
		return err
	}
	return a.removePod(slot, rv)
}

// replacePod replaces a version of a pod, which has kept its name or been given the new one.
func (a *application) replacePod(slot uint32, before, after *Pod) error {
	if err := a.moveToSite(slot, before, after); err != nil {
		return err
	}
	if before.PodGroup() != after.PodGroup() { // one of them was too large for a queue that did not keep the field
		if err := a.leave(before); err != nil {
			return err
		}
		if err := a.join(slot, after); err != nil {
			return err
		}
	}
	a.pods.replace(slot, after)
	a.changes.Pods = append(a.changes.Pods, PodChange{Before: before, After: after})
	return nil
}

// removePod deletes the pod in a slot; rv is that of the deletion.
func (a *application) removePod(slot uint32, rv uint64) error {
	before := a.pods.at(slot)
	if err := a.moveToSite(slot, before, nil); err != nil {
		return err
	}
	if err := a.leave(before); err != nil {
		return err
	}
	a.names.set(keyOf(before), holder{free: true})
	a.pods.remove(slot)
	a.changes.Pods = append(a.changes.Pods, PodChange{Before: before, DeletedRV: rv})
	return nil
}

// moveToSite records on which node a pod is now, while its slot still holds the version before; nil for none. Both may
// be on different nodes only if the pod was replaced, since the API server does not move a bound pod; the old place is
// given up first in any case. A pod that stays keeps the string of its node's name, which all pods there share.
func (a *application) moveToSite(slot uint32, before, after *Pod) error {
	if before != nil && after != nil && before.NodeName == after.NodeName {
		after.NodeName = before.NodeName
		return nil
	}
	if before != nil && before.NodeName != "" {
		if err := a.sites.remove(before.NodeName, before.UID); err != nil {
			return err
		}
	}
	if after == nil || after.NodeName == "" {
		return nil
	}
	var err error
	after.NodeName, err = a.sites.add(after.NodeName, slot, after.UID)
	return err
}

// join records a new pod as a member of its pod group, and leave that a member is gone: a pod does not change its
// group. A pod without a group costs nothing.

func (a *application) join(slot uint32, pod *Pod) error {
	name := pod.PodGroup()
	if name == "" {
		return nil
	}
	_, err := a.groups.add(groupKey(pod.Namespace, name), slot, pod.UID)
	return err
}

func (a *application) leave(pod *Pod) error {
	name := pod.PodGroup()
	if name == "" {
		return nil
	}
	return a.groups.remove(groupKey(pod.Namespace, name), pod.UID)
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
		before, slot := a.pods.find(f.UID)
		if before == nil {
			return nil
		}
		return a.removePod(slot, f.ResourceVersion)
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
