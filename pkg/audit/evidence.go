package audit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// evidence is the content of a history: every version of every object, and every change of the ledger. It does not
// change after it has been loaded.
type evidence struct {
	pods       map[string]*podLife
	nodes      map[string]*nodeLife
	byName     map[string][]*nodeLife
	foreign    map[string][]*podLife // bound by other schedulers, by node name
	namespaces map[string]map[string]string
	batches    []recording.Ledger
	timeline   timeline
	classes    *classes
	// budgets holds the disruption budgets, by UID.
	budgets map[string]*budgetLife
	// claims holds the claims to volumes and devices, and the volumes.
	claims *claimLives
	found  *findings
}

func newEvidence(found *findings) *evidence {
	e := &evidence{
		pods: map[string]*podLife{}, nodes: map[string]*nodeLife{}, byName: map[string][]*nodeLife{},
		foreign: map[string][]*podLife{}, namespaces: map[string]map[string]string{}, classes: newClasses(),
		budgets: map[string]*budgetLife{}, claims: newClaims(), found: found,
	}
	e.classes.namespaces = e.namespaces
	return e
}

func (e *evidence) load(r recording.Record) error {
	switch {
	case r.Ledger != nil:
		e.batches = append(e.batches, *r.Ledger)
	case r.Mark != nil:
		e.timeline.marks = append(e.timeline.marks, *r.Mark)
	case r.End != nil:
		e.timeline.end = r.End
	case r.Object != nil:
		e.found.report.Versions++
		return e.loadObject(*r.Object)
	}
	return nil
}

func (e *evidence) loadObject(o recording.Object) error {
	at := moment{after: o.RV - 1, rv: o.RV}
	if o.RV == 0 || o.UID == "" {
		return fmt.Errorf("%s %q: no UID or no resourceVersion", o.Kind, o.UID)
	}
	if o.Missed {
		at.after = o.After
	}
	switch {
	case o.Kind == recording.KindPod:
		return e.loadPod(o, at)
	case o.Kind == recording.KindNode:
		return e.loadNode(o, at)
	case o.Kind == recording.KindBudget:
		return e.loadBudget(o, at)
	case o.Kind == recording.KindNamespace && o.Namespace != nil:
		e.namespaces[o.Namespace.Name] = o.Namespace.Labels
	default:
		e.claims.load(o, at)
	}
	return nil
}

func (e *evidence) loadPod(o recording.Object, at moment) error {
	life := e.pods[o.UID]
	if life == nil {
		if o.Gone || o.Pod == nil {
			return fmt.Errorf("pod %s: its first version is missing", o.UID)
		}
		life = &podLife{uid: o.UID}
		e.pods[o.UID] = life
	}
	life.missed = life.missed || o.Missed && o.After > 0
	if o.Gone {
		life.goes(at)
		return nil
	}
	first := len(life.versions) == 0
	moved := life.apply(at, &podVersion{pod: o.Pod, requests: requestsOf(o.Pod), class: e.classes.of(o.Pod)})
	life.initially = life.initially || first && o.Missed && life.bound.known()
	if moved != "" {
		e.found.report.add(Finding{
			Severity: Violation, Invariant: "S2", ResourceVersion: o.RV, Objects: []string{life.object(), nodeObject(life.node)},
			Message: fmt.Sprintf("was bound to %s and then to %s", moved, o.Pod.Spec.NodeName),
		})
	}
	return nil
}

func (e *evidence) loadNode(o recording.Object, at moment) error {
	life := e.nodes[o.UID]
	if life == nil {
		if o.Node == nil {
			return fmt.Errorf("node %s: its first version is missing", o.UID)
		}
		life = &nodeLife{uid: o.UID, name: o.Node.Name, born: at}
		e.nodes[o.UID] = life
		e.byName[life.name] = append(e.byName[life.name], life)
	}
	switch {
	case o.Gone:
		life.gone = at
	case o.Node != nil:
		life.versions = append(life.versions, version[*corev1.Node]{at, o.Node})
	}
	return nil
}

func (e *evidence) loadBudget(o recording.Object, at moment) error {
	life := e.budgets[o.UID]
	if life == nil {
		if o.Budget == nil {
			return fmt.Errorf("disruption budget %s: its first version is missing", o.UID)
		}
		life = &budgetLife{name: o.Budget.Namespace + "/" + o.Budget.Name}
		e.budgets[o.UID] = life
	}
	switch {
	case o.Gone:
		life.gone = at
	case o.Budget != nil:
		life.versions = append(life.versions, version[*recording.Budget]{at, o.Budget})
	}
	return nil
}

// summarize fills in the counts of the report, and finds the pods of other schedulers.
func (e *evidence) summarize() {
	e.found.report.Complete = e.timeline.end != nil && e.timeline.end.Reason == recording.EndStopped
	if e.timeline.end == nil {
		e.found.report.note("the history is incomplete: the recorder was interrupted, and the last binds are not checked")
	} else if e.timeline.end.Reason != recording.EndStopped {
		e.found.report.note("the history ends early: %s", e.timeline.end.Reason)
	}
	e.found.report.Nodes, e.found.report.Pods = len(e.nodes), len(e.pods)
	for _, p := range e.pods {
		if p.bound.known() && !p.ours() {
			e.foreign[p.node] = append(e.foreign[p.node], p)
		}
		switch {
		case p.initially || !p.bound.known():
		case p.ours():
			e.found.report.Bound++
		default:
			e.found.report.Foreign++
		}
		if p.missed {
			e.found.report.Complete = false
			e.found.report.note("some pod changes were missed between two lists")
		}
	}
}

// nodeNamed returns the node that had a name at rv, the oldest if one may have replaced another.
func (e *evidence) nodeNamed(name string, rv uint64) *nodeLife {
	var found *nodeLife
	for _, n := range e.byName[name] {
		if n.born.maybe(rv) && !n.gone.surely(rv) && (found == nil || n.born.rv < found.born.rv) {
			found = n
		}
	}
	return found
}

func (e *evidence) podNamed(uid string) string {
	if pod := e.pods[uid]; pod != nil {
		return pod.object()
	}
	return podObject(uid)
}

// finished reports whether a pod no longer needs a place.
func (e *evidence) finished(podUID string, revision int64) bool {
	pod := e.pods[podUID]
	return pod != nil && (pod.ended.maybe(e.timeline.latest(revision)) || pod.bound.known())
}
