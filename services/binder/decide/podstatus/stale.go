package podstatus

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A nominatedNodeName that leads nowhere by a decision is cleared with the condition of that decision. Another
// component may write another name at any time, which must stay. So the patch is bound to the version of the pod that
// was judged: the API server refuses it once the pod has changed, and newer facts withdraw it while it waits for a
// worker (Writer.Moot). In both cases the decision is judged again. Patches that clear nothing are bound to no version.

// mustClear reports whether a decision has made the pod's nominatedNodeName stale and the pod still has it. Any
// component may have written the name. A name that was written after the version that the decision used is another one,
// and the next attempt's; facts of an earlier version do not show yet which one it is. The name of a place that is held
// is left alone.
func (w *condition) mustClear(s *Writer, d events.Decision, p *state.Pod) bool {
	if _, _, reserved := s.Ledger.Entry(d.Pod.UID); reserved {
		return false
	}
	stale := d.StaleNomination
	if d.Kind == events.DecisionWithdrawn || basis.BindFailed(d) {
		stale = d.NodeName
	}
	switch name := p.Status().NominatedNodeName; {
	case stale == "" || w.cleared && p.ResourceVersion < w.writtenRV:
		return false
	case w.behind(d, p):
		return d.StaleNomination != ""
	default:
		return name == stale || name != "" && name == d.StaleNomination
	}
}

// newest returns the pod as it was last read, unless the facts are newer.
func (w *condition) newest(p *state.Pod) *state.Pod {
	if w.read != nil && w.read.ResourceVersion >= p.ResourceVersion {
		return w.read
	}
	return p
}

// behind reports whether a version of the pod is older than the one that the decision used, and so does not show what
// the decision is about. One that was read from the API server is never behind.
func (w *condition) behind(d events.Decision, p *state.Pod) bool {
	return p != w.read && p.ResourceVersion < d.PodResourceVersion
}

// clearedAt returns the resourceVersion to which a patch that clears the name is bound: the one at which the name was
// seen, here or by the decision. It is 0 for a patch that clears nothing.
func (w *condition) clearedAt(d events.Decision, p *state.Pod) uint64 {
	switch {
	case !w.clears:
		return 0
	case w.behind(d, p):
		return d.PodResourceVersion
	}
	return p.ResourceVersion
}

// clearWith makes the nomination of a place that was given up wait for the patch in flight, which clears the name.
func (w *condition) clearWith(s *Writer, d events.Decision) {
	if m, ok := s.nominations[d.Pod.UID]; ok && m.op == 0 {
		w.nomination = m
		m.op, m.sent = w.op, ""
	}
}

// Moot reports whether a patch that waits for a worker would clear a name that was judged by an earlier version of the
// pod than the facts show by now.
func (s *Writer) Moot(e effect.PatchCondition) bool {
	p, known, _ := s.Pod(e.Pod.UID, 0)
	return e.ClearNomination && known && e.ResourceVersion < p.ResourceVersion
}

// MootEnd reports whether a write that clears the name after the end of a hold, and that waits for a worker, would
// clear another one, which another component has written meanwhile.
func (s *Writer) MootEnd(e effect.Nominate) bool {
	m, ok := s.nominations[e.Pod.UID]
	p, known, _ := s.Pod(e.Pod.UID, 0)
	if e.NodeName != "" || !ok || m.op != e.Op || !known {
		return false
	}
	name := p.Status().NominatedNodeName
	return name != "" && name != m.lastName
}
