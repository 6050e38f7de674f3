package placementtest

import (
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// Follower receives every change of a View, after it was applied; *engine.Engine is one. It receives only
// changes of existing nodes: pods on other nodes are part of SetNode when the node is added. A version of a node that
// reads like the one before (state.Node.ReadsLike) is no change.
type Follower interface {
	SetNode(n *state.NodeInfo)
	DropNode(n *state.NodeInfo)
	// ChangePod reports that a pod was added (before is nil), removed (after is nil) or replaced by another version.
	ChangePod(n *state.NodeInfo, before, after *state.Pod)
	SetObjects(o rule.Objects)
}

// View is a cluster as a scheduler holds it, updated by events. It is not safe for concurrent use.
type View struct {
	followers []Follower
	cluster   Cluster
	infos     map[string]*state.NodeInfo // also of nodes that are gone or do not exist yet but have pods
	nodes     []*state.NodeInfo          // existing nodes, sorted by name
	objects   Catalog
}

// NewView returns the view of an empty cluster.
func NewView(followers ...Follower) *View {
	v := &View{followers: followers, infos: map[string]*state.NodeInfo{}}
	v.notify(func(f Follower) { f.SetObjects(v.objects) })
	return v
}

// Nodes returns all nodes, sorted by name. The slice belongs to the view and is valid until the next Apply.
func (v *View) Nodes() []*state.NodeInfo { return v.nodes }

// Objects returns all other objects. The result does not change when the view does.
func (v *View) Objects() rule.Objects { return v.objects }

// Apply applies a change. An update of an object that does not exist counts as its addition, and its removal is
// ignored.
func (v *View) Apply(e Event) {
	e = v.cluster.Apply(e)
	switch e.Kind {
	case events.KindNode:
		_, after := e.Nodes()
		v.setNode(e, after)
	case events.KindPod:
		before, after := e.Pods()
		v.changePod(before, after)
	default:
		v.objects = v.objects.with(e)
		v.notify(func(f Follower) { f.SetObjects(v.objects) })
	}
}

func (v *View) notify(each func(Follower)) {
	for _, f := range v.followers {
		each(f)
	}
}

// info returns the NodeInfo for a node name, created if necessary.
func (v *View) info(name string) *state.NodeInfo {
	n, ok := v.infos[name]
	if !ok {
		n = state.NewNodeInfo(nil)
		v.infos[name] = n
	}
	return n
}

func (v *View) place(name string) (int, bool) {
	return slices.BinarySearchFunc(v.nodes, name, func(n *state.NodeInfo, name string) int {
		return strings.Compare(n.Node.Name, name)
	})
}

func (v *View) setNode(e Event, after *corev1.Node) {
	if after == nil {
		if e.Old != nil {
			v.dropNode(e.Old.GetName())
		}
		return
	}
	n := v.info(after.Name)
	old := n.Node
	obj := after.DeepCopy()
	strip.Strip(obj)
	n.SetNode(state.NewNode(obj))
	if old == nil {
		i, _ := v.place(after.Name)
		v.nodes = slices.Insert(v.nodes, i, n)
	}
	if old == nil || !old.ReadsLike(n.Node) {
		v.notify(func(f Follower) { f.SetNode(n) })
	}
}

func (v *View) dropNode(name string) {
	i, _ := v.place(name)
	n := v.nodes[i]
	v.nodes = slices.Delete(v.nodes, i, i+1)
	v.notify(func(f Follower) { f.DropNode(n) })
	n.SetNode(nil)
	if n.PodCount() == 0 {
		delete(v.infos, name)
	}
}

// changePod replaces a pod by its next version; nil for none. A version on the same node is put in the place of the
// one before.
func (v *View) changePod(before, after *corev1.Pod) {
	was, is := v.placed(before), occupying(after)
	switch {
	case was != nil && is != nil && before.Spec.NodeName == is.NodeName && was.UID == is.UID:
		n := v.infos[is.NodeName]
		n.ReplacePod(is)
		v.notifyOf(n, was, is)
		return
	case was != nil:
		n := v.infos[before.Spec.NodeName]
		n.RemovePod(was.UID)
		v.notifyOf(n, was, nil)
		if n.Node == nil && n.PodCount() == 0 {
			delete(v.infos, before.Spec.NodeName)
		}
	}
	if is != nil {
		n := v.info(is.NodeName)
		n.AddPod(is)
		v.notifyOf(n, nil, is)
	}
}

// notifyOf reports a change of a pod, if its node exists.
func (v *View) notifyOf(n *state.NodeInfo, before, after *state.Pod) {
	if n.Node != nil {
		v.notify(func(f Follower) { f.ChangePod(n, before, after) })
	}
}

// occupying returns a pod as a fact would have it; nil if it occupies no node.
func occupying(obj *corev1.Pod) *state.Pod {
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopy()
	strip.Strip(obj)
	if pod := state.NewPod(obj); pod.Occupies() {
		return pod
	}
	return nil
}

// placed returns the version of a pod that is on a node; nil if there is none.
func (v *View) placed(obj *corev1.Pod) *state.Pod {
	if obj == nil {
		return nil
	}
	if n := v.infos[obj.Spec.NodeName]; n != nil {
		for p := range n.Pods() {
			if p.UID == string(obj.UID) {
				return p
			}
		}
	}
	return nil
}

// Catalog holds the objects of a cluster other than pods and nodes. It is immutable.
type Catalog struct {
	byKind map[events.Kind][]*state.Object
}

// with returns the catalog after a change; it shares the objects that did not change.
func (c Catalog) with(e Event) Catalog {
	next := Catalog{byKind: map[events.Kind][]*state.Object{}}
	for k, list := range c.byKind {
		next.byKind[k] = list
	}
	list := slices.Clone(c.byKind[e.Kind])
	if e.Old != nil {
		list = slices.DeleteFunc(list, func(o *state.Object) bool {
			return o.Namespace == e.Old.GetNamespace() && o.Name == e.Old.GetName()
		})
	}
	if e.New != nil {
		obj := e.New.(runtime.Object).DeepCopyObject().(state.APIObject)
		strip.Strip(obj)
		list = append(list, &state.Object{
			Kind: e.Kind, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(), API: obj,
		})
		slices.SortFunc(list, func(a, b *state.Object) int { return byName(a.API, b.API) })
	}
	next.byKind[e.Kind] = list
	return next
}

// ObjectByName implements rule.Objects.
func (c Catalog) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	for o := range c.ObjectsIn(k, namespace) {
		if o.Name == name {
			return o, true
		}
	}
	return nil, false
}

// ObjectsOf implements rule.Objects.
func (c Catalog) ObjectsOf(k events.Kind, key string) iter.Seq[*state.Object] {
	return func(yield func(*state.Object) bool) {
		for _, o := range c.byKind[k] {
			if under, filed := state.FileOf(o.API); filed && under == key && !yield(o) {
				return
			}
		}
	}
}

// PodsOfGroup implements rule.Objects: a catalog has no pods.
func (Catalog) PodsOfGroup(string, string) iter.Seq[*state.Pod] {
	return rule.NoObjects{}.PodsOfGroup("", "")
}

// Objects implements rule.Objects.
func (c Catalog) Objects(k events.Kind) iter.Seq[*state.Object] { return slices.Values(c.byKind[k]) }

// ObjectsIn implements rule.Objects.
func (c Catalog) ObjectsIn(k events.Kind, namespace string) iter.Seq[*state.Object] {
	return func(yield func(*state.Object) bool) {
		for _, o := range c.byKind[k] {
			if o.Namespace == namespace && !yield(o) {
				return
			}
		}
	}
}
