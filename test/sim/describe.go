package sim

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

// describe traces the state of the world after a run has failed.
func (w *world) describe() {
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	w.tracef("facts end at %d (%v), the ledger at %d, the API server at %d; %d calls and %d hints are under way",
		last, err, w.store.Revision(), w.api.rv, len(w.calls), len(w.messages))
	kept, data, _, _ := w.log.Latest(w.ctx, eventlog.Facts)
	at, err := state.SnapshotPosition(data)
	w.tracef("the newest snapshot is of fact %d: %v (%v)", kept, at, err)
	for _, q := range w.queues {
		w.tracef("%s: up %t, leads %t under term %d, round open %t; facts %v", q.member(), q.up, q.running, q.term,
			q.round != nil, q.facts.Snapshot().Position())
	}
	for _, s := range w.shards {
		w.tracef("%s: up %t, ready %t, idle %t, ledger %d; facts %v", s.member(), s.up, s.core.Ready(), s.idle,
			s.revision, s.core.Position())
	}
	for _, b := range w.binders {
		w.tracef("%s: up %t, ready %t, ledger %d, %+v", b.member(), b.up, b.core.Ready(), b.revision, b.core.Stats())
	}
	w.describeCluster()
	w.describeEpochs()
}

// describeEpochs traces where in the log of facts epochs begin and end.
func (w *world) describeEpochs() {
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	for at := uint64(1); at <= last && err == nil; at++ {
		records, gap := w.records(eventlog.Facts, at)
		if gap != nil {
			continue
		}
		f, wrong := events.DecodeFact(records[0])
		if wrong == nil && (f.Op == events.OpEpochBegin || f.Op == events.OpEpochEnd || at == last) {
			w.tracef("fact %d: epoch %d, operation %d, progress %d", at, f.Epoch, f.Op, f.Progress)
		}
	}
}

func (w *world) describeCluster() {
	for _, n := range w.api.nodes() {
		d, _ := w.oracle.truth.Doc(string(n.UID))
		w.tracef("node %s: %v, room for %d, cordoned %t, high-water %v", n.Name, slices.Sorted(maps.Values(n.Labels)),
			room(n), n.Spec.Unschedulable, d.HW)
		for _, e := range d.Entries {
			w.tracef("  %s %s %s of %s at %d, token %s", e.State, e.Role, e.Name, e.Shard, e.PodRV, e.Token)
		}
	}
	for _, p := range w.api.pods() {
		w.tracef("pod %s (%s): on %q at %s, %s, deleted %t, gates %v", p.Name, p.Labels["app"], p.Spec.NodeName,
			p.ResourceVersion, p.Status.Phase, p.DeletionTimestamp != nil, p.Spec.SchedulingGates)
		for _, q := range w.queues {
			pool, why := q.core.Where(string(p.UID))
			w.tracef("  %s: %s: %s", q.member(), pool, why)
		}
	}
}
