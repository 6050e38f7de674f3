package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// strikesOut is how many disagreements about one node within strikeWindow, without a pod
	// bound there in between, put it into quarantine. A node that many shards fight over is
	// bound to all the time, so contention alone does not come so far.
	strikesOut   = 12
	strikeWindow = 2 * time.Minute
	// quarantineShare bounds the nodes in quarantine to one in so many: where more would
	// qualify, it is not the nodes.
	quarantineShare = 20
	// quarantineFrom is how many nodes a cluster must have for one to be dispensable.
	quarantineFrom = 4
)

// quarantineSpan is how long a node is in quarantine.
var quarantineSpan = span{first: time.Minute, most: 10 * time.Minute, forgets: 30 * time.Minute}

// trust keeps the record of disagreements about nodes: what this shard believed of one and
// the ledger did not let stand, and what any shard reserved and a binder took back. Nodes that
// give no cause are not in it.
type trust struct {
	nodes map[string]*conduct
	// out counts the nodes in quarantine.
	out int
}

type conduct struct {
	name    string
	strikes []strike
	out     bool
	pause   pause
}

// strike is a disagreement about a node. Namespace is that of the pod if its owner could have made it, else empty.
type strike struct {
	at        time.Time
	namespace string
}

// Notice is something about a node that people should hear of.
type Notice struct {
	Node string
	What NoticeKind
	// Detail is a sentence about it, without the node's name.
	Detail string
}

// NoticeKind says what a Notice is about.
type NoticeKind string

// The kinds of notices.
const (
	Quarantined     NoticeKind = "quarantined"
	QuarantineEnded NoticeKind = "quarantine-ended"
	// Spared: it should be in quarantine, but so many are that it is not.
	Spared NoticeKind = "spared"
	// Doubted: its kubelet found less room than the facts show.
	Doubted NoticeKind = "doubted"
	// Avoided: its kubelet rejected a pod, and the pods of the same owner go elsewhere.
	Avoided NoticeKind = "avoided"
)

// strike notes one disagreement about a node. Those that the owner of a pod could have made count once for each
// namespace: it takes many tenants to put a node into quarantine by them.
func (c *Core) strike(nodeUID, nodeName, namespace string) {
	if c.trust.nodes == nil {
		c.trust.nodes = map[string]*conduct{}
	}
	n := c.trust.nodes[nodeUID]
	if n == nil {
		n = &conduct{name: nodeName}
		c.trust.nodes[nodeUID] = n
	}
	if n.out {
		return // what was under way when it began
	}
	for len(n.strikes) > 0 && c.now.Sub(n.strikes[0].at) > strikeWindow {
		n.strikes = n.strikes[1:]
	}
	if namespace != "" && slices.ContainsFunc(n.strikes, func(s strike) bool { return s.namespace == namespace }) {
		return
	}
	n.strikes = append(n.strikes, strike{c.now, namespace})
	if len(n.strikes) < strikesOut {
		return
	}
	n.strikes = nil
	if nodes := len(c.view.Nodes()); nodes < quarantineFrom || c.trust.out >= max(1, nodes/quarantineShare) {
		c.notice(nodeName, Spared, fmt.Sprintf("%d reservations in a row did not stand; not in quarantine, "+
			"because %d of %d nodes are", strikesOut, c.trust.out, nodes))
		return
	}
	n.out = true
	n.pause.begin(c.now, quarantineSpan)
	c.trust.out++
	c.leave(nodeUID, inQuarantine)
	c.notice(nodeName, Quarantined, fmt.Sprintf("%d reservations in a row did not stand; left alone for %s, "+
		"or until a pod is bound there", strikesOut, n.pause.until.Sub(c.now)))
}

// agreed notes that a pod was bound to a node.
func (c *Core) agreed(nodeUID string) {
	if n, ok := c.trust.nodes[nodeUID]; ok {
		n.strikes = nil
		c.discharge(nodeUID, n)
	}
}

func (c *Core) discharge(nodeUID string, n *conduct) {
	if n.out {
		n.out = false
		c.trust.out--
		c.letGo(nodeUID, inQuarantine)
		c.notice(n.name, QuarantineEnded, "it is used again")
	}
}

// passTrust ends quarantines whose time has come, and forgets.
func (c *Core) passTrust() {
	for _, uid := range slices.Sorted(maps.Keys(c.trust.nodes)) {
		n := c.trust.nodes[uid]
		if n.pause.on(c.now) {
			continue
		}
		c.discharge(uid, n)
		idle := len(n.strikes) == 0 || c.now.Sub(n.strikes[len(n.strikes)-1].at) > strikeWindow
		if idle && n.pause.over(c.now, quarantineSpan) {
			delete(c.trust.nodes, uid)
		}
	}
}

// takenBack finds reservations that binders have fenced and released although their pod is
// still there to be bound, whichever shard's they were.
func (c *Core) takenBack(changes ledger.ViewChanges) {
	for _, d := range changes.Docs {
		for i := range d.Before.Entries {
			e := &d.Before.Entries[i]
			if e.Role != ledger.RoleReservation || e.State != ledger.Fencing {
				continue
			}
			if now, still := d.After.Find(e.PodUID); still && now.Token == e.Token {
				continue
			}
			if pod, known := c.view.Pod(e.PodUID); known && pod.NodeName == "" && !pod.Deleting {
				c.blame(d.Before, e)
			}
		}
	}
}

// blame holds a fence against its node if it says something about it.
func (c *Core) blame(d ledger.NodeDoc, e *ledger.Entry) {
	switch e.Cause {
	case ledger.FenceByPod, ledger.FenceByWant:
	case ledger.FenceByClaims, ledger.FenceByBind:
		c.strike(d.NodeUID, d.NodeName, e.Namespace)
	default: // by the node, or by a binder of a version that does not say so
		c.strike(d.NodeUID, d.NodeName, "")
	}
}

// regard takes in what facts say about nodes: that they were bound to, that their kubelet
// rejected a pod, that there is more room or that they have changed.
func (c *Core) regard(changes state.Changes) {
	if len(c.trust.nodes)+len(c.kubelets.doubts) > 0 {
		c.regardMoves(changes)
	}
	for _, p := range changes.Pods {
		if p.After == nil || p.Before == nil || p.Before.Terminal {
			continue
		}
		if reason, _, rejected := p.After.Rejection(); rejected {
			c.turnedAway(p.After, reason)
		}
	}
}

func (c *Core) regardMoves(changes state.Changes) {
	for _, n := range changes.Nodes {
		if n.Before != nil {
			c.undoubt(n.Before.UID)
		}
	}
	for _, p := range changes.Pods {
		was, is := p.Before != nil && p.Before.Occupies(), p.After != nil && p.After.Occupies()
		switch {
		case is && !was:
			if n, ok := c.view.Snapshot().NodeByName(p.After.NodeName); ok {
				c.agreed(n.UID)
			}
		case was && !is:
			if n, ok := c.view.Snapshot().NodeByName(p.Before.NodeName); ok {
				c.undoubt(n.UID)
			}
		}
	}
}

func (c *Core) notice(node string, what NoticeKind, detail string) {
	c.notices = append(c.notices, Notice{Node: node, What: what, Detail: detail})
}
