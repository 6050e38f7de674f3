package preempt

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// SetSpared makes exactly these pods be spared as victims, without an end. Replay uses it to restore the state of a
// record; pods that the facts do not have are left out.
func (p *Preemption) SetSpared(uids []string) {
	snapshot := p.Holds.shard.View.Snapshot()
	nodes := map[string]string{}
	for _, uid := range uids {
		pod, ok := p.Holds.shard.View.Pod(uid)
		if !ok {
			continue
		}
		if n, ok := snapshot.NodeByName(pod.NodeName); ok {
			nodes[uid] = n.UID
		}
	}
	p.failures.SetSpared(nodes)
}

// RemakeSearch returns the node that a search for victims finds for an attempt that fits nowhere, or the node of the
// hold that it would take over. Nothing is proposed. An error explains why the search finds no node.
func (p *Preemption) RemakeSearch(a *attempt.Attempt, profile *placement.Profile, seed uint64) (string, error) {
	n := p.nominator
	s, err := n.seekerOf(a, profile)
	if err != nil {
		return "", err
	}
	if s.volumes, err = n.shard.Claims.SupplyFor(a.Pod, profile); err != nil {
		return "", err
	}
	if t, ok := n.displaceable(s); ok && !s.volumes.Any() {
		return t.node.Node.Name, nil
	}
	p.budgets.Reread()
	plan := n.preempt(s, engine.PreemptQuery{
		Pod: a.Pod, Seed: seed, Budgets: p.budgets.Current(), Opinions: n.search.SpareNominated(a.Pod, nil),
	})
	switch {
	case plan.Err != nil:
		return "", plan.Err
	case plan.Node == nil:
		return "", errors.New("on this state nobody would have to go for the pod: " + plan.Message)
	}
	return plan.Node.Node.Name, nil
}

// RemakeDisplaceKept stages an attempt in a place that is kept for a less important pod. An error means that there is
// none where it fits.
func (p *Preemption) RemakeDisplaceKept(a *attempt.Attempt, profile *placement.Profile) error {
	s, err := p.nominator.seekerOf(a, profile)
	if err != nil {
		return err
	}
	if !p.Places.displaceKept(s.Attempt, s.profile, &s.concern) {
		return errors.New("no place that is kept could be ousted")
	}
	return nil
}

// seekerOf returns the seeker of an attempt that has found no node.
func (nm *nominator) seekerOf(a *attempt.Attempt, profile *placement.Profile) (seeker, error) {
	concern, err := nm.rules.ConcernOf(a.Pod, profile)
	if err != nil {
		return seeker{}, err
	}
	nm.shard.View.Settle()
	return seeker{
		by: nm, Rejection: attempt.Rejection{Attempt: a}, pod: a.Pod, profile: profile, concern: concern,
	}, nil
}
