package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// inventory drives the life of nodes: they are deleted, register again under their names, shrink and grow.
type inventory struct {
	// away are nodes that were deleted and may come back, and since when.
	away []awayNode
	// reregistrations counts the registrations of each name after the first.
	reregistrations map[string]int
	// registered is the resourceVersion at which each node came that has registered again, by UID.
	registered map[types.UID]uint64
}

type awayNode struct {
	node  *corev1.Node
	since time.Duration
}

// podGCWait is how long Kubernetes' pod garbage collector leaves pods whose node is gone, at least.
const podGCWait = 2 * time.Second

// steady: nodes are neither deleted nor resized, because that would hide the events that the run is about.
func (c *cluster) steady() bool {
	return c.strict || c.full() || c.moves() || c.family == massive || c.family == restarted
}

// turnOver is one thing that happens to a node.
func (c *cluster) turnOver(w *world) {
	if c.steady() {
		return
	}
	nodes := w.api.nodes()
	n := nodes[w.rng.IntN(len(nodes))]
	switch k := w.rng.IntN(10); {
	case len(c.away) > 0 && w.chance(60):
		c.comeBack(w, w.rng.IntN(len(c.away)))
	case k < 5:
		c.registerAgain(w, n)
	case k < 7 && len(nodes) > 1:
		c.leave(w, n)
	default:
		c.resize(w, n, 1+w.rng.IntN(3))
	}
}

// leave deletes a node, even with pods on it.
func (c *cluster) leave(w *world, n *corev1.Node) {
	w.tracef("node %s (%s) is deleted", n.Name, n.UID)
	w.hit("node deleted")
	if len(w.oracle.promised.docs[ledger.PrefixNode+string(n.UID)].GetEntries()) > 0 {
		w.hit("node deleted under reservations")
	}
	w.api.remove(events.KindNode, string(n.UID))
	c.away = append(c.away, awayNode{n, w.now})
}

// registerAgain deletes a node and has it come back at once, as another node.
func (c *cluster) registerAgain(w *world, n *corev1.Node) {
	c.leave(w, n)
	c.comeBack(w, len(c.away)-1)
}

// comeBack registers a node again under its name.
func (c *cluster) comeBack(w *world, i int) {
	n := c.away[i].node.DeepCopy()
	c.away = slices.Delete(c.away, i, i+1)
	c.reregistrations[n.Name]++
	n.UID = types.UID(fmt.Sprintf("node-%s-%d", n.Name, c.reregistrations[n.Name]))
	n.Spec.Unschedulable = false
	w.hit("node registered again")
	for _, p := range w.api.pods() {
		if p.Spec.NodeName == n.Name {
			w.hit("node registered again with pods bound to its name")
		}
	}
	if w.chance(25) {
		c.setRoom(w, n, 1+w.rng.IntN(3))
	}
	w.api.put(events.KindNode, n)
	c.registered[n.UID] = w.api.rv
	w.tracef("node %s registers again as %s, with room for %d", n.Name, n.UID, room(n))
}

// resize changes a node's allocatable.
func (c *cluster) resize(w *world, n *corev1.Node, pods int) {
	if int64(pods) == room(n) {
		return
	}
	n = n.DeepCopy()
	c.setRoom(w, n, pods)
	w.api.put(events.KindNode, n)
	w.tracef("node %s has room for %d now", n.Name, pods)
}

// setRoom gives a node that is about to be stored room for so many ordinary pods.
func (c *cluster) setRoom(w *world, n *corev1.Node, pods int) {
	was := room(n)
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(podCPU*int64(pods), resource.DecimalSI)
	w.oracle.resized[n.Name] = true
	switch {
	case room(n) < was:
		w.oracle.shrank(n.Name)
		w.hit("node shrank")
		if w.oracle.taken(n.Name) > room(n) {
			w.hit("node shrank below what stands there")
		}
	case room(n) > was:
		w.hit("node grew")
	}
}

// podGC deletes pods bound to nodes that have been deleted for a while, as Kubernetes does: without grace period and
// without checking budgets.
func (c *cluster) podGC(w *world, percent int) {
	if len(c.away) == 0 {
		return
	}
	for _, p := range w.api.pods() {
		gone := func(a awayNode) bool { return a.node.Name == p.Spec.NodeName && w.now-a.since >= podGCWait }
		if p.Spec.NodeName != "" && slices.ContainsFunc(c.away, gone) && w.chance(percent) {
			w.hit("pod of a deleted node collected")
			w.tracef("pod %s of node %s is collected", p.Name, p.Spec.NodeName)
			w.api.remove(events.KindPod, string(p.UID))
		}
	}
}

// boundBeforeReregistration reports whether a pod was bound to a node of this name before the node registered again. No
// process could foresee a conflict between such a pod and the pods placed in the meantime.
func (c *cluster) boundBeforeReregistration(s podPlacement) bool {
	return s.since < c.registered[s.node.UID]
}

// lagFacts leaves some readers of the facts without new ones for a while; they continue to read the ledger.
func (w *world) lagFacts(percent int) {
	for _, p := range w.processes() {
		b := p.base()
		if b.role != "queue" && w.chance(percent) {
			b.cut[toLog] = w.now + time.Duration(300+w.rng.IntN(4000))*time.Millisecond
			w.hit("cut off from log")
			w.tracef("%s is cut off from the log", b.member())
		}
	}
}

// returns: a node for which something has just been reserved registers again, and not every process observes it.
func returns(w *world, _ *proc, t ledger.Txn) {
	for _, put := range t.Puts {
		uid, is := strings.CutPrefix(put.Key, ledger.PrefixNode)
		n, exists := w.api.node(uid)
		if !is || !exists {
			continue
		}
		w.lagFacts(50)
		w.cluster.registerAgain(w, n)
		if w.chance(50) {
			w.cluster.fillCapacity(w)
		}
		return
	}
}

// fillCapacity creates as many pods as there is capacity for, so that free capacity is wanted at once.
func (c *cluster) fillCapacity(w *world) {
	for range 3 {
		if len(w.api.pods()) < maxPods+4 {
			c.addPod(w)
		}
	}
}
