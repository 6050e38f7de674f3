package placementtest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Size bounds what Cluster draws.
type Size struct {
	// MinNodes and MaxNodes are the bounds of the number of nodes.
	MinNodes, MaxNodes int
	// MaxPodsPerNode is the largest number of pods that a node starts with.
	MaxPodsPerNode int
	// Volumes is the percentage of pods with volumes; 0 for a cluster without any.
	Volumes int
	// Devices is the percentage of pods with device claims; 0 for a cluster without any.
	Devices int
	// Alpha makes objects use features that 1.36 has off by default: see alpha.go. Without it no object does, as on an
	// API server that drops or refuses their fields.
	Alpha bool
}

// Small is the size that finds most differences: every rule has room to differ, and decisions are fast.
var Small = Size{MinNodes: 5, MaxNodes: 40, MaxPodsPerNode: 4}

// Generator draws input. Its Rand may be used for other draws of the same test. It is not safe for concurrent use.
type Generator struct {
	*rand.Rand
	// Size is the size of the next Cluster; New sets Small.
	Size Size

	serial int
	// promised holds the claims that a volume names.
	promised map[string]bool
	// required is the driver whose CSIDriver has preventPodSchedulingIfMissing; empty for none.
	required string
}

// New returns a generator whose output depends only on the seed.
func New(seed uint64) *Generator {
	return &Generator{Rand: rand.New(rand.NewPCG(seed, 0)), Size: Small}
}

// Chance returns true in this percentage of calls.
func (g *Generator) Chance(percent int) bool { return g.IntN(100) < percent }

// rarely is for features that fail a whole decision.
func (g *Generator) rarely() bool { return g.IntN(1000) < 6 }

// Pick returns one of the values, all with the same likelihood.
func Pick[T any](g *Generator, values ...T) T { return values[g.IntN(len(values))] }

// Some returns each value with the given likelihood, in their order; nil for none.
func Some[T any](g *Generator, percent int, values ...T) []T {
	var list []T
	for _, v := range values {
		if g.Chance(percent) {
			list = append(list, v)
		}
	}
	return list
}

// next returns a new name.
func (g *Generator) next(prefix string) string {
	g.serial++
	return fmt.Sprintf("%s-%d", prefix, g.serial)
}

// meta names a new object.
func (g *Generator) meta(namespace, prefix string) metav1.ObjectMeta {
	name := g.next(prefix)
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}
}

// label sets a label, more often than not.
func (g *Generator) label(labels map[string]string, key string, values ...string) {
	if g.Chance(60) {
		labels[key] = Pick(g, values...)
	}
}

// amount sets a resource with the given likelihood.
func (g *Generator) amount(list corev1.ResourceList, name corev1.ResourceName, percent int, q resource.Quantity) {
	if g.Chance(percent) {
		list[name] = q
	}
}

func quantity(v int64) resource.Quantity { return *resource.NewQuantity(v, resource.BinarySI) }
func milli(v int64) resource.Quantity    { return *resource.NewMilliQuantity(v, resource.DecimalSI) }

// Cluster draws a cluster with pods on its nodes.
func (g *Generator) Cluster() Cluster {
	var c Cluster
	for _, name := range []string{"default", "team", "empty"} {
		c.put(events.KindNamespace, g.namespace(name))
	}
	for range 1 + g.IntN(4) {
		c.put(events.KindService, g.service())
	}
	for range g.IntN(3) {
		for _, k := range controllerKinds {
			c.put(k, g.controller(k))
		}
	}
	if g.Size.Volumes > 0 {
		g.volumes(&c)
	}
	if g.Size.Devices > 0 {
		g.devices(&c)
	}
	for range g.Size.MinNodes + g.IntN(g.Size.MaxNodes-g.Size.MinNodes+1) {
		n := g.Node()
		c.put(events.KindNode, n)
		if g.Size.Volumes > 0 && g.Chance(80) {
			c.put(events.KindCSINode, g.csiNode(n.Name))
		}
		if g.Size.Devices > 0 {
			for _, s := range g.nodeSlices(n.Name) {
				c.put(events.KindResourceSlice, s)
			}
		}
		for range g.IntN(g.Size.MaxPodsPerNode + 1) {
			p := g.placed(&c, n.Name)
			c.put(events.KindPod, p)
			for _, e := range g.ownClaims(p, &c) {
				c.put(e.Kind, e.New)
			}
		}
	}
	for g.Size.Volumes > 0 && len(c.Others[events.KindVolumeAttachment]) < len(c.Nodes)/3 {
		c.put(events.KindVolumeAttachment, g.attachment(&c))
	}
	if g.Size.Devices > 0 {
		g.claimsToDevices(&c)
	}
	return c
}
