package sim

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// restart models administrators of nodes and shards, who wait after each step until the log shows it: they stop all
// shards, and pods come; they close a node on which nothing runs; they start the shards. They delete pods that are
// too many.
func (c *cluster) restart(w *world, p *corev1.Pod) {
	caughtUp := func(q *queueReplica) bool {
		at := q.facts.Snapshot().Position()
		pods, _ := at.Progress(events.KindPod)
		nodes, _ := at.Progress(events.KindNode)
		return min(pods, nodes) >= c.awaited
	}
	switch {
	case !slices.ContainsFunc(w.queues, caughtUp):
		return
	case len(w.api.pods()) > maxPods/2:
		w.api.delete(string(p.UID))
		return
	case c.done == 0 && w.chance(50):
		for _, s := range w.shards {
			s.leave()
		}
		for range maxPods / 3 {
			c.addPod(w)
		}
	case c.done == 1:
		c.before, _ = w.log.Last(w.ctx, eventlog.Facts) // the log in memory answers
		c.closeEmpty(w)
	case c.done == 2:
		for _, s := range w.shards {
			if !s.up {
				s.start()
				w.tracef("%s starts", s.member())
			}
		}
	default:
		return
	}
	c.done, c.awaited = (c.done+1)%3, w.api.rv
}

// closeEmpty closes one node on which nothing runs, and opens all others.
func (c *cluster) closeEmpty(w *world) {
	used, closed := map[string]bool{}, false
	for _, s := range w.oracle.placements() {
		used[s.node.Name] = true
	}
	for _, n := range w.api.nodes() {
		closes := !closed && !used[n.Name] && !n.Spec.Unschedulable
		closed = closed || closes
		if closes == n.Spec.Unschedulable {
			continue
		}
		n = n.DeepCopy()
		n.Spec.Unschedulable = closes
		w.api.put(events.KindNode, n)
	}
}

// batchSize returns how many of the next facts a process gets at once: some of them. In a restarted run a shard gets
// the facts up to the last node that was closed, and is cut off from the log then.
func (p *proc) batchSize(records []eventlog.Record) int {
	w := p.w
	facts, upTo := len(records), 0
	for upTo < facts && records[upTo].Sequence <= w.cluster.before {
		upTo++
	}
	if p.role != "scheduler" || upTo < 1 || upTo >= facts || !w.chance(85) {
		return 1 + w.rng.IntN(facts)
	}
	p.cut[toLog] = w.now + time.Duration(2000+w.rng.IntN(3000))*time.Millisecond
	w.hit("cut off from log")
	w.tracef("%s is cut off from the log at fact %d", p.member(), w.cluster.before)
	return upTo
}

// begins notes which nodes the log of facts shows as closed when a shard begins to read it. A shard that begins again
// is exempt: it may have lost its knowledge together with the log.
func (o *oracle) begins(p *proc, b follow.Batch) {
	if p.role != "scheduler" {
		return
	}
	_, again := o.closed[p.member()]
	o.closed[p.member()] = map[string]uint64{}
	if snapshot := o.w.logged(b); snapshot != nil && !again {
		for n := range snapshot.Nodes() {
			if n.Object != nil && n.Object.Spec.Unschedulable {
				o.closed[p.member()][n.UID] = n.ResourceVersion
			}
		}
	}
}

// logged returns the state that the log shows up to the barrier of a reader that begins, nil if the log is not
// complete.
func (w *world) logged(b follow.Batch) *state.Snapshot {
	store, err := b.Store()
	if err != nil {
		return nil
	}
	if b.Behind >= b.Barrier {
		return store.Snapshot()
	}
	records, err := w.records(eventlog.Facts, b.Behind+1)
	if err != nil {
		return nil
	}
	var facts []events.SequencedFact
	for _, r := range records {
		f, err := events.DecodeFact(r)
		if err != nil {
			return nil
		}
		facts = append(facts, f)
	}
	if _, err := store.Apply(facts); err != nil || store.Position().Sequence < b.Barrier {
		return nil
	}
	return store.Snapshot()
}

// checkStart is the promise of the start barrier: the decisions of a shard rest on nothing older than the log's
// content when the shard began. It places no pod on a node that was closed at that time and still is.
func (o *oracle) checkStart(c *committed) {
	if c.what != "T1" || len(o.closed[c.member]) == 0 {
		return
	}
	for _, put := range c.txn.Puts {
		if !isDoc(put.Key) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ledger.KV{Key: put.Key, Value: put.Value})
		rv, closed := o.closed[c.member][d.NodeUID]
		if n, exists := o.w.api.node(d.NodeUID); err != nil || !closed || !exists || nodeVersion(n) != rv {
			continue
		}
		before, _ := o.truth.Doc(d.NodeUID)
		for _, e := range d.Entries {
			known, _ := before.Find(e.PodUID)
			if e.Role == ledger.RoleReservation && e.State == ledger.Committed && e.Token != known.Token {
				o.w.note("start", "%s placed pod %s on node %s, which was closed before it began",
					c.member, e.PodUID, d.NodeName)
			}
		}
	}
}

func nodeVersion(n *corev1.Node) uint64 {
	rv, _ := strconv.ParseUint(n.ResourceVersion, 10, 64) // the model's own number
	return rv
}
