package audit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
)

// topologyLaws checks the rules of new placements about pods on other nodes (S7): required anti-affinity in both
// directions, required affinity, and hard spread constraints. It works by class, because a rule cannot distinguish the
// pods of one class: whether a term selects a class is computed once (classes.selects).
type topologyLaws struct {
	evidence *evidence
	placed   *placements
	found    *findings
}

// checkTopology checks the rules about pods on other nodes (S7): the pod's own, and the anti-affinity of other pods
// against it, among everything placed up to this revision. A node that the history does not contain has no labels, so
// its placements are left out.
func (l *topologyLaws) checkTopology(p *placement) {
	if l.evidence.nodes[p.nodeUID] == nil || p.class == nil {
		return
	}
	hi := l.placed.horizon(p)
	// Both directions for each class at once: the new pod's terms against its pods, and its terms against the new pod.
	for _, k := range l.evidence.classes.all {
		if len(k.placements) == 0 {
			continue
		}
		for _, t := range p.class.antiAffinity {
			if l.evidence.classes.selects(t, k) {
				l.checkApart(p, k, t, hi, "has anti-affinity to")
			}
		}
		for _, t := range k.antiAffinity {
			if l.evidence.classes.selects(t, p.class) {
				l.checkApart(p, k, t, hi, "is excluded by the anti-affinity of")
			}
		}
	}
	for _, rule := range p.class.spread {
		l.checkSpread(p, rule, hi)
	}
	if len(p.class.affinity) > 0 {
		l.checkTogether(p, hi)
	}
}

// checkApart reports each pod of a class that is certainly in the same domain as the placement, for an anti-affinity
// term of one of the two. verb says which of them has the term.
func (l *topologyLaws) checkApart(p *placement, k *class, t *term, hi uint64, verb string) {
	domain, ok := l.domain(p, t.key, hi)
	if !ok {
		return
	}
	for q := range k.placements {
		if q == p || q.entry.PodUID == p.entry.PodUID || q.ended(hi) {
			continue
		}
		if other, ok := l.domain(q, t.key, hi); ok && other == domain {
			l.found.violate("S7", []string{p.object(), q.object(), nodeObject(p.node), nodeObject(q.node)},
				"%s %s, but both are in %s=%s", verb, q.name(), t.key, domain)
		}
	}
}

// domain returns the domain of a placement: the value of its node's label, if it was the same during the whole time up
// to hi; false otherwise. A node whose label changed may have been in either domain, and is not judged.
func (l *topologyLaws) domain(p *placement, key string, hi uint64) (string, bool) {
	node := l.evidence.nodes[p.nodeUID]
	if node == nil {
		return "", false
	}
	return node.label(key, 0, hi)
}

// checkSpread checks a hard spread constraint of the placement's pod: the skew, which is the number of matching pods
// in its domain minus that in the emptiest domain, is at most maxSkew. It counts in favour of the placement: in its
// own domain, only pods that were certainly there before this revision; in the others, all that may have been. A
// domain is the emptiest only if it certainly counted. With fewer domains than minDomains the least is 0. Sources:
// KEP-895, KEP-3022.
func (l *topologyLaws) checkSpread(p *placement, rule *spreadRule, hi uint64) {
	domain, ok := l.domain(p, rule.key, hi)
	if !ok {
		return
	}
	// A placement in a domain that does not certainly count is not judged: the rule may not have seen the domain at
	// all.
	surely, maybe := l.domainsOf(p, rule, hi)
	if !surely[domain] {
		return
	}
	here, counts := l.countDomains(p, rule, hi, domain)
	// The emptiest of the domains that certainly count, each with all pods that may have been there.
	least := -1
	for d := range surely {
		if n := counts[d]; least < 0 || n < least {
			least = n
		}
	}
	if wanted := rule.constraint.MinDomains; wanted != nil && len(maybe) < int(*wanted) {
		least = 0
	}
	if l.evidence.classes.selects(&rule.term, p.class) {
		here++
	}
	if skew := here - least; skew > int(rule.constraint.MaxSkew) {
		l.found.violate("S7", []string{p.object(), nodeObject(p.node)},
			"is pod number %d in %s=%s while another domain has %d: skew %d, allowed %d",
			here, rule.key, domain, least, skew, rule.constraint.MaxSkew)
	}
}

// countDomains counts the pods that a spread rule selects: in the domain `own` only those that were certainly there
// before this revision, elsewhere all that may have been there at any time.
func (l *topologyLaws) countDomains(
	p *placement, rule *spreadRule, hi uint64, own string,
) (here int, counts map[string]int) {
	counts = map[string]int{}
	past := l.evidence.timeline.lastMarkBeforePause(l.found.revision)
	for _, k := range l.evidence.classes.all {
		if len(k.placements) == 0 || !l.evidence.classes.selects(&rule.term, k) {
			continue
		}
		for q := range k.placements {
			d, ok := l.domain(q, rule.key, hi)
			if !ok || q.entry.PodUID == p.entry.PodUID || q.endedAtMark(past) {
				continue
			}
			counts[d]++
			leaving := q.pod != nil && q.pod.leaving.possibleBy(hi)
			if d == own && q.committed < l.found.revision && !q.ended(hi) && !leaving && l.eligible(q, p, rule, hi) {
				here++
			}
		}
	}
	return here, counts
}

