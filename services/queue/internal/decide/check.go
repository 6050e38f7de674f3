package decide

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Check reports the first inconsistency of the core itself or with the pods that the facts show; nil if there is none
// (I5, I6). It is for tests, simulation and checks, because it visits everything.
func (c *Core) Check(pods iter.Seq[*state.Pod]) error {
	b := c.backlog
	if err := b.pools.check(b); err != nil {
		return err
	}
	err := errors.Join(c.leases.check(b.pools.offered.All()), b.pools.waiting.check(b.pools.parked),
		b.pools.lanes.check(b.pods, b.pools.early.has), c.budgets.Check())
	if err != nil {
		return err
	}
	wanted := 0
	for p := range pods {
		if !b.queued(p) {
			continue
		}
		wanted++
		if _, ok := b.pods[p.UID]; !ok {
			return fmt.Errorf("I5: pod %s is unbound and in no pool", p.UID)
		}
	}
	if wanted != len(b.pods) {
		return fmt.Errorf("I5: %d pods in pools, the facts show %d", len(b.pods), wanted)
	}
	return nil
}

// check checks every pod, and the counts of the pools.
func (p *pools) check(of *backlog) error {
	seen := map[string]Pool{}
	active, early := 0, 0
	for b := range p.bags() {
		for i, e := range b.All() {
			if was, twice := seen[e.pod.UID]; twice {
				return fmt.Errorf("I5: pod %s is in %s and in %s", e.pod.UID, was, b.pool)
			}
			seen[e.pod.UID] = b.pool
			if err := errors.Join(of.checkEntry(e, b), p.checkPlace(e, b, i)); err != nil {
				return err
			}
			if b.pool == PoolActive {
				active++
			}
			if p.early.has(e) {
				early++
			}
		}
	}
	if len(seen) != len(of.pods) || active != p.activeCount || early != p.early.count {
		return fmt.Errorf("I5: %d pods known, %d in pools; %d active, counted %d; %d may go early, counted %d",
			len(of.pods), len(seen), active, p.activeCount, early, p.early.count)
	}
	if n := p.budgets.Sizes().Gated; n != p.gated.Len() {
		return fmt.Errorf("I5: %d pods are gated, the budgets know %d", p.gated.Len(), n)
	}
	return nil
}

// checkPlace checks a pod against the indexes of its pool.
func (p *pools) checkPlace(e *entry, b *bag, index int) error {
	uid := e.pod.UID
	_, settling := p.settling[e]
	held := b.pool == PoolHeld
	switch {
	case e.in != b || int(e.index[slotPool]) != index:
		return fmt.Errorf("I5: pod %s: broken index in %s", uid, b.pool)
	case held && e.hold.live == settling:
		return fmt.Errorf("I5: pod %s is held: live %t, settling %t", uid, e.hold.live, settling)
	case b.pool == PoolActive && (e.partition != partitionOf(e.pod) || b != p.activeBag(e)):
		return fmt.Errorf("I5: pod %s is in the wrong partition, or without a permit", uid)
	case e.permit && (e.lane == nil || b.pool != PoolActive && b.pool != PoolOffered):
		return fmt.Errorf("I5: pod %s is in %s and has a permit", uid, b.pool)
	case (e.early != nil) != (b == p.backoff && e.mayGoEarly()):
		return fmt.Errorf("I5: pod %s is in %s, may go early: %t, listed: %t",
			uid, b.pool, e.mayGoEarly(), e.early != nil)
	case b == p.gated && !p.budgets.Gated(uid):
		return fmt.Errorf("I5: pod %s is gated and not known to the budgets", uid)
	}
	return nil
}

// activeBag returns the bag in which an active pod must be.
func (p *pools) activeBag(e *entry) *bag {
	if e.lane != nil && !e.permit {
		return e.lane.blocked
	}
	return p.active[e.partition]
}

// checkEntry checks that a pod is in the right bag.
func (b *backlog) checkEntry(e *entry, in *bag) error {
	uid := e.pod.UID
	_, live := b.live[uid]
	switch {
	case b.pods[uid] != e:
		return fmt.Errorf("I5: pod %s is not the one that is known in %s", uid, in.pool)
	case live != e.hold.live || (live && in.pool != PoolHeld):
		return fmt.Errorf("I5: pod %s has a reservation: %t, taken for: %t, in %s", uid, live, e.hold.live, in.pool)
	case in == b.pools.parked && b.journal.sawHelp(e, b.pools.profile(e)):
		return fmt.Errorf("I6: pod %s is parked, its cause came after its verdict", uid)
	}
	return nil
}

// check compares the index of the parked pods with the pool.
func (w *waiting) check(parked *bag) error {
	for key, r := range w.rules {
		for class, g := range r.groups {
			if g.rule != r || g.interest.Class != class || len(g.members) == 0 {
				return fmt.Errorf("I5: group %q of %v is broken", class, key)
			}
			stray := slices.IndexFunc(g.members, func(m member) bool { return m.entry.in != parked })
			if stray >= 0 {
				return fmt.Errorf("I5: pod %s waits for %v and is not parked", g.members[stray].entry.pod.UID, key)
			}
		}
	}
	if w.pods != parked.Len() {
		return fmt.Errorf("I5: %d pods parked, %d can be woken", parked.Len(), w.pods)
	}
	for _, e := range parked.All() {
		if err := checkWaits(e); err != nil {
			return err
		}
	}
	return nil
}

func checkWaits(e *entry) error {
	if len(e.waits) != max(len(e.verdict.plugins), 1) {
		return fmt.Errorf("I5: pod %s was rejected by %v and waits in %d groups", e.pod.UID, e.verdict.plugins, len(e.waits))
	}
	for slot, at := range e.waits {
		if at.index >= len(at.group.members) || at.group.members[at.index] != (member{entry: e, slot: slot}) {
			return fmt.Errorf("I5: pod %s is not in its group %v", e.pod.UID, at.group.rule.key)
		}
	}
	return nil
}
