package placementtest

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Cluster is a cluster as the API server shows it. The zero value is an empty cluster. Its objects are read-only.
type Cluster struct {
	// Nodes are sorted by name.
	Nodes []*corev1.Node
	// Pods are those with a node, sorted by namespace and name. The node need not exist (any more), and the pod may
	// have ended.
	Pods []*corev1.Pod
	// Others holds namespaces, services and controllers by kind, each sorted by namespace and name.
	Others map[events.Kind][]state.APIObject
}

// Clone returns a copy to which events can be applied independently.
func (c *Cluster) Clone() Cluster {
	others := maps.Clone(c.Others)
	for k, list := range others {
		others[k] = slices.Clone(list)
	}
	return Cluster{Nodes: slices.Clone(c.Nodes), Pods: slices.Clone(c.Pods), Others: others}
}

// Apply applies the change and returns it as it actually was: Old is the object that had the name so far. So a
// history from which steps have been removed can still be applied.
func (c *Cluster) Apply(e Event) Event {
	obj := e.New
	if obj == nil {
		obj = e.Old
	}
	e.Old = c.find(e.Kind, obj.GetNamespace(), obj.GetName())
	switch {
	case e.New != nil:
		c.put(e.Kind, e.New)
	case e.Old != nil:
		c.drop(e.Kind, e.Old)
	}
	return e
}

// Start is the name of the events of Cluster.Events.
const Start = "start"

// Events returns the history that builds the cluster from an empty one: other objects, nodes, then pods.
func (c *Cluster) Events() []Event {
	var list []Event
	for _, k := range slices.Sorted(maps.Keys(c.Others)) {
		for _, obj := range c.Others[k] {
			list = append(list, Event{What: Start, Kind: k, New: obj})
		}
	}
	for _, n := range c.Nodes {
		list = append(list, Event{What: Start, Kind: events.KindNode, New: n})
	}
	for _, p := range c.Pods {
		list = append(list, Event{What: Start, Kind: events.KindPod, New: p})
	}
	return list
}

// byName orders objects of one kind.
func byName[T state.APIObject](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// named returns the position of the object with that name in a list, or the position where it would be.
func named[T state.APIObject](list []T, namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(list, "", func(obj T, _ string) int {
		return cmp.Or(cmp.Compare(obj.GetNamespace(), namespace), cmp.Compare(obj.GetName(), name))
	})
}

func inserted[T state.APIObject](list []T, obj T) []T {
	i, found := named(list, obj.GetNamespace(), obj.GetName())
	if found {
		list[i] = obj
		return list
	}
	return slices.Insert(list, i, obj)
}

func removed[T state.APIObject](list []T, obj T) []T {
	if i, found := named(list, obj.GetNamespace(), obj.GetName()); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// find returns nil if there is none.
func (c *Cluster) find(k events.Kind, namespace, name string) state.APIObject {
	switch k {
	case events.KindNode:
		if i, found := named(c.Nodes, namespace, name); found {
			return c.Nodes[i]
		}
	case events.KindPod:
		if i, found := named(c.Pods, namespace, name); found {
			return c.Pods[i]
		}
	default:
		if i, found := named(c.Others[k], namespace, name); found {
			return c.Others[k][i]
		}
	}
	return nil
}

func (c *Cluster) put(k events.Kind, obj state.APIObject) {
	switch typed := obj.(type) {
	case *corev1.Node:
		c.Nodes = inserted(c.Nodes, typed)
	case *corev1.Pod:
		c.Pods = inserted(c.Pods, typed)
	default:
		if c.Others == nil {
			c.Others = map[events.Kind][]state.APIObject{}
		}
		c.Others[k] = inserted(c.Others[k], obj)
	}
}

func (c *Cluster) drop(k events.Kind, obj state.APIObject) {
	switch typed := obj.(type) {
	case *corev1.Node:
		c.Nodes = removed(c.Nodes, typed)
	case *corev1.Pod:
		c.Pods = removed(c.Pods, typed)
	default:
		c.Others[k] = removed(c.Others[k], obj)
	}
}
