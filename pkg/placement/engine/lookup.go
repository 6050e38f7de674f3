package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/signature"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// classOf returns the class of a pod, and creates it if necessary. home restricts the class to home nodes. It
// looks the pod up by the identity of its parts first, and by its contents after that. An error means that the
// pod cannot be written as a signature.
func (e *Engine) classOf(p *placement.Profile, pod *state.Pod, home bool) (*class, error) {
	key, brief := keyOf(p, pod, home)
	if entry, ok := e.cache.byPod[key]; ok && brief && e.isReusable(entry, pod) {
		e.cache.use(entry)
		return entry.class, nil
	}
	entry, err := e.find(p, pod, home)
	if err != nil {
		return nil, err
	}
	if brief {
		e.cache.addShortcut(key, entry)
	}
	return entry.class, nil
}

// isReusable reports whether everything that a class was made from is still valid.
func (e *Engine) isReusable(entry *cached, pod *state.Pod) bool {
	return entry.basis == e.basis() && e.isCurrent(entry.crossNode, pod)
}

// find is classOf based on the contents of the pod. A class that is out of date is dropped, and its arrays serve
// the new one. The new class shares the crossNodeState of another class if there is a valid one.
func (e *Engine) find(p *placement.Profile, pod *state.Pod, home bool) (*cached, error) {
	shape, wideLen, err := e.sign.Of(pod)
	if err != nil {
		return nil, err
	}
	if entry, ok := e.cache.byKey[classKey{p, pod.Kind, home, string(shape)}]; ok {
		if e.isReusable(entry, pod) {
			e.cache.use(entry)
			return entry, nil
		}
		e.cache.drop(entry)
	}
	c := e.cache.emptyClass(classKey{p, pod.Kind, home, string(shape)})
	c.basis = e.basis()
	c.crossNode = e.cache.crossNodes[crossNodeKey{p, pod.Kind, string(shape[:wideLen])}]
	// A class of other requests may already have the tallies that this one needs.
	if c.crossNode != nil && e.isCurrent(c.crossNode, pod) {
		c.plan = newPlan(e, c, pod, nil)
	} else {
		c.crossNode = e.newCrossNode(crossNodeKey{p, pod.Kind, string(shape[:wideLen])}, pod)
		c.plan = newPlan(e, c, pod, c.crossNode)
		if c.plan.err != nil || c.plan.rejected != nil || c.plan.uncompiled {
			// Not all rules have been compiled into it, so that other classes must not share it.
			delete(e.cache.crossNodes, c.crossNode.key)
		}
	}
	c.crossNode.users++
	c.id, c.refused = signature.ID(c.key.profile, c.key.shape, pod), make([]int32, len(c.plan.filters))
	return e.cache.add(c), nil
}

// basis returns the current versions of what plans depend on.
func (e *Engine) basis() basis { return basis{e.columns.Resources.Version, e.epoch} }

// newCrossNode creates a crossNodeState without rules and replaces one that is out of date. Classes that use the
// old one keep it until they are dropped.
func (e *Engine) newCrossNode(key crossNodeKey, pod *state.Pod) *crossNodeState {
	w := &crossNodeState{key: key}
	w.basis = crossNodeBasis{e.version, e.epoch, e.digest(w, pod)}
	e.cache.crossNodes[key] = w
	return w
}

// digest returns the contents of the objects that the rules about other pods use for the pod.
func (e *Engine) digest(w *crossNodeState, pod *state.Pod) string {
	return string(signature.Objects(nil, w.key.profile, pod, rule.OrNone(e.objects)))
}

// isCurrent reports whether everything that a crossNodeState was made from is still valid. It mostly is when
// objects have changed: a cluster with many services changes one of them every few seconds, and nearly all
// classes depend on none or on another one. Comparing a digest of the objects that matter costs less than making
// the state again.
func (e *Engine) isCurrent(w *crossNodeState, pod *state.Pod) bool {
	if w.basis.epoch != e.epoch || !w.columnsFit() {
		return false
	}
	if w.basis.objects != e.version {
		if e.digest(w, pod) != w.basis.digest {
			return false
		}
		w.basis.objects = e.version
	}
	return true
}
