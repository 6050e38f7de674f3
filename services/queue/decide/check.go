package decide

import (
	"errors"
	"fmt"
	"iter"

	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Check reports the first inconsistency of the core itself or with the pods that the facts show; nil if there is none
// (I5, I6). It is for tests, simulation and checks, because it visits everything.
func (c *Core) Check(pods iter.Seq[*state.Pod]) error {
	b := c.backlog
	if err := b.pools.Check(b.pods, b.checkEntry); err != nil {
		return err
	}
	err := errors.Join(c.leases.check(b.pools.Offered.All()), c.budgets.Check(), c.checkGated())
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

// checkGated compares the gated pods with those that the budgets know.
func (c *Core) checkGated() error {
	gated := c.backlog.pools.Gated
	for _, e := range gated.All() {
		if !c.budgets.Gated(e.Pod.UID) {
			return fmt.Errorf("I5: pod %s is gated and not known to the budgets", e.Pod.UID)
		}
	}
	if n := c.budgets.Sizes().Gated; n != gated.Len() {
		return fmt.Errorf("I5: %d pods are gated, the budgets know %d", gated.Len(), n)
	}
	return nil
}

// checkEntry checks that a pod is in the right bag.
func (b *backlog) checkEntry(e *waiting.Entry, in *waiting.Bag) error {
	uid := e.Pod.UID
	_, live := b.live[uid]
	switch {
	case b.pods[uid] != e:
		return fmt.Errorf("I5: pod %s is not the one that is known in %s", uid, in.Pool)
	case live != e.Hold.Live || (live && in.Pool != waiting.PoolHeld):
		return fmt.Errorf("I5: pod %s has a reservation: %t, taken for: %t, in %s", uid, live, e.Hold.Live, in.Pool)
	case in == b.pools.Parked && b.journal.SawHelp(e, b.pools.Profile(e)):
		return fmt.Errorf("I6: pod %s is parked, its cause came after its verdict", uid)
	}
	return nil
}
