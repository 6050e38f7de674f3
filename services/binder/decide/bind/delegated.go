package bind

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// A bind may be left to a plugin, which runs in the shard (ledger.Entry.Delegated). Its Binding carries no
// resourceVersion, so a fence cannot refuse it. The place is left to the plugin for as long as it may be at work,
// even if the place is wanted back. The pod shows the outcome.
//
// The binder acts by the ledger and the facts; the shard's messages (DecisionPlaced, DecisionFailed) only make it act
// sooner. A binder that starts and has not seen them waits until the plugin's time has expired, and takes the place
// back.

// leftToUs reports whether plugins have declined to bind the pod.
func (r *promise) leftToUs() bool {
	return r.hint.Kind == events.DecisionPlaced && len(r.hint.Plugins) == 0
}

// watchBind waits for a plugin's bind to show in the facts.
func (r *reservation) watchBind(b *Reservations) {
	p, known, gone := b.Pod(r.key.Pod, r.entry.PodRV)
	switch {
	case gone:
		r.settled = true
	case known && p.NodeName != "":
		r.settled = true
		if r.boundByPlugin(p) {
			r.announceBound(b, true)
		}
	case basis.BindFailed(r.hint):
		r.fenceReason = r.hint.Message
	case b.Now.Sub(r.since) > b.Limits.Delegated && len(r.hint.Plugins) > 0:
		r.fenceReason = fmt.Sprintf("not bound %v after plugin %s had said so", b.Limits.Delegated, r.hint.Plugins[0])
	case b.Now.Sub(r.since) > b.Limits.Delegated:
		r.fenceReason = fmt.Sprintf("no plugin has bound it within %v", b.Limits.Delegated)
	}
	if r.fenceReason != "" && !r.settled {
		r.mark(b)
	}
}

// boundByPlugin reports whether a pod is bound to the node to which a plugin was to bind it. There is no better
// evidence: a plugin's Binding does not name the attempt.
func (r *promise) boundByPlugin(p *state.Pod) bool {
	return r.entry.Delegated && !r.leftToUs() && p.NodeName == r.nodeName
}

// depart remembers a reservation that was handed over by a process which saw the pod bound sooner: its bind has yet
// to be reported.
func (r *reservation) depart(b *Reservations) {
	if !r.settled && r.entry.State == ledger.Committed && r.entry.Delegated && !r.leftToUs() {
		b.departed[r.key] = r
	}
}

// AdvanceDeparted reports the binds that the facts show by now. Facts that have reached the high-water of the hand-over
// show the bind, or there was none.
func (b *Reservations) AdvanceDeparted() {
	if len(b.departed) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.departed), basis.Attempt.Compare) {
		r := b.departed[key]
		hw := uint64(math.MaxUint64)
		if d, ok := b.documents.Get(r.nodeUID); ok {
			hw = d.HW[ledger.KindPod]
		}
		p, known, gone := b.Pod(key.Pod, r.entry.PodRV)
		switch {
		case known && r.boundByPlugin(p) && b.MayAct(key.Pod):
			r.announceBound(b, true)
		case !gone && b.Facts.PodProgress < hw && b.MayAct(key.Pod):
			continue
		}
		delete(b.departed, key)
	}
}
