package decide_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// What plugins want activated goes to the queue at once, as many in a message as it takes; pods that are
// bound or not known do not.
func TestActivated(t *testing.T) {
	const pods = work.MaxActivate + 3
	w := newWorld(t, 1, 1)
	var wanted []events.PodRef
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		w.addPod(name)
		wanted = append(wanted, events.PodRef{Namespace: "d", Name: name})
	}
	w.pods["pod-p0"].Spec.NodeName = "n"
	w.publish(w.pods["pod-p0"])
	w.settle()
	wanted = append(wanted, events.PodRef{Namespace: "d", Name: "unknown"})
	core := w.shards[0].core
	var activated []string
	in := step.Input{Activated: wanted}
	for message := 0; ; message++ {
		out, err := checked(core.Step(in, w.now))
		if err != nil {
			t.Fatal(err)
		}
		if in = (step.Input{}); out.Request == nil {
			break
		}
		if n := len(out.Request.Activate); n > work.MaxActivate || message == 0 && !out.More {
			t.Fatalf("%d pods in a message, more to come: %v", n, out.More)
		}
		activated = append(activated, out.Request.Activate...)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(activated)))
	if len(activated) != pods-1 || len(distinct) != pods-1 || slices.Contains(activated, "pod-p0") {
		t.Errorf("%d pods told, %d of them distinct, want %d that are not bound", len(activated), len(distinct), pods-1)
	}
}
