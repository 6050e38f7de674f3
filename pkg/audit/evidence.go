package audit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// evidence is the content of a history: every version of every object, and every change of the ledger. It does not
// change after it has been loaded (load, then summarize), so all rules may share it.
type evidence struct {
	// pods and nodes are by UID; byName lists the nodes that have had a name, as a bind names only that. namespaces
	// holds the newest labels of each namespace.
	pods       map[string]*podHistory
	nodes      map[string]*nodeHistory
	byName     map[string][]*nodeHistory
	foreign    map[string][]*podHistory // bound by other schedulers, by node name
	namespaces map[string]map[string]string
	// batches are the changes of the ledger in the order of the file: the walk's input.
	batches  []recording.Ledger
	timeline timeline
	classes  *classes
	// budgets holds the disruption budgets, by UID.
	budgets map[string]*budgetHistory
	// groups holds the PodGroups that have had a name, as namespace/name, in order; groupByUID is the same by UID.
	// members holds the pods of each group, in the order of their first version.
	groups     map[string][]*groupHistory
	groupByUID map[string]*groupHistory
	members    map[string][]*podHistory
	// claims holds the claims to volumes and devices, and the volumes.
	claims *claimHistories
	// found receives the findings that loading itself makes, and the counts.
	found *findings
}

// newEvidence returns the evidence of an empty history.
func newEvidence(found *findings) *evidence {
	e := &evidence{
		pods: map[string]*podHistory{}, nodes: map[string]*nodeHistory{}, byName: map[string][]*nodeHistory{},
		foreign: map[string][]*podHistory{}, namespaces: map[string]map[string]string{}, classes: newClasses(),
		groups: map[string][]*groupHistory{}, groupByUID: map[string]*groupHistory{}, members: map[string][]*podHistory{},
		budgets: map[string]*budgetHistory{}, claims: newClaims(), found: found,
	}
	e.classes.namespaces = e.namespaces
	return e
}

// load adds one record. An error means that the history cannot be interpreted, and ends the replay; a broken invariant
// does not.
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

// loadObject adds one version of an object. A version that the recorder saw on its watch happened at exactly its
// resourceVersion; one that was found in a list happened at some time after the newest version before (moment).
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
	case o.Kind == recording.KindPodGroup:
		return e.loadGroup(o, at)
	case o.Kind == recording.KindNamespace && o.Namespace != nil:
		e.namespaces[o.Namespace.Name] = o.Namespace.Labels
	default:
		e.claims.load(o, at)
	}
	return nil
}

// loadPod adds one version of a pod, computes its requests and its class once, and checks that the pod was not bound
// twice (S2).
func (e *evidence) loadPod(o recording.Object, at moment) error {
	history := e.pods[o.UID]
	if history == nil {
		if o.Gone || o.Pod == nil {
			return fmt.Errorf("pod %s: its first version is missing", o.UID)
		}
		history = &podHistory{uid: o.UID}
		e.pods[o.UID] = history
		if name, member := groupOf(o.Pod); member { // immutable
			e.members[name] = append(e.members[name], history)
		}
	}
	history.missed = history.missed || o.Missed && o.After > 0
	if o.Gone {
		history.setGone(at)
		return nil
	}
	first := len(history.versions) == 0
	moved := history.apply(at, &podVersion{pod: o.Pod, requests: fit.Requests(o.Pod), class: e.classes.of(o.Pod)})
	history.initially = history.initially || first && o.Missed && history.bound.happened()
	if moved != "" {
		e.found.report.add(Finding{
			Severity: Violation, Invariant: "S2", ResourceVersion: o.RV,
			Objects: []string{history.object(), nodeObject(history.node)},
			Message: fmt.Sprintf("was bound to %s and then to %s", moved, o.Pod.Spec.NodeName),
		})
	}
	return nil
}

// loadNode adds one version of a node. A node that is deleted and registers again under its name is another node: it
// has another UID.
func (e *evidence) loadNode(o recording.Object, at moment) error {
	history := e.nodes[o.UID]
	if history == nil {
		if o.Node == nil {
			return fmt.Errorf("node %s: its first version is missing", o.UID)
		}
		history = &nodeHistory{uid: o.UID, name: o.Node.Name, born: at}
		e.nodes[o.UID] = history
		e.byName[history.name] = append(e.byName[history.name], history)
	}
	switch {
	case o.Gone:
		history.gone = at
	case o.Node != nil:
		history.versions = append(history.versions, version[*corev1.Node]{at, o.Node})
	}
	return nil
}

// loadBudget adds one version of a disruption budget.
func (e *evidence) loadBudget(o recording.Object, at moment) error {
	history := e.budgets[o.UID]
	if history == nil {
		if o.Budget == nil {
			return fmt.Errorf("disruption budget %s: its first version is missing", o.UID)
		}
		history = &budgetHistory{name: o.Budget.Namespace + "/" + o.Budget.Name}
		e.budgets[o.UID] = history
	}
	switch {
	case o.Gone:
		history.gone = at
	case o.Budget != nil:
		history.versions = append(history.versions, version[*recording.Budget]{at, o.Budget})
	}
	return nil
}

// loadGroup adds one version of a PodGroup.
func (e *evidence) loadGroup(o recording.Object, at moment) error {
	history := e.groupByUID[o.UID]
	if history == nil {
		if o.PodGroup == nil {
			return fmt.Errorf("pod group %s: its first version is missing", o.UID)
		}
		history = newGroup(o.PodGroup, at)
		e.groupByUID[o.UID] = history
		e.groups[history.name] = append(e.groups[history.name], history)
	}
	if o.Gone {
		history.gone = at
	}
	return nil
}

// summarize runs once, after the last record: it fills in the counts of the report, notes what is missing in the
// history, and finds the pods that other schedulers bound.
func (e *evidence) summarize() {
	e.found.report.Complete = e.timeline.end != nil && e.timeline.end.Reason == recording.EndStopped
	if e.timeline.end == nil {
		e.found.report.note("the history is incomplete: the recorder was interrupted, and the last binds are not checked")
	} else if e.timeline.end.Reason != recording.EndStopped {
		e.found.report.note("the history ends early: %s", e.timeline.end.Reason)
	}
	e.found.report.Nodes, e.found.report.Pods = len(e.nodes), len(e.pods)
	for _, p := range e.pods {
		if p.bound.happened() && !p.boundByBerth() {
			e.foreign[p.node] = append(e.foreign[p.node], p)
		}
		switch {
		case p.initially || !p.bound.happened():
		case p.boundByBerth():
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

// nodeNamed returns the node that had a name at rv, the oldest if one may have replaced another; nil if there was
// none. A bind contains the name of its node, not the UID.
func (e *evidence) nodeNamed(name string, rv uint64) *nodeHistory {
	var found *nodeHistory
	for _, n := range e.byName[name] {
		if n.born.possibleBy(rv) && !n.gone.certainBy(rv) && (found == nil || n.born.rv < found.born.rv) {
			found = n
		}
	}
	return found
}

// podNamed returns a pod as an object of a finding, by its UID if the history does not contain the pod.
func (e *evidence) podNamed(uid string) string {
	if pod := e.pods[uid]; pod != nil {
		return pod.object()
	}
	return podObject(uid)
}

// finished reports whether a pod no longer needs a place at a revision, as far as the evidence can exclude: it may
// have ended by then, or it was bound at any time. A hold for such a pod may be given up without an explanation.
func (e *evidence) finished(podUID string, revision int64) bool {
	pod := e.pods[podUID]
	return pod != nil && (pod.ended.possibleBy(e.timeline.upperBound(revision)) || pod.bound.happened())
}
