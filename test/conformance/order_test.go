package conformance

import (
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TestOrder: our order agrees with upstream's PrioritySort. Where that leaves pods equal, ours compares UIDs, so that
// the order is total.
func TestOrder(t *testing.T) {
	g := placementtest.New(firstSeed(t))
	draw := func() (*framework.QueuedPodInfo, placement.Queued) {
		p := labelled("default", "p", "web", "")
		if g.Chance(80) {
			priority := placementtest.Pick[int32](g, -1, 0, 1, 1000, 2_000_001_000)
			p.Spec.Priority = &priority
		}
		since := time.Unix(1, 0).Add(time.Duration(g.IntN(3)) * time.Microsecond)
		info := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: p}, Timestamp: since}
		ours := placement.Queued{Priority: state.NewPod(p.DeepCopy()).Priority, Since: since}
		ours.UID = placementtest.Pick(g, "a", "b", "c")
		return info, ours
	}
	upstream := queuesort.PrioritySort{}
	for range *comparisons {
		a, ourA := draw()
		b, ourB := draw()
		first, second := upstream.Less(a, b), upstream.Less(b, a)
		want := first || !first && !second && ourA.UID < ourB.UID
		if got := placement.Less(ourA, ourB); got != want {
			t.Fatalf("%+v before %+v: %v, want %v (upstream says %v, and %v the other way round)",
				ourA, ourB, got, want, first, second)
		}
	}
}
