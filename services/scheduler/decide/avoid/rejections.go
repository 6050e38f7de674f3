package avoid

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// The kubelet decides finally: it counts pods that are still stopping, aligns processors and devices, and checks its
// own labels and disk. Its rejection is final for the pod. The pod's owner creates another pod, which would be
// placed on the same node at once.

// maxEnded is how many reservations are remembered after their end: kubelets reject within seconds of the bind.
const maxEnded = 8192

// endedReservations are the latest reservations that are no longer in the ledger, because the facts have taken their
// place or they were taken back. It is a ring and not a map: every pod that is placed gets here, and hardly any is
// looked up.
type endedReservations struct {
	ring []reservation
	next int
}

type reservation struct{ podUID, nodeUID string }

func (h *endedReservations) add(r reservation) {
	if h.ring == nil {
		h.ring = make([]reservation, maxEnded)
	}
	h.ring[h.next] = r
	h.next = (h.next + 1) % maxEnded
}

// FollowDocs finds reservations that have left their documents. The remaining entries of a document keep their
// order.
func (t *Table) FollowDocs(docs []replica.DocChange) {
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
				t.ended.add(reservation{e.PodUID, docs[i].Before.NodeUID})
			}
		}
	}
}

// reservedOn reports whether the ledger has or had a place for a pod on a node, as far as this shard has seen.
func (t *Table) reservedOn(podUID, nodeUID string) bool {
	for doc := range t.placed(podUID) {
		if doc.NodeUID == nodeUID {
			return true
		}
	}
	return slices.Contains(t.ended.ring, reservation{podUID, nodeUID})
}

// rejected applies a kubelet's rejection of a pod. Pods that another scheduler has placed do not count: no shard
// decided that they fit. The pod's annotation with the attempt is no evidence, as any client may write it: the
// ledger is. (What this shard has missed of the ledger because of a restart does not count.)
func (t *Table) rejected(pod *state.Pod, reason string, now time.Time) {
	n, ok := t.cluster.Snapshot().NodeByName(pod.NodeName)
	if !ok || !t.reservedOn(pod.UID, n.UID) {
		return
	}
	t.avoidForOwner(pod, n, reason, now)
	if state.Insufficient(reason) {
		t.doubt(n, reason, now)
	}
}

// doubt makes all pods avoid a node whose free resources are not what we count, until the node or its pods change,
// or for a while.
func (t *Table) doubt(n *state.Node, reason string, now time.Time) {
	d := t.row(n.UID, n.Name, Doubt)
	if _, _, full := t.full(Doubt); full && !d.active {
		return
	}
	d.active = true
	d.begin(now, rules[Doubt].backoff)
	t.Begin(n.UID, Doubt)
	t.notice(n.Name, Doubted, fmt.Sprintf("its kubelet says %s; left alone for %s, or until the node or its pods change",
		reason, d.until.Sub(now)))
}

// avoidForOwner makes the pods of one owner avoid a node for a while.
func (t *Table) avoidForOwner(pod *state.Pod, n *state.Node, reason string, now time.Time) {
	owner := Workload(pod)
	nodes := t.owners[owner]
	if nodes == nil {
		nodes = map[string]*pause{}
		t.owners[owner] = nodes
	}
	p := nodes[n.UID]
	if p == nil {
		p = &pause{}
		nodes[n.UID] = p
	}
	p.begin(now, ownerBackoff)
	t.notice(n.Name, Avoided, fmt.Sprintf("its kubelet rejected pod %s (%s); its owner's pods avoid the node for %s",
		pod.Key(), reason, p.until.Sub(now)))
	forgetOldest(nodes, maxPerOwner, func(p *pause) time.Time { return p.last })
	forgetOldest(t.owners, maxOwners, latest)
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

// forgetOldest deletes the oldest elements until at most limit are left.
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

// SetOwners makes the pods of one workload avoid exactly these nodes until then, and all other pods none.
func (t *Table) SetOwners(workload string, nodeUIDs []string, until time.Time) {
	t.owners = map[string]map[string]*pause{}
	if len(nodeUIDs) == 0 {
		return
	}
	nodes := map[string]*pause{}
	for _, uid := range nodeUIDs {
		nodes[uid] = &pause{until: until}
	}
	t.owners[workload] = nodes
}