// eligible reports whether the node of q certainly counts for the rule of p. A pod on a deleted node counts for no
// domain, even if another node registers under the name.
func (l *topologyLaws) eligible(q, p *placement, rule *spreadRule, hi uint64) bool {
	node := l.evidence.nodes[q.nodeUID]
	return node != nil && !node.gone.possibleBy(hi) && l.counts(p, rule, node, hi)
}

// domainsOf returns the domains that certainly count for a rule, and those that may.
func (l *topologyLaws) domainsOf(p *placement, rule *spreadRule, hi uint64) (surely, maybe map[string]bool) {
	surely, maybe = map[string]bool{}, map[string]bool{}
	for _, n := range l.evidence.nodes {
		if !n.born.possibleBy(hi) {
			continue
		}
		last := n.versions[len(n.versions)-1].object
		value, ok := last.Labels[rule.key]
		if !ok {
			continue
		}
		maybe[value] = true
		steady, ok := n.label(rule.key, p.knownNodes, hi)
		if ok && n.born.certainBy(p.knownNodes) && !n.gone.possibleBy(hi) && l.counts(p, rule, n, hi) {
			surely[steady] = true
		}
	}
	return surely, maybe
}

// counts reports whether a node counts for a spread rule in every version from the decision to hi: the pod selects
// it and, if the rule requires that, tolerates its taints (KEP-3094). Nodes that lack a key of another hard
// constraint do not count.
func (l *topologyLaws) counts(p *placement, rule *spreadRule, n *nodeHistory, hi uint64) bool {
	pod := p.pod.decided(p.entry.PodRV).pod
	for _, v := range within(n.versions, p.knownNodes, hi) {
		if !countsIn(pod, rule, v.object) {
			return false
		}
	}
	return true
}

// countsIn reports whether a node counts for a spread constraint of a pod. The defaults of the two policies are those
// of upstream: node affinity is honoured, taints are ignored.
func countsIn(pod *corev1.Pod, rule *spreadRule, node *corev1.Node) bool {
	for _, s := range pod.Spec.TopologySpreadConstraints {
		if _, ok := node.Labels[s.TopologyKey]; s.WhenUnsatisfiable == corev1.DoNotSchedule && !ok {
			return false
		}
	}
	affinity, taints := rule.constraint.NodeAffinityPolicy, rule.constraint.NodeTaintsPolicy
	if affinity == nil || *affinity == corev1.NodeInclusionPolicyHonor {
		if !fit.Selects(pod, node) {
			return false
		}
	}
	if taints != nil && *taints == corev1.NodeInclusionPolicyHonor {
		_, repelled := fit.Untolerated(pod, node.Spec.Taints)
		return !repelled
	}
	return true
}

// checkTogether checks that for each required affinity term a matching pod is in the domain, or that the pod is the
// first of its kind.
func (l *topologyLaws) checkTogether(p *placement, hi uint64) {
	missing, first := "", true
	for _, t := range p.class.affinity {
		domain, _ := l.domain(p, t.key, hi)
		here, anywhere := l.providers(p, t, domain, hi)
		if !here {
			missing = fmt.Sprintf("no pod that its affinity requires is in %s=%s", t.key, domain)
		}
		first = first && !anywhere && l.evidence.classes.selects(t, p.class)
	}
	if missing != "" && !first {
		l.found.violate("S7", []string{p.object(), nodeObject(p.node)}, "%s, and it is not the first of its kind", missing)
	}
}

// providers reports whether a pod that the term matches may be in the domain, and whether one certainly exists
// anywhere. Pods of other schedulers may be anywhere, and so count for here.
func (l *topologyLaws) providers(p *placement, t *term, domain string, hi uint64) (here, anywhere bool) {
	for _, k := range l.evidence.classes.all {
		if !l.evidence.classes.selects(t, k) {
			continue
		}
		for q := range k.placements {
			if q.entry.PodUID == p.entry.PodUID {
				continue
			}
			d, ok := l.domain(q, t.key, hi)
			here = here || !ok || d == domain
			anywhere = anywhere || q.committed < l.found.revision && !q.ended(hi)
		}
	}
	for _, pods := range l.evidence.foreign {
		for _, q := range pods {
			here = here || l.evidence.classes.selects(t, q.last().class)
		}
	}
	return here, anywhere
}
