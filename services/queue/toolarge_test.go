package queue_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// A pod that the API server accepts and the log does not delays no other pod, neither while the queue runs nor at the
// next start. It is not offered, and its owner is informed of the reason.
func TestAPodThatIsTooLargeDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	reader := w.read()
	w.newPodIsSeen("a", reader)
	large := pod("large", 0)
	for i := range 8200 {
		large.Spec.Tolerations = append(large.Spec.Tolerations, corev1.Toleration{
			Key:      fmt.Sprintf("%s.example/k%05d", strings.Repeat("d", 40), i),
			Operator: corev1.TolerationOpEqual, Value: strings.Repeat("v", 63), Effect: corev1.TaintEffectNoSchedule,
		})
	}
	w.api.Set(large)
	w.newPodIsSeen("b", reader)
	w.eventually("the decision about the large pod", func() bool {
		return strings.Contains(w.messageAbout("large"), "the pod is too large to be scheduled (")
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.start("queue-b")
	w.offered("b") // once more
	w.newPodIsSeen("c", reader)
}

// messageAbout returns the message of the last decision about a pod, or "".
func (w *world) messageAbout(uid string) (message string) {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context(), eventlog.Decisions)
	if err != nil || last == 0 {
		return ""
	}
	reader, err := w.log.Read(w.t.Context(), eventlog.Decisions, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	for at := uint64(0); at < last; {
		records, err := reader.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			if d, err := events.DecodeDecision(r); err == nil && d.Pod.UID == uid {
				message = d.Message
			}
			at = r.Sequence
		}
	}
	return message
}
