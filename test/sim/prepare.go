package sim

import (
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// What a binder does to the claims of a pod before it binds it, and when its place is taken back: the calls
// of services/binder/commit (prepareDevices, settleClaims) with anything in between. What that does
// with a read and a write that names the version which was read is one call here.

// claimWritten is the answer to one write of a claim.
type claimWritten struct {
	effect.Answered
	// version is that of the claim afterwards; 0 if it is gone. more: it takes another write.
	version uint64
	more    bool
}

// handle writes one claim.
func (b *binder) handle(what string, write func() claimWritten, next func(claimWritten) error) {
	b.w.send(&call{
		who: &b.proc, to: toAPI, what: what,
		carry: func() (any, error) {
			a := write()
			b.w.tracef("%s %s: %s %s at %d", b.member(), what, a.Result, a.Problem, a.version)
			return a, b.w.broken()
		},
		onResult: func(result any, err error) error {
			a, ok := result.(claimWritten)
			if err != nil || !ok {
				a = claimWritten{Answered: effect.Answered{Result: effect.Unknown, Problem: errUnknown.Error()}}
			}
			return next(a)
		},
	})
}

// prepare gives the claims of a pod their devices, from the i-th on, and binds the pod then. version is the claim's
// resourceVersion that the next write expects, 0 for that of the decision.
func (b *binder) prepare(e effect.Bind, i int, version uint64) {
	if e.Devices == nil || i == len(e.Devices.Picks) {
		b.bind(e)
		return
	}
	pick := e.Devices.Picks[i]
	if version == 0 {
		version = pick.ClaimRV
	}
	b.handle("claim", func() claimWritten { return b.w.prepareClaim(e, pick, version) }, func(a claimWritten) error {
		switch {
		case a.Result != effect.Done:
			a.Op = e.Op
			return b.answer(a.Answered)
		case a.more:
			b.prepare(e, i, a.version)
		default:
			b.prepare(e, i+1, 0)
		}
		return nil
	})
}

// prepareClaim is the next write that a claim needs.
func (w *world) prepareClaim(e effect.Bind, pick ledger.DevicePick, version uint64) claimWritten {
	no := func(why string) claimWritten {
		return claimWritten{Answered: effect.Answered{Result: effect.Refused, Problem: why}}
	}
	c, ok := w.api.claim(pick.ClaimUID)
	switch {
	case !ok:
		return no("gone")
	case c.DeletionTimestamp != nil:
		return no("being deleted")
	case c.Status.Allocation == nil && len(pick.Allocation) == 0:
		return no("without devices")
	}
	n := c.DeepCopy()
	uses := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: e.Pod.Name, UID: types.UID(e.Pod.UID)}
	switch {
	case c.Status.Allocation == nil && claimVersion(c) != version:
		return no("changed since the decision")
	case c.Status.Allocation == nil && len(c.Finalizers) == 0:
		n.Finalizers = []string{resourcev1.Finalizer}
		w.api.put(events.KindResourceClaim, n)
		return claimWritten{Answered: effect.Answered{Result: effect.Done}, version: w.api.rv, more: true}
	case c.Status.Allocation == nil:
		n.Status.Allocation = w.allocationOf(pick)
		n.Status.ReservedFor = append(n.Status.ReservedFor, uses)
		w.hit("devices given")
	case len(pick.Allocation) > 0 && deviceOf(c) != deviceOf(&resourcev1.ResourceClaim{
		Status: resourcev1.ResourceClaimStatus{Allocation: w.allocationOf(pick)},
	}):
		return no("with other devices")
	case slices.Contains(c.Status.ReservedFor, uses):
		return claimWritten{Answered: effect.Answered{Result: effect.Done}}
	default:
		n.Status.ReservedFor = append(n.Status.ReservedFor, uses)
	}
	w.api.put(events.KindResourceClaim, n)
	return claimWritten{Answered: effect.Answered{Result: effect.Done}}
}

func (w *world) allocationOf(pick ledger.DevicePick) *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	if err := a.Unmarshal(pick.Allocation); err != nil {
		w.note("form", "allocation of claim %s: %v", pick.Claim, err)
	}
	return a
}

func claimVersion(o metav1.Object) uint64 {
	rv, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // the model's own number
	return rv
}

