package decide

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is everything a cycle depends on.
type Input struct {
	Cluster *state.Snapshot
	Policy  *policy.Policy
	// Memory of earlier asks; read only.
	Memory Memory
	// Placement finds the rules by which a pod of this scheduler would be placed (nodeFit).
	Placement func(schedulerName string) *placement.Profile
	// Actor is the member that asks.
	Actor string
	// Now is compared with the times in Memory, and with pods' start times (minPodAge).
	Now time.Time
}

// Eviction is one pod to evict.
type Eviction struct {
	// Profile of the policy whose strategy picked the pod.
	Profile  string
	Decision events.Decision
}

// Outcome is what a cycle decided.
type Outcome struct {
	descheduling.Outcome
	// Evict in the order in which to ask.
	Evict []Eviction
}

// Cycle runs every strategy of every profile once.
func Cycle(in Input) Outcome {
	c := &cycle{
		Input: in, limits: descheduling.NewLimits(in.Policy.Limits),
		unusable: map[*policy.Evictor]map[string]string{},
	}
	out := descheduling.Run(
		descheduling.Input{Cluster: in.Cluster, Policy: in.Policy, Now: in.Now}, c.offer)
	return Outcome{Outcome: out, Evict: c.evict}
}

// cycle is one Cycle under way.
type cycle struct {
	Input
	evict  []Eviction
	limits *descheduling.Limits
	// world is made when first needed, as is what each profile may not use of it: nodes by
	// UID, and why.
	world    *world
	unusable map[*policy.Evictor]map[string]string
}

// offer asks for one pod unless something stands against it. What is cheap to know comes
// first; a place on another node is looked for, and taken, last.
func (c *cycle) offer(candidate descheduling.Candidate, g *descheduling.Guard) descheduling.Refusal {
	pod := candidate.Pod
	if r := c.Memory.refuse(pod.UID, c.Now); r != "" {
		return r
	}
	if r := c.limits.Refuse(pod.NodeName, pod.Namespace); r != "" {
		return r
	}
	if !c.fits(pod.Pod, g.Evictor) {
		return descheduling.FitsNowhere
	}
	c.limits.Take(pod.NodeName, pod.Namespace)
	c.evict = append(c.evict, Eviction{Profile: candidate.Profile, Decision: c.decision(candidate)})
	return ""
}

func (c *cycle) decision(candidate descheduling.Candidate) events.Decision {
	pod, n := candidate.Pod, candidate.Pod.Node
	attempt := c.Memory.next(pod.UID)
	return events.Decision{
		Kind:               events.DecisionEvict,
		Pod:                events.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		SchedulerName:      pod.SchedulerName,
		Actor:              c.Actor,
		Attempt:            attempt,
		Token:              token(pod.UID, attempt).String(),
		FactSequence:       c.Cluster.Position().Sequence,
		PodResourceVersion: pod.ResourceVersion,
		NodeUID:            n.UID,
		NodeName:           n.Name,
		Message:            fmt.Sprintf("triggered by %s/%s: %s", candidate.Profile, candidate.Strategy, candidate.Reason),
		Strategy:           candidate.Strategy,
		GracePeriodSeconds: c.Policy.GracePeriodSeconds,
	}
}
