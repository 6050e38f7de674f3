package audit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Check adds everything up from scratch. It checks that what is or may be bound on a node is within its allocatable
// (S1), is on a node that exists and that it selects (fit), has exclusive ports and obeys required anti-affinity
// (S7); that a pod has one reservation (S3); that no pod is a victim twice (S5); that what is claimed from
// disruption budgets is claimed for a victim and within what they allow (S6); that victims that are being evicted
// are claimed (S9); that a claim for one pod has one user (S14); that a device is in one claim (S15); that devices
// in claims have a pod (L7); and that every value of the ledger can be decoded (form). A violation is only a
// warning if other schedulers bound pods involved in it, or if it may have arisen after the bind.
func Check(in CurrentState) *CheckReport {
	c := &stateCheck{
		CheckReport: &CheckReport{Nodes: len(in.Nodes), Pods: len(in.Pods), Findings: []Finding{}},
		nodes:       map[string]*nodeUsage{}, classes: newClasses(), bound: map[string]bool{}, live: map[string]bool{},
	}
	c.classes.namespaces = map[string]map[string]string{}
	for i := range in.Namespaces {
		c.classes.namespaces[in.Namespaces[i].Name] = in.Namespaces[i].Labels
	}
	for i := range in.Nodes {
		c.nodes[in.Nodes[i].Name] = &nodeUsage{node: &in.Nodes[i], used: fit.Amounts{}, berthOnly: true}
	}
	for i := range in.Pods {
		c.addPod(&in.Pods[i])
	}
	c.addLedger(in.Before, in.After)
	c.checkPromises(in)
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		c.checkAllocatable(c.nodes[name])
		c.checkPods(c.nodes[name])
	}
	c.checkAntiAffinity()
	c.checkClaims(in)
	slices.SortStableFunc(c.Findings, func(a, b Finding) int { return slices.Compare(a.Objects, b.Objects) })
	return c.CheckReport
}

// checkAllocatable checks that what is bound and reserved on a node is within its allocatable (S1).
func (c *stateCheck) checkAllocatable(at *nodeUsage) {
	room := fit.AmountsOf(at.node.Status.Allocatable)
	for _, name := range slices.Sorted(maps.Keys(at.used)) {
		if at.used[name] > room[name] {
			c.add(severityFor(at.berthOnly), "S1", fmt.Sprintf("%d of %s is bound or reserved on it, but %d is allocatable",
				at.used[name], name, room[name]), nodeObject(at.node.Name))
		}
	}
}

// checkPods checks each pod of Berth's on a node separately (fit), and the ports of all of them (S7).
func (c *stateCheck) checkPods(at *nodeUsage) {
	for i, r := range at.pods {
		for _, other := range at.pods[:i] {
			c.checkPorts(r, other)
		}
		if why := fit.UnfitReason(r.pod, at.node); why != "" && r.boundByBerth {
			severity := Violation
			if fit.Selects(r.pod, at.node) {
				severity = Warning // taints and cordons may be newer than the bind, and do not undo it
			}
			c.add(severity, "fit", "is on node "+at.node.Name+" "+why, podObjectOf(r.pod))
		}
	}
}

// checkPorts reports the node ports that two pods on a node share (S7).
func (c *stateCheck) checkPorts(r, other *placedPod) {
	for _, p := range fit.Ports(r.pod) {
		if slices.ContainsFunc(fit.Ports(other.pod), func(q ledger.HostPort) bool { return fit.PortsConflict(p, q) }) {
			severity := severityFor(r.boundByBerth && other.boundByBerth)
			c.add(severity, "S7", fmt.Sprintf("uses host port %d of node %s, which %s also uses",
				p.Port, r.node.Name, podObjectOf(other.pod)), podObjectOf(r.pod), podObjectOf(other.pod))
		}
	}
}

// checkAntiAffinity checks required anti-affinity among all pods (S7). It compares every pod that has a term with
// every other one: quadratic, but only in pods with such terms. Other rules between pods are not checked: affinity and
// spread may have been broken by pods that left since.
func (c *stateCheck) checkAntiAffinity() {
	for _, r := range c.placed {
		for _, t := range r.class.antiAffinity {
			domain, ok := r.node.Labels[t.key]
			if !ok {
				continue
			}
			c.checkTerm(r, t, domain)
		}
	}
}

// checkTerm reports the pods that a term of r selects in its domain.
func (c *stateCheck) checkTerm(r *placedPod, t *term, domain string) {
	for _, other := range c.placed {
		value, ok := other.node.Labels[t.key]
		if other != r && ok && value == domain && c.classes.selects(t, other.class) {
			severity := severityFor(r.boundByBerth && other.boundByBerth)
			c.add(severity, "S7", fmt.Sprintf("has anti-affinity to %s, but both are in %s=%s",
				podObjectOf(other.pod), t.key, domain), podObjectOf(r.pod), podObjectOf(other.pod))
		}
	}
}
