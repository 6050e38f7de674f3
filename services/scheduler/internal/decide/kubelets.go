package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// The kubelet has the last word: it counts pods that are still stopping, aligns processors and
// devices, and looks at its own labels and disk. Its no is final for the pod, and the pod's
// owner makes another, which would be sent to the same node at once.

const (
	// doubtShare bounds the nodes that are left alone for want of room to one in so many.
	doubtShare = 10
	// maxAvoiders bounds the workloads that avoid nodes, and maxAvoided the nodes that each
	// does: past that, the ones that were rejected the longest ago are forgotten.
	maxAvoiders = 1024
	maxAvoided  = 16
)

// Times to keep away from a node: all pods, after a rejection for want of room, and the pods
// of an owner, after any. The kubelet counts a pod until its containers are gone (30 s of grace
// by default), and needs some seconds to say in its status what has changed.
var (
	doubtSpan = span{first: 10 * time.Second, most: 5 * time.Minute, forgets: 15 * time.Minute}
	avoidSpan = span{first: 30 * time.Second, most: 10 * time.Minute, forgets: 30 * time.Minute}
)

// kubelets is what their rejections have taught.
type kubelets struct {
	// doubts by node UID.
	doubts map[string]*doubt
	// avoids by workload, then by node UID.
	avoids map[string]map[string]*pause
	ended  endedReservations
}

// maxEnded is how many reservations are remembered after their end: kubelets reject within seconds of the bind.
const maxEnded = 8192

// endedReservations are the latest reservations that the ledger does not have any more: the facts stand for them, or
// they were taken back. A ring and not a map: every pod that is placed gets here, and hardly one is looked up.
type endedReservations struct {
	ring []reserved
	next int
}

type reserved struct{ podUID, nodeUID string }

func (h *endedReservations) add(r reserved) {
	if h.ring == nil {
		h.ring = make([]reserved, maxEnded)
	}
	h.ring[h.next] = r
	h.next = (h.next + 1) % maxEnded
}

// noteEnded finds reservations that documents do not have any more. What stays in a document keeps its order.
func (c *Core) noteEnded(docs []ledger.DocChange) {
	for i := range docs {
		before, after := docs[i].Before.Entries, docs[i].After.Entries
		at := 0
		for j := range before {
			e := &before[j]
			if at < len(after) && after[at].Token == e.Token && after[at].Role == e.Role && after[at].PodUID == e.PodUID {
				at++
				continue
			}
			if e.Role == ledger.RoleReservation && e.State != ledger.Held {
				c.kubelets.ended.add(reserved{e.PodUID, docs[i].Before.NodeUID})
			}
		}
	}
}

// reservedOn reports whether the ledger has or had a place for a pod on a node, as far as this shard has seen.
func (c *Core) reservedOn(podUID, nodeUID string) bool {
	for doc := range c.ledger.Reservations(podUID) {
		if doc.NodeUID == nodeUID {
			return true
		}
	}
	return slices.Contains(c.kubelets.ended.ring, reserved{podUID, nodeUID})
}

type doubt struct {
	on    bool
	pause pause
}

// turnedAway takes in that a kubelet has turned a pod away. Pods that somebody else has put on
// their node do not count: nobody here thought that they fit. The pod's annotation with the attempt is no evidence, as
// anybody may write it: the ledger is. (What this shard has missed of it, by a restart, it does not learn from.)
func (c *Core) turnedAway(pod *state.Pod, reason string) {
	n, ok := c.view.Snapshot().NodeByName(pod.NodeName)
	if !ok || !c.reservedOn(pod.UID, n.UID) {
		return
	}
	c.avoid(pod, n, reason)
	if state.Insufficient(reason) {
		c.doubt(n, reason)
	}
}

// doubt leaves a node alone: what is free there is not what we think, until the node or its
// pods move, or for a while.
func (c *Core) doubt(n *state.Node, reason string) {
	if c.kubelets.doubts == nil {
		c.kubelets.doubts = map[string]*doubt{}
	}
	on := 0
	for _, d := range c.kubelets.doubts {
		if d.on {
			on++
		}
	}
	d := c.kubelets.doubts[n.UID]
	if d == nil {
		d = &doubt{}
		c.kubelets.doubts[n.UID] = d
	}
	if nodes := len(c.view.Nodes()); !d.on && (nodes < 2 || on >= max(1, nodes/doubtShare)) {
		return
	}
	d.on = true
	d.pause.begin(c.now, doubtSpan)
	c.leave(n.UID, doubted)
	c.notice(n.Name, Doubted, fmt.Sprintf("its kubelet says %s; left alone for %s, or until the node or its pods change",
		reason, d.pause.until.Sub(c.now)))
}

func (c *Core) undoubt(nodeUID string) {
	if d, ok := c.kubelets.doubts[nodeUID]; ok && d.on {
		d.on = false
		c.letGo(nodeUID, doubted)
	}
}

// avoid keeps the pods of one owner from a node for a while.
func (c *Core) avoid(pod *state.Pod, n *state.Node, reason string) {
	if c.kubelets.avoids == nil {
		c.kubelets.avoids = map[string]map[string]*pause{}
	}
	owner := workload(pod)
	nodes := c.kubelets.avoids[owner]
	if nodes == nil {
		nodes = map[string]*pause{}
		c.kubelets.avoids[owner] = nodes
	}
	p := nodes[n.UID]
	if p == nil {
		p = &pause{}
		nodes[n.UID] = p
	}
	p.begin(c.now, avoidSpan)
	c.notice(n.Name, Avoided, fmt.Sprintf("its kubelet rejected pod %s (%s); its owner's pods avoid the node for %s",
		pod.Key(), reason, p.until.Sub(c.now)))
	forgetOldest(nodes, maxAvoided, func(p *pause) time.Time { return p.last })
	forgetOldest(c.kubelets.avoids, maxAvoiders, latest)
}

func latest(nodes map[string]*pause) time.Time {
	var last time.Time
	for _, p := range nodes {
		if p.last.After(last) {
			last = p.last
		}
	}
	return last
}

// forgetOldest drops the oldest of more than limit.
func forgetOldest[V any](m map[string]V, limit int, at func(V) time.Time) {
	for len(m) > limit {
		oldest := ""
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if oldest == "" || at(m[key]).Before(at(m[oldest])) {
				oldest = key
			}
		}
		delete(m, oldest)
	}
}

// workload names what makes the next pod when one has failed: its controller or, for a pod
// without one, whoever makes another of its name. Controllers are in the namespaces of their pods: the UID alone is
// whatever the pod's maker writes.
func workload(pod *state.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod.Template); owner != nil {
		return pod.Namespace + "/" + string(owner.UID)
	}
	return pod.Key()
}

// avoided are the UIDs of the nodes that a pod must not go to now, sorted.
func (c *Core) avoided(pod *state.Pod) []string {
	if len(c.kubelets.avoids) == 0 {
		return nil
	}
	var uids []string
	for uid, p := range c.kubelets.avoids[workload(pod)] {
		if p.on(c.now) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// passKubelets ends doubts whose time has come, and forgets.
func (c *Core) passKubelets() {
	for uid, d := range c.kubelets.doubts {
		if !d.pause.on(c.now) {
			c.undoubt(uid)
		}
		if d.pause.over(c.now, doubtSpan) {
			delete(c.kubelets.doubts, uid)
		}
	}
	for owner, nodes := range c.kubelets.avoids {
		for uid, p := range nodes {
			if p.over(c.now, avoidSpan) {
				delete(nodes, uid)
			}
		}
		if len(nodes) == 0 {
			delete(c.kubelets.avoids, owner)
		}
	}
}
