//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// arriving is how many pods come while processes are killed, arrivalEvery how far apart.
	arriving     = 1200
	arrivalEvery = 20 * time.Millisecond
	// resumeWithin bounds the time without a bind after any one process was killed, waitWithin
	// the wait of a pod that it was responsible for: its lease has to run out, which takes 4 s, and
	// the machine may be busy with something else.
	resumeWithin = 15 * time.Second
	waitWithin   = 2 * resumeWithin
)

// arrive creates pods one after the other.
func (s *stack) arrive(ctx context.Context, namespace string, pods int) error {
	tick := time.NewTicker(arrivalEvery)
	defer tick.Stop()
	for _, pod := range newPods(namespace, "pod", pods, "50m") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := harness.CreatePods(ctx, s.client, []*corev1.Pod{pod}); err != nil {
			return err
		}
	}
	return nil
}

// Pods arrive, and one process of each service after another is killed: binds soon continue, also for the pods that
// the dead process was responsible for, and in the end every pod is bound once. Replacements join without manual
// help.
func TestKillsWhilePodsArrive(t *testing.T) {
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	ns := s.namespace("arriving")
	seen, err := harness.WatchBinds(t.Context(), s.client, ns)
	s.must(err)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error { return s.arrive(ctx, ns, arriving) })
	var times []time.Time
	services := []string{"scheduler", "binder", "queue"}
	for i, service := range services {
		s.must(seen.Wait(ctx, 200+300*i, recoveredWithin))
		times = append(times, time.Now())
		// The first to start leads where there is a leader.
		f.members[service+"-0"].Kill()
		f.start(service, service+"-2")
	}
	s.must(group.Wait())
	s.must(seen.Wait(t.Context(), arriving, recoveredWithin))

	for i, at := range times {
		end := at.Add(2 * waitWithin)
		if i+1 < len(times) {
			end = times[i+1]
		}
		gap, wait := seen.LongestGap(at, end), seen.LongestWait(at, end)
		t.Logf("%s killed: %s without a bind, %s the longest wait of a pod", services[i],
			gap.Round(time.Millisecond), wait.Round(time.Millisecond))
		if gap > resumeWithin {
			t.Errorf("%s killed: no bind for %s, want one within %s", services[i], gap, resumeWithin)
		}
		if wait > waitWithin {
			t.Errorf("%s killed: a pod waited %s, want none to wait longer than %s", services[i], wait, waitWithin)
		}
	}
	s.boundAtMostOnce(ns)
	s.audit()
}
