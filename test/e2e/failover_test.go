//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// arriving is how many pods come while processes are killed, arrivalEvery how far apart.
	arriving     = 2000
	arrivalEvery = 20 * time.Millisecond
	// resumeWithin bounds the time without a bind after any one process was killed, waitWithin
	// the wait of a pod that it was responsible for: its lease has to run out, and a loaded
	// machine takes its time.
	resumeWithin = 5 * time.Second
	waitWithin   = 2 * resumeWithin
)

// binds is when each pod of a namespace was created and first seen bound.
type binds struct {
	created, bound map[string]time.Time
	// twice lists pods that were seen on two nodes.
	twice []string
}

// observe watches the pods of a namespace until all that are expected are bound.
func (s *stack) observe(ctx context.Context, namespace string, pods int, progress func(bound int)) (binds, error) {
	b := binds{created: map[string]time.Time{}, bound: map[string]time.Time{}}
	nodes := map[string]string{}
	stream, err := s.client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return b, err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Deleted {
			return b, fmt.Errorf("the watch of pods sent %s: %+v", event.Type, event.Object)
		}
		now := time.Now()
		if _, known := b.created[pod.Name]; !known {
			b.created[pod.Name] = now
		}
		node := pod.Spec.NodeName
		if node == "" {
			continue
		}
		if at, known := nodes[pod.Name]; known && at != node {
			b.twice = append(b.twice, fmt.Sprintf("%s: %s, then %s", pod.Name, at, node))
		} else if !known {
			nodes[pod.Name], b.bound[pod.Name] = node, now
			progress(len(nodes))
		}
		if len(nodes) == pods {
			return b, nil
		}
	}
	return b, fmt.Errorf("%d of %d pods bound when the watch ended: %w", len(nodes), pods, context.Cause(ctx))
}

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

// longestSilence is the longest time between two binds, from begin to the last.
func (b binds) longestSilence(begin time.Time) time.Duration {
	times := []time.Time{begin}
	for _, at := range b.bound {
		if at.After(begin) {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	var longest time.Duration
	for i := range times[1:] {
		longest = max(longest, times[i+1].Sub(times[i]))
	}
	return longest
}

// longestWait is the longest that a pod waited which was created in a time, or waited in it.
func (b binds) longestWait(from, to time.Time) time.Duration {
	var longest time.Duration
	for name, bound := range b.bound {
		if created := b.created[name]; created.Before(to) && bound.After(from) {
			longest = max(longest, bound.Sub(created))
		}
	}
	return longest
}

// Pods arrive, and one process of each service after the other is killed: within five seconds
// binds go on, also of the pods that the dead one was responsible for, and in the end every pod
// is bound once. Replacements join without anybody's help.
func TestKillsWhilePodsArrive(t *testing.T) {
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	ns := s.namespace("arriving")
	kills := map[int]string{300: "scheduler", 800: "binder", 1300: "queue"}
	var times []time.Time
	var services []string
	var seen binds
	reached := make(chan int, arriving)
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error { return s.arrive(ctx, ns, arriving) })
	group.Go(func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, recoveredWithin)
		defer cancel()
		defer close(reached)
		seen, err = s.observe(ctx, ns, arriving, func(bound int) { reached <- bound })
		return err
	})
	for bound := range reached {
		service, kill := kills[bound]
		if !kill {
			continue
		}
		// The first to start leads where there is a leader.
		times, services = append(times, time.Now()), append(services, service)
		f.members[service+"-0"].Kill()
		f.start(service, service+"-2")
	}
	s.no(group.Wait())

	for i, at := range times {
		end := at.Add(2 * resumeWithin)
		if i+1 < len(times) {
			end = times[i+1]
		}
		silence, wait := seen.between(at, end).longestSilence(at), seen.longestWait(at, end)
		t.Logf("%s killed: %s without a bind, %s the longest wait of a pod", services[i],
			silence.Round(time.Millisecond), wait.Round(time.Millisecond))
		if silence > resumeWithin {
			t.Errorf("%s killed: no bind for %s, want one within %s", services[i], silence, resumeWithin)
		}
		if wait > waitWithin {
			t.Errorf("%s killed: a pod waited %s, want none to wait longer than %s", services[i], wait, waitWithin)
		}
	}
	if len(seen.twice) > 0 {
		t.Errorf("bound twice: %v", seen.twice)
	}
	s.boundAtMostOnce(ns)
	s.audit()
}

// between leaves the binds of a time.
func (b binds) between(from, to time.Time) binds {
	part := binds{bound: map[string]time.Time{}}
	for name, at := range b.bound {
		if at.After(from) && at.Before(to) {
			part.bound[name] = at
		}
	}
	return part
}
