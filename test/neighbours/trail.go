package neighbours

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// trail notes what becomes of the pods of a namespace, from the API server's watch. Safe for concurrent use.
type trail struct {
	mu struct {
		sync.Mutex
		pods map[types.UID]*traced
		// most is the largest number of millicores that bound pods requested at one time.
		most int64
		err  error
	}
}

// traced is one pod, and when it was first seen in each condition; zero means never.
type traced struct {
	// pod is as it was seen last.
	pod *corev1.Pod
	// free is when it had no scheduling gates, bound when it had a node, ended when it had run or was deleted.
	created, free, bound, ended time.Time
}

// follow begins a trail of the pods that are created in a namespace from now on, until ctx ends.
func follow(ctx context.Context, s *Scene, namespace string) (*trail, error) {
	pods := s.Client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, err
	}
	t := &trail{}
	t.mu.pods = map[types.UID]*traced{}
	go func() {
		for event := range stream.ResultChan() {
			t.note(event, time.Now())
		}
		if ctx.Err() == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.mu.err = errors.Join(t.mu.err, errors.New("the watch of pods ended by itself"))
		}
	}()
	return t, nil
}

func (t *trail) note(event watch.Event, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		t.mu.err = errors.Join(t.mu.err, fmt.Errorf("the watch of pods sent %s: %+v", event.Type, event.Object))
		return
	}
	one := t.mu.pods[pod.UID]
	if one == nil {
		one = &traced{created: now}
		t.mu.pods[pod.UID] = one
	}
	one.pod = pod
	for _, moment := range []struct {
		at   *time.Time
		come bool
	}{
		{&one.free, len(pod.Spec.SchedulingGates) == 0},
		{&one.bound, pod.Spec.NodeName != ""},
		{&one.ended, event.Type == watch.Deleted || hasRun(pod)},
	} {
		if moment.come && moment.at.IsZero() {
			*moment.at = now
		}
	}
	t.mu.most = max(t.mu.most, t.inUse())
}

// hasRun reports whether a pod needs its node no more.
func hasRun(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// inUse is the sum of the requests of bound pods, in millicores.
func (t *trail) inUse() (milli int64) {
	for _, one := range t.mu.pods {
		if !one.bound.IsZero() && one.ended.IsZero() {
			milli += milliCPU(one.pod)
		}
	}
	return milli
}

func milliCPU(pod *corev1.Pod) (milli int64) {
	for i := range pod.Spec.Containers {
		milli += pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return milli
}

// all returns the pods in the order of their creation, and the error of the watch.
func (t *trail) all() ([]traced, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]traced, 0, len(t.mu.pods))
	for _, one := range t.mu.pods {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b traced) int { return a.created.Compare(b.created) })
	return list, t.mu.err
}

// mostCPU is the largest number of CPUs that bound pods requested at one time.
func (t *trail) mostCPU() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.mu.most) / 1000 //nolint:mnd // millicores
}

// waits are how long pods without gates waited for their nodes, in seconds, the longest first; those that wait still
// wait until now.
func waits(pods []traced, now time.Time) (seconds []float64) {
	for _, one := range pods {
		until := one.bound
		if until.IsZero() {
			until = now
			if !one.ended.IsZero() {
				until = one.ended
			}
		}
		if !one.free.IsZero() {
			seconds = append(seconds, until.Sub(one.free).Seconds())
		}
	}
	slices.Sort(seconds)
	slices.Reverse(seconds)
	return seconds
}

// boundPods counts pods that had a node.
func boundPods(pods []traced) (n int) {
	for _, one := range pods {
		if !one.bound.IsZero() {
			n++
		}
	}
	return n
}
