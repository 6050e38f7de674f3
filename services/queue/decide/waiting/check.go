package waiting

import (
	"errors"
	"fmt"
	"slices"
)

// Check checks every pod, also by each, and the counts and indexes of the pools.
func (p *Pools) Check(pods map[string]*Entry, each func(e *Entry, in *Bag) error) error {
	seen := map[string]Pool{}
	active, early := 0, 0
	for b := range p.Bags() {
		for i, e := range b.All() {
			if was, twice := seen[e.Pod.UID]; twice {
				return fmt.Errorf("I5: pod %s is in %s and in %s", e.Pod.UID, was, b.Pool)
			}
			seen[e.Pod.UID] = b.Pool
			if err := errors.Join(each(e, b), p.checkPlace(e, b, i)); err != nil {
				return err
			}
			if b.Pool == PoolActive {
				active++
			}
			if p.lanes.early.has(e) {
				early++
			}
		}
	}
	if len(seen) != len(pods) || active != p.ActiveCount || early != p.lanes.early.count {
		return fmt.Errorf("I5: %d pods known, %d in pools; %d active, counted %d; %d may go early, counted %d",
			len(pods), len(seen), active, p.ActiveCount, early, p.lanes.early.count)
	}
	return errors.Join(p.byRule.check(p.Parked), p.lanes.check(pods), p.Units.check(pods))
}

// checkPlace checks a pod against the indexes of its pool.
func (p *Pools) checkPlace(e *Entry, b *Bag, index int) error {
	uid := e.Pod.UID
	_, settling := p.Settling[e]
	held := b.Pool == PoolHeld
	switch {
	case e.In != b || int(e.index[slotPool]) != index:
		return fmt.Errorf("I5: pod %s: broken index in %s", uid, b.Pool)
	case held && e.Hold.Live == settling:
		return fmt.Errorf("I5: pod %s is held: live %t, settling %t", uid, e.Hold.Live, settling)
	case b.Pool == PoolActive && (e.Partition != PartitionOf(e.Pod) || b != p.activeBag(e)):
		return fmt.Errorf("I5: pod %s is in the wrong partition, or without a permit", uid)
	case e.permit && (e.lane == nil || b.Pool != PoolActive && b.Pool != PoolOffered):
		return fmt.Errorf("I5: pod %s is in %s and has a permit", uid, b.Pool)
	case (e.early != nil) != (b == p.Backoff && e.mayLeaveEarly()):
		return fmt.Errorf("I5: pod %s is in %s, may go early: %t, listed: %t",
			uid, b.Pool, e.mayLeaveEarly(), e.early != nil)
	}
	return nil
}

// activeBag returns the bag in which an active pod must be.
func (p *Pools) activeBag(e *Entry) *Bag {
	if e.lane != nil && !e.permit {
		return e.lane.blocked
	}
	return p.Active[e.Partition]
}

// check compares the index of the parked pods with the pool.
func (w *wakeIndex) check(parked *Bag) error {
	for key, r := range w.rules {
		for class, g := range r.groups {
			if g.rule != r || g.interest.Class != class || len(g.members) == 0 {
				return fmt.Errorf("I5: group %q of %v is broken", class, key)
			}
			stray := slices.IndexFunc(g.members, func(m member) bool { return m.entry.In != parked })
			if stray >= 0 {
				return fmt.Errorf("I5: pod %s waits for %v and is not parked", g.members[stray].entry.Pod.UID, key)
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

// checkWaits checks that a parked pod is in one group for each rule that rejected it, at the recorded index.
func checkWaits(e *Entry) error {
	if len(e.groups) != max(len(e.Verdict.Plugins), 1) {
		return fmt.Errorf("I5: pod %s was rejected by %v and waits in %d groups", e.Pod.UID, e.Verdict.Plugins, len(e.groups))
	}
	for slot, at := range e.groups {
		if at.index >= len(at.group.members) || at.group.members[at.index] != (member{entry: e, slot: slot}) {
			return fmt.Errorf("I5: pod %s is not in its group %v", e.Pod.UID, at.group.rule.key)
		}
	}
	return nil
}
