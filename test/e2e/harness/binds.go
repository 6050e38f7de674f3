package harness

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// Binds is when pods of a namespace were first seen, and first seen bound. Safe for
// concurrent use.
type Binds struct {
	mu struct {
		sync.Mutex
		created, bound map[types.UID]time.Time
		nodes          map[types.UID]string
		// violations are what must not happen.
		violations []string
		err        error
	}
}

// WatchBinds notes the binds of a namespace from now on until ctx ends.
func WatchBinds(ctx context.Context, client kubernetes.Interface, namespace string) (*Binds, error) {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	// An API server under load closes watches; this one resumes where it ended.
	stream, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, err
	}
	b := &Binds{}
	b.mu.created, b.mu.bound = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	b.mu.nodes = map[types.UID]string{}
	go func() {
		for event := range stream.ResultChan() {
			b.see(event)
		}
		if ctx.Err() == nil {
			b.fail(errors.New("the watch of pods ended by itself"))
		}
	}()
	return b, nil
}

func (b *Binds) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.err = errors.Join(b.mu.err, err)
}

func (b *Binds) see(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		b.fail(fmt.Errorf("the watch of pods sent %s: %+v", event.Type, event.Object))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if _, known := b.mu.created[pod.UID]; !known {
		b.mu.created[pod.UID] = now
	}
	node := pod.Spec.NodeName
	switch at := b.mu.nodes[pod.UID]; at {
	case node:
	case "":
		b.mu.nodes[pod.UID], b.mu.bound[pod.UID] = node, now
	default:
		b.mu.violations = append(b.mu.violations, fmt.Sprintf("pod %s stood on %s, then on %q", pod.Name, at, node))
	}
}

// Count is how many pods have been bound. An error means that the watch has broken off, or
// has seen a pod on two nodes.
func (b *Binds) Count() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.mu.err
	for _, violation := range b.mu.violations {
		err = errors.Join(err, errors.New(violation))
	}
	return len(b.mu.bound), err
}

// Wait waits until at least so many pods have been bound.
func (b *Binds) Wait(ctx context.Context, pods int, limit time.Duration) error {
	return Eventually(ctx, limit, fmt.Sprintf("%d pods are bound", pods), func(context.Context) (string, error) {
		bound, err := b.Count()
		if err != nil || bound >= pods {
			return "", err
		}
		return fmt.Sprintf("%d are", bound), nil
	})
}

// LongestGap is the longest time without a bind from one moment until the last bind before
// another.
func (b *Binds) LongestGap(from, to time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	times := []time.Time{from}
	for _, at := range b.mu.bound {
		if at.After(from) && at.Before(to) {
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

// LongestWait is the longest that any pod waited to be bound which was waiting at some time
// between two moments.
func (b *Binds) LongestWait(from, to time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var longest time.Duration
	for uid, bound := range b.mu.bound {
		if created := b.mu.created[uid]; created.Before(to) && bound.After(from) {
			longest = max(longest, bound.Sub(created))
		}
	}
	return longest
}
