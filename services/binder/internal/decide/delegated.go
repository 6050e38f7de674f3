package decide

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A bind may be left to a plugin, which runs in the shard (ledger.Entry.Delegated). Its Binding carries no
// resourceVersion, so a fence cannot refuse it. The place is left to the plugin for as long as it may be at work,
// even if the place is wanted back. The pod shows the outcome.
//
// The binder acts by the ledger and the facts; the shard's messages (DecisionPlaced, DecisionFailed) only make it act
// sooner. A binder that starts and has not seen them waits until the plugin's time has expired, and takes the place
// back.

// bindFailed reports whether a decision says that plugins have failed to bind a pod where it was placed.
func bindFailed(d events.Decision) bool { return d.Kind == events.DecisionFailed && d.NodeUID != "" }

// leftToUs reports whether plugins have declined to bind the pod.
func (r *reservation) leftToUs() bool {
	return r.hint.Kind == events.DecisionPlaced && len(r.hint.Plugins) == 0
}

// watchBind waits for a plugin's bind to show in the facts.
func (r *reservation) watchBind(c *Core) {
	p, known, gone := c.pod(r.key.pod, r.entry.PodRV)
	switch {
	case gone:
		r.settled = true
	case known && p.NodeName != "":
		r.settled = true
		if r.boundByPlugin(p) {
			r.announceBound(c, true)
		}
	case bindFailed(r.hint):
		r.doomed = r.hint.Message
	case c.now.Sub(r.since) > c.limits.Delegated && len(r.hint.Plugins) > 0:
		r.doomed = fmt.Sprintf("not bound %v after plugin %s had said so", c.limits.Delegated, r.hint.Plugins[0])
	case c.now.Sub(r.since) > c.limits.Delegated:
		r.doomed = fmt.Sprintf("no plugin has bound it within %v", c.limits.Delegated)
	}
	if r.doomed != "" && !r.settled {
		r.mark(c)
	}
}

// boundByPlugin reports whether a pod is bound to the node to which a plugin was to bind it. There is no better
// evidence: a plugin's Binding does not name the attempt.
func (r *reservation) boundByPlugin(p *state.Pod) bool {
	return r.entry.Delegated && !r.leftToUs() && p.NodeName == r.nodeName
}

// depart remembers a reservation that was handed over by a process which saw the pod bound sooner: its bind has yet
// to be reported.
func (r *reservation) depart(c *Core) {
	if !r.settled && r.entry.State == ledger.Committed && r.entry.Delegated && !r.leftToUs() {
		c.departed[r.key] = r
	}
}

// seeDeparted reports the binds that the facts show by now. Facts that have reached the high-water of the hand-over
// show the bind, or there was none.
func (c *Core) seeDeparted() {
	if len(c.departed) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.departed), attempt.compare) {
		r := c.departed[key]
		hw := uint64(math.MaxUint64)
		if d, ok := c.docs[r.nodeUID]; ok {
			hw = d.doc.HW[ledger.KindPod]
		}
		p, known, gone := c.pod(key.pod, r.entry.PodRV)
		switch {
		case known && r.boundByPlugin(p) && c.mayAct(key.pod):
			r.announceBound(c, true)
		case !gone && c.facts.PodProgress < hw && c.mayAct(key.pod):
			continue
		}
		delete(c.departed, key)
	}
}

// takingBack reports whether the place of an attempt has yet to be given back.
func (c *Core) takingBack(d events.Decision) bool {
	token, err := ledger.ParseToken(d.Token)
	if err != nil {
		return false
	}
	r, reserved := c.reservations[attempt{d.Pod.UID, token}]
	return reserved && !r.settled
}