// fence changes the pod, and settles the claims of its reservation, from the i-th on.
func (b *binder) fence(e effect.FencePod) {
	b.w.send(&call{
		who: &b.proc, to: toAPI, what: "fence",
		carry: func() (any, error) {
			a := b.w.fencePod(e)
			b.w.tracef("%s fence: %s", b.member(), a.Result)
			return a, b.w.broken()
		},
		onResult: func(result any, err error) error {
			a, ok := result.(effect.Answered)
			if err != nil || !ok {
				a = effect.Answered{Result: effect.Unknown, Problem: errUnknown.Error()}
			}
			a.Op = e.Op
			if a.Result != effect.Done && a.Result != effect.Gone || b.w.mutant.unsettledClaims {
				return b.answer(a)
			}
			return b.settle(e, a, 0)
		},
	})
}

func (b *binder) settle(e effect.FencePod, fenced effect.Answered, i int) error {
	for i < len(e.Claims) && len(e.Claims[i].Allocation) == 0 {
		i++
	}
	if i == len(e.Claims) {
		return b.answer(fenced)
	}
	kept := fenced.Pod != nil && fenced.Pod.NodeName == e.NodeName
	b.handle("settle", func() claimWritten { return b.w.settleClaim(e, e.Claims[i], kept) }, func(a claimWritten) error {
		switch {
		case a.Result != effect.Done:
			return b.answer(effect.Answered{Op: e.Op, Result: a.Result, Problem: a.Problem})
		case a.more:
			return b.settle(e, fenced, i)
		}
		fenced.ClaimVersion = max(fenced.ClaimVersion, a.version)
		return b.settle(e, fenced, i+1)
	})
	return nil
}

// settleClaim is the next write that ends what a reservation has to do with a claim.
func (w *world) settleClaim(e effect.FencePod, pick ledger.DevicePick, kept bool) claimWritten {
	done := claimWritten{Answered: effect.Answered{Result: effect.Done}}
	c, ok := w.api.claim(pick.ClaimUID)
	if !ok {
		return done
	}
	done.version = claimVersion(c)
	n := c.DeepCopy()
	same := deviceOf(c) == deviceOf(&resourcev1.ResourceClaim{
		Status: resourcev1.ResourceClaimStatus{Allocation: w.allocationOf(pick)},
	})
	others := slices.DeleteFunc(slices.Clone(c.Status.ReservedFor),
		func(u resourcev1.ResourceClaimConsumerReference) bool { return string(u.UID) == e.Pod.UID })
	switch {
	case c.Status.Allocation != nil && (kept || !same || len(others) > 0):
		return done // claims are for one pod here
	case c.Status.Allocation != nil:
		n.Status.Allocation, n.Status.ReservedFor, done.more = nil, nil, true
		w.hit("devices taken back")
	case len(c.Finalizers) > 0:
		n.Finalizers = nil
	case done.version > pick.ClaimRV:
		return done
	default: // it has to move: its finalizer is added with the next write
		n.Finalizers, done.more = []string{resourcev1.Finalizer}, true
	}
	w.api.put(events.KindResourceClaim, n)
	done.version = w.api.rv
	return done
}

func deviceMutants() []Mutant {
	return []Mutant{
		{
			Name: "claim-settle", expected: expected{rare: true, family: equipped},
			Missing:  "a fence does not settle the claims of the reservation",
			switches: switches{unsettledClaims: true},
		},
		{
			Name: "claim-high-water", expected: expected{rare: true, family: equipped, muted: []string{"S12"}},
			Missing: "removals raise no high-water of claims",
			txn: func(w *world, _ string, t ledger.Txn) ledger.Txn {
				return docs(w, t, func(now, put ledger.NodeDoc) ledger.NodeDoc { return withClaimsOf(now, put) })
			},
		},
	}
}

// withClaimsOf is a document with the high-water of claims that it had.
func withClaimsOf(now, put ledger.NodeDoc) ledger.NodeDoc {
	hw := map[string]uint64{}
	for kind, rv := range put.HW {
		if kind != ledger.KindClaim {
			hw[kind] = rv
		}
	}
	if rv, ok := now.HW[ledger.KindClaim]; ok {
		hw[ledger.KindClaim] = rv
	}
	put.HW = hw
	return put
}
