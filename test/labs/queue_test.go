//go:build e2e

package labs

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func gates(l *lab) {
	l.next()
	l.schedulable(1)
	l.next()
	l.gated()
	if l.berth != nil {
		l.metric("scheduler_pending_pods", 1, `queue="gated"`)
		if out := l.next(); !strings.Contains(out, `scheduler_pending_pods{queue="gated"} 1`) {
			l.Errorf("the README's command shows %q", out)
		}
	} else {
		l.skip()
	}
	l.next()
	l.gated()
	if l.berth != nil {
		l.metric("scheduler_pending_pods", 1, `queue="gated"`)
		l.metric("scheduler_schedule_attempts_total", 0)
	}

	const boundWithin = time.Second
	l.next()
	opened := time.Now()
	l.node("gated")
	if took := time.Since(opened); took > boundWithin {
		l.Errorf("bound %s after the last gate went, want within %s", took, boundWithin)
	}
	for _, event := range l.events("gated") {
		if event.Reason == "FailedScheduling" {
			l.Errorf("it was attempted: %s", event.Message)
		}
	}
}

// gated checks that the pod is not bound and that its condition gives the gates as reason.
func (l *lab) gated() {
	l.Helper()
	pods, err := l.pods(l.Context(), named("gated"))
	l.must(err)
	if len(pods) != 1 {
		l.Fatalf("%d pods, want one", len(pods))
	}
	if c := scheduled(&pods[0]); pods[0].Spec.NodeName != "" || c.Reason != corev1.PodReasonSchedulingGated {
		l.Errorf("node %q, reason %s, want none and %s", pods[0].Spec.NodeName, c.Reason, corev1.PodReasonSchedulingGated)
	}
}

// metric waits until a metric of Berth has a value.
func (l *lab) metric(name string, want float64, labels ...string) {
	l.Helper()
	what := fmt.Sprintf("%s%v is %v", name, labels, want)
	l.eventually(within, what, func(ctx context.Context) (string, error) {
		got, err := l.berth.Metric(ctx, name, labels...)
		if err != nil || got == want {
			return "", err
		}
		return fmt.Sprint(got), nil
	})
}
