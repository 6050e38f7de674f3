package avoid

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// maxConflicts is how many disagreements about one node within conflictWindow, without a pod bound there in
	// between, put it into quarantine. Pods are bound all the time to a node that many shards compete for, so
	// contention alone does not reach the limit.
	maxConflicts   = 12
	conflictWindow = 2 * time.Minute
)

// conflict is a disagreement about a node. Namespace is that of the pod if its owner could have made it, else empty.
type conflict struct {
	at        time.Time
	namespace string
}

// idle reports whether no conflict counts any more.
func (r *row) idle(now time.Time) bool {
	return len(r.conflicts) == 0 || now.Sub(r.conflicts[len(r.conflicts)-1].at) > conflictWindow
}

// RecordConflict notes one disagreement about a node: the ledger refused what this shard assumed about it, or a binder
// took back what any shard had reserved. Disagreements that the owner of a pod could have caused (namespace is set)
// count once for each namespace: it takes many tenants to put a node into quarantine that way.
func (t *Table) RecordConflict(nodeUID, nodeName, namespace string, now time.Time) {
	n := t.row(nodeUID, nodeName, Quarantine)
	if n.active {
		return // this was in progress when the quarantine began
	}
	for len(n.conflicts) > 0 && now.Sub(n.conflicts[0].at) > conflictWindow {
		n.conflicts = n.conflicts[1:]
	}
	if namespace != "" && slices.ContainsFunc(n.conflicts, func(c conflict) bool { return c.namespace == namespace }) {
		return
	}
	n.conflicts = append(n.conflicts, conflict{now, namespace})
	if len(n.conflicts) < maxConflicts {
		return
	}
	n.conflicts = nil
	if active, nodes, full := t.full(Quarantine); full {
		t.notice(nodeName, QuarantineRefused, fmt.Sprintf("%d reservations in a row did not stand; not in quarantine, "+
			"because %d of %d nodes are", maxConflicts, active, nodes))
		return
	}
	n.active = true
	n.begin(now, rules[Quarantine].backoff)
	t.Begin(nodeUID, Quarantine)
	t.notice(nodeName, Quarantined, fmt.Sprintf("%d reservations in a row did not stand; left alone for %s, "+
		"or until a pod is bound there", maxConflicts, n.until.Sub(now)))
}

// bound notes that a pod was bound to a node.
func (t *Table) bound(nodeUID string) {
	if n, ok := t.nodes[Quarantine][nodeUID]; ok {
		n.conflicts = nil
		t.end(nodeUID, Quarantine)
	}
}

// FollowWatch looks in changes of the ledger for reservations of any shard that binders have fenced and released
// although their pod still exists and could be bound.
func (t *Table) FollowWatch(changes replica.Changes, now time.Time) {
	for _, d := range changes.Docs {
		for i := range d.Before.Entries {
			e := &d.Before.Entries[i]
			if e.Role != ledger.RoleReservation || e.State != ledger.Fencing {
				continue
			}
			if after, still := d.After.Find(e.PodUID); still && after.Token == e.Token {
				continue
			}
			if pod, known := t.cluster.Pod(e.PodUID); known && pod.NodeName == "" && !pod.Deleting {
				t.countFence(d.Before, e, now)
			}
		}
	}
}

// countFence counts a fence against its node, if its cause concerns the node.
func (t *Table) countFence(d ledger.NodeDoc, e *ledger.Entry, now time.Time) {
	switch e.Cause {
	case ledger.FenceByPod, ledger.FenceByWant:
	case ledger.FenceByClaims, ledger.FenceByBind:
		t.RecordConflict(d.NodeUID, d.NodeName, e.Namespace, now)
	default: // by the node, or by a binder of a version that does not say so
		t.RecordConflict(d.NodeUID, d.NodeName, "", now)
	}
}

// FollowFacts applies facts about nodes: a pod was bound, a kubelet rejected a pod, resources became free, or the
// node changed.
func (t *Table) FollowFacts(changes state.Changes, now time.Time) {
	if len(t.nodes[Quarantine])+len(t.nodes[Doubt]) > 0 {
		t.followMoves(changes)
	}
	for _, p := range changes.Pods {
		if p.After == nil || p.Before == nil || p.Before.Terminal {
			continue
		}
		if reason, _, rejected := p.After.Rejection(); rejected {
			t.rejected(p.After, reason, now)
		}
	}
}

// onlyMarksMoved reports whether nothing has changed on a node but Berth's own marks. The binder marks nodes because
// they are avoided, so its write is no reason to end that.
func onlyMarksMoved(n state.NodeChange) bool {
	return n.After != nil && n.Before.Marks != n.After.Marks && n.Before.ReadsLike(n.After)
}

func (t *Table) followMoves(changes state.Changes) {
	for _, n := range changes.Nodes {
		if n.Before != nil && !onlyMarksMoved(n) {
			t.end(n.Before.UID, Doubt)
		}
	}
	for _, p := range changes.Pods {
		was, is := p.Before != nil && p.Before.Occupies(), p.After != nil && p.After.Occupies()
		switch {
		case is && !was:
			if n, ok := t.cluster.Snapshot().NodeByName(p.After.NodeName); ok {
				t.bound(n.UID)
			}
		case was && !is:
			if n, ok := t.cluster.Snapshot().NodeByName(p.Before.NodeName); ok {
				t.end(n.UID, Doubt)
			}
		}
	}
}
