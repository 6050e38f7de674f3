package placementtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Event is one change of one object. Objects are identified by kind, namespace and name; a new object under an old
// name has another UID.
type Event struct {
	// What describes the event for people.
	What string
	Kind events.Kind
	// Old is nil when the object is new; New is nil when it is gone.
	Old, New state.APIObject
}

// Pods returns Old and New of an event about a pod, else nil.
func (e Event) Pods() (before, after *corev1.Pod) {
	before, _ = e.Old.(*corev1.Pod)
	after, _ = e.New.(*corev1.Pod)
	return before, after
}

// Nodes returns Old and New of an event about a node, else nil.
func (e Event) Nodes() (before, after *corev1.Node) {
	before, _ = e.Old.(*corev1.Node)
	after, _ = e.New.(*corev1.Node)
	return before, after
}

// String returns one line.
func (e Event) String() string {
	obj := e.New
	if obj == nil {
		obj = e.Old
	}
	if obj == nil {
		return e.What
	}
	return fmt.Sprintf("%s: %s/%s", e.What, obj.GetNamespace(), obj.GetName())
}

// Event draws a change that could happen to the cluster next. It does not apply it.
func (g *Generator) Event(c *Cluster) Event {
	switch n := g.IntN(100); {
	case n < 55:
		return g.podEvent(c)
	case n < 85:
		return g.nodeEvent(c)
	case g.Size.Volumes > 0 && g.Chance(70):
		return g.volumeEvent(c)
	case g.Size.Devices > 0 && g.Chance(70):
		return g.deviceEvent(c)
	default:
		return g.otherEvent(c)
	}
}

// podEvent draws a change of a pod, most often an addition or a deletion.
func (g *Generator) podEvent(c *Cluster) Event {
	if len(c.Pods) == 0 || g.Chance(35) {
		node := g.next("lost-node")
		if len(c.Nodes) > 0 && g.Chance(97) {
			node = Pick(g, c.Nodes...).Name
		}
		return Event{What: "pod added", Kind: events.KindPod, New: g.placed(c, node)}
	}
	old := Pick(g, c.Pods...)
	switch {
	case g.Chance(40):
		return Event{What: "pod removed", Kind: events.KindPod, Old: old}
	case len(c.Nodes) > 0 && g.Chance(5):
		p := g.placed(c, Pick(g, c.Nodes...).Name)
		p.Namespace, p.Name = old.Namespace, old.Name
		// A claim for the old pod's ephemeral volume does not belong to the new pod, which is an error upstream.
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
		return Event{What: "pod replaced under its name", Kind: events.KindPod, Old: old, New: p}
	}
	p := old.DeepCopy()
	e := Event{Kind: events.KindPod, Old: old, New: p}
	switch g.IntN(6) {
	case 0:
		e.What, p.Labels = "pod relabelled", g.podLabels()
	case 1:
		e.What = "pod resize wanted"
		g.resize(p.Spec.Containers[g.IntN(len(p.Spec.Containers))].Resources.Requests)
	case 2:
		e.What = "pod resize under way"
		g.resizing(p)
	case 3:
		e.What, p.Status = "pod resize done", corev1.PodStatus{Phase: p.Status.Phase}
	case 4:
		e.What, p.DeletionTimestamp = "pod terminating", &metav1.Time{Time: time.Unix(1, 0)}
	default:
		e.What, p.Status.Phase = "pod ended", Pick(g, corev1.PodSucceeded, corev1.PodFailed)
	}
	return e
}

func (g *Generator) nodeEvent(c *Cluster) Event {
	switch {
	case len(c.Nodes) == 0 || g.Chance(12):
		return Event{What: "node added", Kind: events.KindNode, New: g.comingNode(c)}
	case g.Chance(12):
		return Event{What: "node removed", Kind: events.KindNode, Old: Pick(g, c.Nodes...)}
	case g.Chance(3):
		old, n := Pick(g, c.Nodes...), g.Node()
		n.Name = old.Name
		return Event{What: "node replaced under its name", Kind: events.KindNode, Old: old, New: n}
	}
	old := Pick(g, c.Nodes...)
	n := old.DeepCopy()
	e := Event{Kind: events.KindNode, Old: old, New: n}
	switch g.IntN(8) {
	case 0, 1:
		e.What, n.Labels = "node relabelled", g.nodeLabels(n.Name)
	case 2:
		e.What, n.Labels = "node lost a label", maps.Clone(n.Labels)
		delete(n.Labels, Pick(g, topologyKeys...))
	case 3:
		e.What, n.Spec.Taints = "node tainted", g.taints()
	case 4:
		e.What, n.Spec.Unschedulable = "node cordoned or not", !n.Spec.Unschedulable
	case 5:
		e.What, n.Status.Allocatable = "node allocatable changed", g.allocatable()
	case 6:
		e.What, n.Status.Images = "node images changed", g.images()
	default:
		e.What, n.Status.DeclaredFeatures = "node features changed", g.declaredFeatures()
	}
	return e
}

// comingNode returns a new node, or one that returns under the name by which pods refer to it.
func (g *Generator) comingNode(c *Cluster) *corev1.Node {
	n := g.Node()
	for _, p := range c.Pods {
		if _, found := named(c.Nodes, "", p.Spec.NodeName); !found && g.Chance(60) {
			n.Name = p.Spec.NodeName
			if _, ok := n.Labels[corev1.LabelHostname]; ok {
				n.Labels[corev1.LabelHostname] = n.Name
			}
			break
		}
	}
	return n
}

func (g *Generator) otherEvent(c *Cluster) Event {
	kind := Pick(g, append([]events.Kind{events.KindNamespace, events.KindNamespace, events.KindService},
		controllerKinds...)...)
	existing := c.Others[kind]
	if len(existing) > 0 && g.Chance(30) {
		return Event{What: string(kind) + " removed", Kind: kind, Old: Pick(g, existing...)}
	}
	var obj state.APIObject
	switch kind {
	case events.KindNamespace:
		obj = g.namespace(Pick(g, "default", "team", "empty", "lost"))
	case events.KindService:
		obj = g.service()
	default:
		obj = g.controller(kind)
	}
	e := Event{What: string(kind) + " added", Kind: kind, New: obj}
	if kind == events.KindNamespace {
		e.Old = c.find(kind, "", obj.GetName())
	} else if len(existing) > 0 && g.Chance(60) {
		e.replace(Pick(g, existing...))
	}
	return e.changed()
}

// replace makes the event put its object in the place of an existing one, under its name.
func (e *Event) replace(old state.APIObject) {
	e.Old = old
	e.New.SetNamespace(old.GetNamespace())
	e.New.SetName(old.GetName())
}

// changed turns the event into one about an existing object, if there was one.
func (e Event) changed() Event {
	if e.Old != nil {
		e.What = string(e.Kind) + " changed"
		e.New.SetUID(e.Old.GetUID())
	}
	return e
}

// Kinds returns the kinds of object that events are about.
func Kinds() []events.Kind {
	return slices.Concat([]events.Kind{events.KindPod, events.KindNode, events.KindNamespace, events.KindService},
		controllerKinds)
}
