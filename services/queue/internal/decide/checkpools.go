package decide

import (
	"errors"
	"fmt"
	"slices"
)

// check checks every pod, also by each, and the counts and indexes of the pools.
func (p *pools) check(pods map[string]*entry, each func(e *entry, in *bag) error) error {
	seen := map[string]Pool{}
	active, early := 0, 0
	for b := range p.bags() {
		for i, e := range b.All() {
			if was, twice := seen[e.pod.UID]; twice {
				return fmt.Errorf("I5: pod %s is in %s and in %s", e.pod.UID, was, b.pool)
			}
			seen[e.pod.UID] = b.pool
			if err := errors.Join(each(e, b), p.checkPlace(e, b, i)); err != nil {
				return err
			}
			if b.pool == PoolActive {
				active++
			}
			if p.lanes.early.has(e) {
				early++
			}
		}
	}
	if len(seen) != len(pods) || active != p.activeCount || early != p.lanes.early.count {
		return fmt.Errorf("I5: %d pods known, %d in pools; %d active, counted %d; %d may go early, counted %d",
			len(pods), len(seen), active, p.activeCount, early, p.lanes.early.count)
	}
	return errors.Join(p.waiting.check(p.parked), p.lanes.check(pods))
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
