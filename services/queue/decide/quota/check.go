package quota

import (
	"fmt"
	"slices"
)

// Check reports the first inconsistency; nil if there is none (I5, I6). It visits everything.
func (b *Budgets) Check() error {
	for uid, w := range b.gated {
		_, going := b.Leaving.known[uid]
		if w.waits == going && Waits(w.pod) {
			return fmt.Errorf("I5: pod %s waits for quota: in line %t, about to go %t", uid, w.waits, going)
		}
		if all := b.namespaceOf(w.pod.Namespace).waiting.All(); w.waits && all[w.index] != w {
			return fmt.Errorf("I5: pod %s waits for quota in another place than it has recorded", uid)
		}
	}
	requested, sums := 0, map[*namespace]Amounts{}
	for _, l := range b.Leaving.known {
		sums[l.space] = sums[l.space].Plus(l.requests)
		if !l.overdue {
			requested++
		}
	}
	if requested != b.Leaving.requested {
		return fmt.Errorf("I5: %d pods are asked to go, counted %d", requested, b.Leaving.requested)
	}
	for _, s := range b.namespaces {
		if s.leaving != sums[s] {
			return fmt.Errorf("I5: namespace %s: %s are about to go, counted %s", s.name, s.leaving, sums[s])
		}
		if !b.leads && (s.inTurn || len(s.overdue) > 0) {
			return fmt.Errorf("I5: namespace %s: in turn %t, %d overdue, without leading", s.name, s.inTurn, len(s.overdue))
		}
		if w := s.waiting.First(); b.leads && w != nil && b.mayRelease(s) && !s.inTurn {
			return fmt.Errorf("I6: namespace %s has room for %s and gets no turn", s.name, w.pod.UID)
		}
	}
	return nil
}

// Gated reports whether a pod is known to wait for its gates.
func (b *Budgets) Gated(uid string) bool { return b.gated[uid] != nil }

// Overdue returns the UIDs of the pods whose removal must be requested again, sorted.
func (b *Budgets) Overdue() (uids []string) {
	for uid, l := range b.Leaving.known {
		if l.overdue {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Sizes counts what the budgets hold.
type Sizes struct{ Namespaces, Gated, Turns, Leaving, Hidden int }

// Sizes counts what the budgets hold.
func (b *Budgets) Sizes() Sizes {
	return Sizes{len(b.namespaces), len(b.gated), len(b.turns), len(b.Leaving.known), len(b.Leaving.hidden)}
}
