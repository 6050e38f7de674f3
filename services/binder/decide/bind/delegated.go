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

// declinedByPlugins reports whether plugins have declined to bind the pod.
func (r *trackedEntry) declinedByPlugins() bool {
	return r.hint.Kind == events.DecisionPlaced && len(r.hint.Plugins) == 0
}

// pluginResult is the state of a bind that is left to a plugin.
type pluginResult uint8

const (
	// pluginPending means that the plugin may still be at work.
	pluginPending pluginResult = iota
	// pluginBound means that the pod is bound to the node to which the plugin was to bind it.
	pluginBound
	// pluginOver means that the pod is deleted, or bound elsewhere.
	pluginOver
	// pluginFailed means that the plugin has failed, or that its time has expired.
	pluginFailed
)

// pluginResult evaluates the facts, the hint and the time. problem is the reason for pluginFailed.
func (r *trackedEntry) pluginResult(b *basis.Base) (result pluginResult, problem string) {
	p, known, gone := b.Pod(r.key.Pod, r.entry.PodRV)
	switch {
	case gone:
		return pluginOver, ""
	case known && p.NodeName != "":
		if r.boundByPlugin(p) {
			return pluginBound, ""
		}
		return pluginOver, ""
	case basis.BindFailed(r.hint):
		return pluginFailed, r.hint.Message
	case b.Now.Sub(r.since) <= b.Limits.Delegated:
		return pluginPending, ""
	case len(r.hint.Plugins) > 0:
		return pluginFailed, fmt.Sprintf("not bound %v after plugin %s had said so", b.Limits.Delegated, r.hint.Plugins[0])
	}
	return pluginFailed, fmt.Sprintf("no plugin has bound it within %v", b.Limits.Delegated)
}

// boundByPlugin reports whether a pod is bound to the node to which a plugin was to bind it. There is no better
// evidence: a plugin's Binding does not name the attempt.
func (r *trackedEntry) boundByPlugin(p *state.Pod) bool {
	return r.entry.Delegated && !r.declinedByPlugins() && p.NodeName == r.nodeName
}

// unreportedBinds holds the binds by plugins of reservations that have left the ledger before the facts show why:
// another process has seen the pod bound sooner, and has handed the entry over. The bind has yet to be reported.
type unreportedBinds map[basis.Attempt]unreportedBind

// unreportedBind is the entry as it was last, and the version that its Binding would have named.
type unreportedBind struct {
	*trackedEntry
	rv uint64
}

// report reports the binds that the facts show by now. Facts that have reached the high-water of the hand-over show the
// bind, or there was none.
func (d unreportedBinds) report(b *basis.Base, documents Documents) {
	if len(d) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(d), basis.Attempt.Compare) {
		r := d[key]
		hw := uint64(math.MaxUint64)
		if doc, ok := documents.Get(r.nodeUID); ok {
			hw = doc.HW[ledger.KindPod]
		}
		p, known, gone := b.Pod(key.Pod, r.entry.PodRV)
		switch {
		case known && r.boundByPlugin(p) && b.MayAct(key.Pod):
			r.announceBound(b, r.rv, true)
		case !gone && b.Facts.PodProgress < hw && b.MayAct(key.Pod):
			continue
		}
		delete(d, key)
	}
}
