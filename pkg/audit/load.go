package audit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

func (a *replay) load(r Record) error {
	switch {
	case r.Ledger != nil:
		a.batches = append(a.batches, *r.Ledger)
	case r.Mark != nil:
		a.marks = append(a.marks, *r.Mark)
	case r.End != nil:
		a.end = r.End
	case r.Object != nil:
		a.report.Versions++
		return a.loadObject(*r.Object)
	}
	return nil
}

func (a *replay) loadObject(o Object) error {
	at := moment{after: o.RV - 1, rv: o.RV}
	if o.RV == 0 || o.UID == "" {
		return fmt.Errorf("%s %q: no UID or no resourceVersion", o.Kind, o.UID)
	}
	if o.Missed {
		at.after = o.After
	}
	switch {
	case o.Kind == KindPod:
		return a.loadPod(o, at)
	case o.Kind == KindNode:
		return a.loadNode(o, at)
	case o.Kind == KindBudget:
		return a.loadBudget(o, at)
	case o.Kind == KindNamespace && o.Namespace != nil:
		a.namespaces[o.Namespace.Name] = o.Namespace.Labels
	default:
		a.claims.load(o, at)
	}
	return nil
}

func (a *replay) loadPod(o Object, at moment) error {
	life := a.pods[o.UID]
	if life == nil {
		if o.Gone || o.Pod == nil {
			return fmt.Errorf("pod %s: its first version is missing", o.UID)
		}
		life = &podLife{uid: o.UID}
		a.pods[o.UID] = life
	}
	life.missed = life.missed || o.Missed && o.After > 0
	if o.Gone {
		life.goes(at)
		return nil
	}
	first := len(life.versions) == 0
	moved := life.apply(at, &podVersion{pod: o.Pod, requests: requestsOf(o.Pod), class: a.classes.of(o.Pod)})
	life.initially = life.initially || first && o.Missed && life.bound.known()
	if moved != "" {
		a.report.add(Finding{
			Severity: Violation, Invariant: "S2", ResourceVersion: o.RV, Objects: []string{life.object(), nodeObject(life.node)},
			Message: fmt.Sprintf("was bound to %s and then to %s", moved, o.Pod.Spec.NodeName),
		})
	}
	return nil
}

func (a *replay) loadNode(o Object, at moment) error {
	life := a.nodes[o.UID]
	if life == nil {
		if o.Node == nil {
			return fmt.Errorf("node %s: its first version is missing", o.UID)
		}
		life = &nodeLife{uid: o.UID, name: o.Node.Name, born: at}
		a.nodes[o.UID] = life
		a.byName[life.name] = append(a.byName[life.name], life)
	}
	switch {
	case o.Gone:
		life.gone = at
	case o.Node != nil:
		life.versions = append(life.versions, version[*corev1.Node]{at, o.Node})
	}
	return nil
}

func (a *replay) count() {
	a.report.Complete = a.end != nil && a.end.Reason == EndStopped
	if a.end == nil {
		a.report.note("the history is incomplete: the recorder was interrupted, and the last binds are not checked")
	} else if a.end.Reason != EndStopped {
		a.report.note("the history ends early: %s", a.end.Reason)
	}
	a.report.Nodes, a.report.Pods = len(a.nodes), len(a.pods)
	for _, p := range a.pods {
		if p.bound.known() && !p.ours() {
			a.foreign[p.node] = append(a.foreign[p.node], p)
		}
		switch {
		case p.initially || !p.bound.known():
		case p.ours():
			a.report.Bound++
		default:
			a.report.Foreign++
		}
		if p.missed {
			a.report.Complete = false
			a.report.note("some pod changes were missed between two lists")
		}
	}
}

// beforeHistory adds placements for the pods that were bound when the recording began.
func (a *replay) beforeHistory() {
	for _, p := range a.pods {
		if p.initially && p.ours() {
			a.standBound(p)
		}
	}
}

// standBound adds a placement for a pod that was bound for a reservation that this history does not contain.
func (a *replay) standBound(p *podLife) {
	entry := ledger.Entry{
		PodUID: p.uid, Namespace: p.last().pod.Namespace, Name: p.last().pod.Name, Token: p.token,
		Ports: portsOf(p.last().pod),
	}
	made := &placement{pod: p, entry: entry, node: p.node, class: p.last().class}
	if node := a.nodeNamed(p.node, p.bound.rv); node != nil {
		made.nodeUID = node.uid
	}
	a.stand(made)
}
