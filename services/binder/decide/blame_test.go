package decide

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// rewrite changes the reservation in the ledger.
func (r *rig) rewrite(change func(e *ledger.Entry)) {
	r.Helper()
	d := r.doc()
	d.Entries = slices.Clone(d.Entries)
	change(&d.Entries[0])
	if !r.replace(d) {
		r.Fatal("the document could not be replaced")
	}
}

// blamed is the scenario of a fence.
type blamed struct {
	name string
	// before happens before the binder evaluates the reservation, and after afterwards.
	before, after func(r *rig)
	want          ledger.FenceCause
}

// blamedFences returns fences of all kinds.
func blamedFences() []blamed {
	refuse := func(r *rig) {
		answer(r, func(e effect.Bind) effect.Input {
			return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "forbidden"}
		})
	}
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	small := func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	}
	refreshed := func(change func(p *corev1.Pod)) func(r *rig) {
		return func(r *rig) {
			r.api.changePod("p0-uid", change)
			run[effect.Bind](r, delivered)
			run[effect.ReadDoc](r, delivered)
		}
	}
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	return []blamed{
		{"its node is cordoned", func(r *rig) { r.api.changeNode("n0-uid", cordon) }, nil, ledger.FenceByNode},
		{"its node has no room", func(r *rig) { r.api.changeNode("n0-uid", small) }, nil, ledger.FenceByNode},
		{"its node has no room for what it asks for by now", func(r *rig) {
			r.api.changeNode("n0-uid", small)
			r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Generation++ })
		}, nil, ledger.FenceByPod},
		{"it leaves", func(r *rig) {
			now := metav1.Now()
			r.api.changePod("p0-uid", func(p *corev1.Pod) { p.DeletionTimestamp = &now })
		}, nil, ledger.FenceByPod},
		{"it has ended", func(r *rig) {
			r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		}, nil, ledger.FenceByPod},
		{"it has gates", func(r *rig) {
			r.api.changePod("p0-uid", newSpec(func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			}))
		}, nil, ledger.FenceByPod},
		{"its labels change", nil, refreshed(label), ledger.FenceByPod},
		{"it changes again and again", nil, func(r *rig) {
			for i := range r.limits.Losses - 1 {
				refreshed(annotate("a", strconv.Itoa(i)))(r)
			}
			r.api.changePod("p0-uid", annotate("a", "last"))
			run[effect.Bind](r, delivered)
		}, ledger.FenceByPod},
		{"the bind is refused", nil, refuse, ledger.FenceByBind},
		{"the bind gets no answer", nil, func(r *rig) {
			run[effect.Bind](r, requestLost)
			r.wait(r.limits.BindDeadline + time.Second)
		}, ledger.FenceByBind},
		{"the bind of a pod with claims is refused", func(r *rig) {
			r.rewrite(func(e *ledger.Entry) { e.Volumes = []ledger.VolumePick{{Claim: "c"}} })
		}, func(r *rig) {
			run[effect.Announce](r, delivered)
			refuse(r)
		}, ledger.FenceByClaims},
		{"its place is wanted", func(r *rig) {
			r.rewrite(func(e *ledger.Entry) { e.Wanted = true })
		}, func(r *rig) { run[effect.Bind](r, requestLost) }, ledger.FenceByWant},
	}
}

// A fence states its cause. Shards count it against the node or not, depending on that.
func TestFenceSaysWhatItIsAbout(t *testing.T) {
	for _, tc := range blamedFences() {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.hold(r.b, false)
			r.reserve()
			if tc.before != nil {
				tc.before(r)
			}
			r.see()
			r.hold(r.b, true)
			if tc.after != nil {
				tc.after(r)
			}
			if why := run[effect.Transact](r, delivered).Why; why != "fence-mark" {
				t.Fatalf("%s, want a fence", why)
			}
			if e := r.doc().Entries[0]; e.State != ledger.Fencing || e.Cause != tc.want {
				t.Errorf("%s, about %d; want a fence about %d", e.State, e.Cause, tc.want)
			}
		})
	}
}
