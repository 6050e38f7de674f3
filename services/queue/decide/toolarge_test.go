package decide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// reduced changes a pod to what the facts show of one that is too large.
func reduced(p *corev1.Pod) {
	p.Annotations = map[string]string{strip.TooLargeAnnotation: "2000000 bytes; the log takes 1036288"}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.TooLargeGate}}
}

// A pod that is too large for the log is not offered. Its owner is informed once by each replica that leads, and the
// pod is offered as soon as it is smaller.
func TestAPodThatIsTooLargeIsReportedAndNotOffered(t *testing.T) {
	h := newHarness(t)
	h.add("before", 0)
	h.put("before", reduced)
	if len(h.records) != 0 {
		t.Fatalf("a replica that does not lead tells %+v", h.records)
	}
	h.lead()
	h.add("large", 0)
	h.put("large", reduced) // it was active, and has grown
	h.ask("s1", 9)
	h.want("before", waiting.PoolGated)
	h.want("large", waiting.PoolGated)
	h.sleep(3 * flushAfter)
	h.put("large", func(p *corev1.Pod) { p.Status.Message = "its condition" })
	if len(h.records) != 2 {
		t.Fatalf("records %+v, want one of each pod", h.records)
	}
	for i, name := range []string{"before", "large"} {
		r := h.records[i]
		if r.Kind != events.DecisionQuarantined || r.Pod.Name != name || !strings.Contains(r.Message, "2000000 bytes") {
			t.Errorf("record %+v, want one that says how large %s is", r, name)
		}
		h.applyDecision(r)
		h.want(name, waiting.PoolGated)
	}
	if _, why := h.core.Where("large"); !strings.Contains(why, "the log takes 1036288") {
		t.Errorf("reason %q", why)
	}
	h.put("large", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	h.ask("s1", 9)
	h.want("large", waiting.PoolOffered)
}

// A pod that was rejected, or is offered, and has grown too large waits until it is smaller, like one that was too
// large from the start.
func TestAPodThatGrowsIsTakenBack(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("parked", 0)
	h.add("offered", 0)
	h.ask("s1", 9)
	h.answer(h.offerOf("parked"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins = []string{"NodeResourcesFit"}
	})
	h.want("parked", waiting.PoolParked)
	h.put("parked", reduced)
	h.want("parked", waiting.PoolGated)
	h.put("offered", reduced)
	h.want("offered", waiting.PoolOffered)
	h.sleep(lease)
	h.want("offered", waiting.PoolGated)
}

// A pod that waits for room in the budget of its namespace, and has grown, is not let go.
func TestAPodThatGrowsKeepsItsQuotaGate(t *testing.T) {
	h := newHarness(t)
	h.add("large", 0)
	h.put("large", func(p *corev1.Pod) {
		reduced(p)
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: events.QuotaGate})
	})
	h.lead()
	h.sleep(flushAfter)
	for _, r := range h.records {
		if r.Kind == events.DecisionUngate {
			t.Errorf("the gate of its quota is to go: %+v", r)
		}
	}
	h.want("large", waiting.PoolGated)
}
