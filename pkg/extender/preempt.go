package extender

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Preempt asks the extenders on which of some nodes pods may be evicted for a pod that fits nowhere, and which
// pods. First it asks the extenders with a preemptVerb, each about the candidates that the one before has left.
// Such an extender may leave nodes out, name other pods of the same nodes as victims, and report another number of
// victims that exceed disruption budgets. Source: callExtenders in pkg/scheduler/framework/preemption.
//
// Extenders without a preemptVerb cannot express an opinion about victims, and upstream skips them. If they filter,
// they are asked about the remaining nodes in their present state: a node that they find unresolvable
// (FailedAndUnresolvableNodes, or not mentioned) is left out, as it would be before any preemption, and a node that
// they reject otherwise is marked as doubted (preempt.Candidate).
//
// The answer keeps the order of the candidates; no candidate is left without victims. An error comes from an
// extender that is not ignorable.
func (s *Set) Preempt(
	ctx context.Context, pod *state.Pod, candidates []preempt.Candidate,
) ([]preempt.Candidate, error) {
	// The object is built once for all extenders.
	object, left := pod.Object(), candidates
	for _, c := range s.clients {
		if len(left) == 0 {
			return left, nil
		}
		if c.config.PreemptVerb == "" || !placement.Interested(c.config, pod) {
			continue
		}
		answer, err := c.preempt(ctx, object, left)
		switch {
		case err != nil && c.config.Ignorable:
			s.ignored(c, c.config.PreemptVerb, pod, err)
		case err != nil:
			return nil, err
		default:
			left = answer
		}
	}
	return s.consultFilters(ctx, pod, object, left)
}

// consultFilters asks the extenders that filter and are not asked about victims about the remaining nodes. It works on
// a copy of candidates.
func (s *Set) consultFilters(
	ctx context.Context, pod *state.Pod, object *corev1.Pod, candidates []preempt.Candidate,
) ([]preempt.Candidate, error) {
	left := slices.Clone(candidates)
	for _, c := range s.clients {
		if len(left) == 0 {
			return left, nil
		}
		if c.config.FilterVerb == "" || c.config.PreemptVerb != "" || !placement.Interested(c.config, pod) {
			continue
		}
		// The question is about the nodes in their present state: it has no field for pods that are about to leave.
		nodes := make([]*corev1.Node, len(left))
		for i := range left {
			nodes[i] = left[i].Node.Object
		}
		f, err := c.filter(ctx, object, nodes)
		switch {
		case err != nil && c.config.Ignorable:
			s.ignored(c, c.config.FilterVerb, pod, err)
			continue
		case err != nil:
			return nil, err
		}
		left = slices.DeleteFunc(left, func(c preempt.Candidate) bool { return f.opinion(c.Node.Name).Unresolvable })
		for i := range left {
			left[i].Doubted = left[i].Doubted || f.opinion(left[i].Node.Name).Rejected
		}
	}
	return left, nil
}

// preempt asks one extender about candidates. An answer about a node that it was not asked about is an error, as
// are pods that are not on their node. (kube-scheduler lets an extender name any node that exists, even one on
// which the rules would not accept the pod once the victims are gone.) An empty list of victims is an error, too,
// unless the extender is ignorable: then only that node is left out.
func (c *Client) preempt(
	ctx context.Context, pod *corev1.Pod, candidates []preempt.Candidate,
) (left []preempt.Candidate, err error) {
	var answer extenderv1.ExtenderPreemptionResult
	if err := c.send(ctx, c.config.PreemptVerb, c.victimsQuestion(pod, candidates), &answer); err != nil {
		return nil, err
	}
	// Candidates are visited in their own order, not in that of the answer's map, so that the result is reproducible.
	answered := 0
	for i := range candidates {
		victims, named := answer.NodeNameToMetaVictims[candidates[i].Node.Name]
		if !named {
			continue
		}
		answered++
		one, err := c.applyVictims(candidates[i], victims)
		switch {
		case err != nil:
			return nil, err
		case len(one.Victims) > 0:
			left = append(left, one)
		case !c.config.Ignorable:
			return nil, fmt.Errorf("expected at least one victim pod on node %q", one.Node.Name)
		}
	}
	if answered < len(answer.NodeNameToMetaVictims) {
		return nil, c.unknownNodeError(candidates, answer.NodeNameToMetaVictims)
	}
	return left, nil
}

// unknownNodeError returns the error that names the first node of an answer that is not a candidate: the first by
// name, so that the error is the same each time.
func (c *Client) unknownNodeError(
	candidates []preempt.Candidate, answer map[string]*extenderv1.MetaVictims,
) error {
	first := ""
	for name := range answer {
		known := slices.ContainsFunc(candidates, func(c preempt.Candidate) bool { return c.Node.Name == name })
		if !known && (first == "" || name < first) {
			first = name
		}
	}
	return fmt.Errorf("extender %q returned node %q for preemption, which was not a candidate", address(c.config), first)
}

// applyVictims returns a candidate with the victims of an answer, in the answer's order, each once. Victims must be
// among the pods on the node that preemption considered (Standing). A nil answer leaves no victims.
func (c *Client) applyVictims(
	one preempt.Candidate, answer *extenderv1.MetaVictims,
) (preempt.Candidate, error) {
	// The answer replaces the victims; it does not add to them.
	one.Victims = nil
	if answer == nil {
		return one, nil
	}
	one.Violations = int(answer.NumPDBViolations)
	for _, meta := range answer.Pods {
		i := -1
		if meta != nil {
			i = slices.IndexFunc(one.Pods, func(p *state.Pod) bool { return p.UID == meta.UID })
		}
		if i < 0 {
			return one, fmt.Errorf("extender %q returned pod %v as a victim on node %q, which does not have that pod",
				address(c.config), meta, one.Node.Name)
		}
		if !slices.Contains(one.Victims, one.Pods[i]) {
			one.Victims = append(one.Victims, one.Pods[i])
		}
	}
	return one, nil
}

// victimsQuestion builds the question about victims: by UID for an extender that caches nodes and pods, else with the
// whole objects.
func (c *Client) victimsQuestion(
	pod *corev1.Pod, candidates []preempt.Candidate,
) *extenderv1.ExtenderPreemptionArgs {
	q := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		q.NodeNameToMetaVictims = make(map[string]*extenderv1.MetaVictims, len(candidates))
	} else {
		q.NodeNameToVictims = make(map[string]*extenderv1.Victims, len(candidates))
	}
	for i := range candidates {
		one := &candidates[i]
		if c.config.NodeCacheCapable {
			meta := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: int64(one.Violations)}
			for _, v := range one.Victims {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: v.UID})
			}
			q.NodeNameToMetaVictims[one.Node.Name] = meta
			continue
		}
		victims := &extenderv1.Victims{NumPDBViolations: int64(one.Violations)}
		for _, v := range one.Victims {
			object := v.Object()
			object.Spec.NodeName = one.Node.Name // set also for a pod that is about to be bound, as upstream assumes it
			victims.Pods = append(victims.Pods, object)
		}
		q.NodeNameToVictims[one.Node.Name] = victims
	}
	return q
}
