package ledgertest

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// gathered returns a store in which three members of a gang hold places: two on node a, for which v and w must leave,
// and one on node b that fits as it is. plans are the ids of their plans, in that order.
func gathered(t *testing.T, h Harness) (members []txns.Nomination, plans []string) {
	t.Helper()
	s := newShard(t, h, "s")
	for _, victims := range [][]txns.NodeEntry{{victim("a", "v")}, {victim("a", "w")}, nil} {
		n := s.nomination(running(100, "v", "w"), []ledger.NodeDoc{doc(t, h.Store, "a")}, victims...)
		if victims == nil {
			n.Hold.NodeUID = "b"
			n.Docs = []ledger.NodeDoc{node("b")}
		}
		c, err := txns.FormMember(n)
		commitChange(t, h, built(t, c, err))
		members = append(members, n)
		plans = append(plans, n.RecordedPlan())
	}
	return members, plans
}

// formed returns the plans with a record, and the documents of all holds.
func formed(t *testing.T, h Harness, plans []string) (list []txns.FormedPlan, holds []ledger.NodeDoc) {
	t.Helper()
	v := ledgerOf(t, h)
	for _, plan := range plans {
		hold, _, _ := v.Plans().Owner(plan)
		holds = append(holds, hold)
		if r, ok := v.Plans().Record(plan); ok {
			list = append(list, txns.FormedPlan{Record: r, Hold: hold})
		}
	}
	return list, holds
}

func finishTogether(t *testing.T, h Harness) {
	members, plans := gathered(t, h)
	list, holds := formed(t, h, plans)
	for i, uid := range []string{"v", "w"} {
		_, err := mark(t, h, plans[i], uid)
		refused(t, "a victim is marked before the plans are ready", err)
	}
	_, err := txns.FinishPlans(members[0].Authority, nil, holds)
	refused(t, "no plan is finished", err)
	astray := slices.Clone(list)
	astray[1].Hold = holds[2]
	_, err = txns.FinishPlans(authorityOver(members), astray, holds)
	refused(t, "a plan without its hold is finished", err)

	authority := authorityOver(members)
	late, err := txns.FinishPlans(authority, list, holds)
	built(t, late, err)
	c, err := txns.AbortPlan(txns.Abort{Plan: plans[2], Docs: []ledger.NodeDoc{holds[2]}, Record: &list[2].Record})
	commitChange(t, h, built(t, c, err))
	if lost := wantConflict(t, h, late); len(lost.Docs) != 1 || lost.Docs[0].NodeUID != "b" {
		t.Errorf("finished after a hold was given up: lost %+v, want the document of b", lost)
	}
	list, holds = formed(t, h, plans[:2])
	c, err = txns.FinishPlans(authority, list, holds)
	commitChange(t, h, built(t, c, err))
	for i, uid := range []string{"v", "w"} {
		c, err := mark(t, h, plans[i], uid)
		commitChange(t, h, built(t, c, err))
	}
}

// authorityOver returns the authority over all members.
func authorityOver(members []txns.Nomination) txns.Authority {
	all := txns.Authority{Epochs: map[int32]int64{}, TermRegistryRevision: members[0].TermRegistryRevision}
	for _, n := range members {
		for p, epoch := range n.Epochs {
			all.Epochs[p] = epoch
		}
	}
	return all
}

func promoteTogether(t *testing.T, h Harness) {
	members, plans := gathered(t, h)
	list, holds := formed(t, h, plans)
	c, err := txns.FinishPlans(authorityOver(members), list, holds)
	commitChange(t, h, built(t, c, err))
	promotions := func(f api) (out []txns.Promotion) {
		v := ledgerOf(t, h)
		for i, n := range members {
			p := txns.Promotion{
				Authority: authorityOver(members), PodUID: n.Hold.Entry.PodUID, Token: n.Hold.Entry.Token,
				PodRV: n.Hold.Entry.PodRV, Fits: true, Facts: f,
			}
			p.Target, _, _ = v.Plans().Owner(plans[i])
			if r, ok := v.Plans().Record(plans[i]); ok {
				p.Record = &r
			}
			out = append(out, p)
		}
		return out
	}
	_, err = txns.PromoteTogether(promotions(running(200, "w")))
	refused(t, "promoted while a victim of one member runs", err)
	unfit := promotions(running(200))
	unfit[2].Fits = false
	_, err = txns.PromoteTogether(unfit)
	refused(t, "promoted although one member does not fit", err)
	claims := promotions(running(200))
	claims[1].Exclusives = []ledger.ExclusiveDoc{{Key: "x/ns/claim"}}
	_, err = txns.PromoteTogether(claims)
	refused(t, "promoted with claims", err)

	c, err = txns.PromoteTogether(promotions(running(200)))
	at := commitChange(t, h, built(t, c, err))
	v := ledgerOf(t, h)
	for _, n := range members {
		d, e, _ := v.Entry(n.Hold.Entry.PodUID)
		if e.State != ledger.Committed || e.Plan != "" || d.Revision != at {
			t.Errorf("member %s: %+v at %d, want it Committed at %d", n.Hold.Entry.PodUID, e, d.Revision, at)
		}
	}
	if d, _ := v.Doc("a"); len(d.Entries) != 2 {
		t.Errorf("node a has %d entries, want the two members", len(d.Entries))
	}
	for _, plan := range plans {
		if r, _ := v.Plans().Record(plan); r.State != ledger.PlanDone {
			t.Errorf("the record of %s is %v, want Done", plan, r.State)
		}
	}
	if lost := wantConflict(t, h, c); !lost.Applied || lost.AppliedAt != at {
		t.Errorf("resubmitted: %+v, want applied at %d", lost, at)
	}
	foreign := promotions(running(200))
	foreign[0].Authority = txns.Authority{Epochs: map[int32]int64{}}
	var moved *txns.TransitionError
	if _, err := txns.PromoteTogether(foreign); !errors.As(err, &moved) {
		t.Errorf("promoted again: %v, want *TransitionError", err)
	}
}
