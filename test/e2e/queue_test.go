//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// failoverWithin bounds how long a new pod waits when the leading queue has just died. Its lease has to run out,
// which takes 4 s, and the machine may be busy with something else.
const failoverWithin = 15 * time.Second

// When the leading queue dies, another leads within seconds, and continues where the first one was: pods in flight
// are placed once, and an unschedulable pod is not tried again before something changes.
func TestQueueFailover(t *testing.T) {
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	waiting, air, late := s.namespace("waiting"), s.namespace("air"), s.namespace("late")
	s.create(newPod(waiting, "large", "100"))
	s.unschedulable(waiting, "large", "Insufficient cpu")
	created := s.burst(air)
	s.bound(air, some, placedWithin)

	f.members["queue-0"].Kill()
	killed := time.Now()
	s.create(newPod(late, "urgent", "100m", urgent))
	s.nodeOf(late, "urgent")
	took := time.Since(killed).Round(time.Millisecond)
	t.Logf("a pod made when the leader died was bound after %s", took)
	if took > failoverWithin {
		t.Errorf("bound after %s, want within %s", took, failoverWithin)
	}
	created()
	s.bound(air, burst, recoveredWithin)
	s.boundAtMostOnce(air)
	if n := f.attempts("unschedulable"); n != 1 {
		t.Errorf("%v attempts found no node, want the large pod's first", n)
	}
	s.audit()
}

// urgent gives a pod a priority above all others.
func urgent(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }

// attempts counts the attempts of all shards with a result.
func (f *fleet) attempts(result string) float64 {
	f.Helper()
	sum := 0.0
	for name, member := range f.members {
		if !strings.HasPrefix(name, "scheduler-") {
			continue
		}
		n, err := member.Metric(f.Context(), "scheduler_schedule_attempts_total", `result="`+result+`"`)
		f.must(err)
		sum += n
	}
	return sum
}
