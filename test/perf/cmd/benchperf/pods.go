package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// lookEvery is how often waits look at the book.
const lookEvery = 50 * time.Millisecond

// seenPod is what the watch saw of a pod.
type seenPod struct {
	labels                     labels.Set
	appeared, attempted, bound time.Time
}

// podBook notes when pods appear, are tried and are bound, by namespace and name.
type podBook struct {
	watch watch.Interface
	done  chan struct{}

	mu struct {
		sync.Mutex
		pods map[string]map[string]*seenPod
	}
}

// watchPods follows all pods.
func watchPods(ctx context.Context, access *rest.Config) (*podBook, error) {
	w, err := harness.WatchPods(ctx, access, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	b := &podBook{watch: w, done: make(chan struct{})}
	b.mu.pods = map[string]map[string]*seenPod{}
	go b.follow()
	return b, nil
}

func (b *podBook) stop() {
	b.watch.Stop()
	<-b.done
}

func (b *podBook) follow() {
	defer close(b.done)
	for event := range b.watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			b.note(event.Type, pod, time.Now())
		}
	}
}

func (b *podBook) note(kind watch.EventType, pod *corev1.Pod, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.mu.pods[pod.Namespace]
	if in == nil {
		in = map[string]*seenPod{}
		b.mu.pods[pod.Namespace] = in
	}
	seen := in[pod.Name]
	if seen == nil {
		seen = &seenPod{labels: pod.Labels, appeared: now}
		in[pod.Name] = seen
	}
	if kind == watch.Deleted {
		delete(in, pod.Name)
	}
	if seen.attempted.IsZero() && tried(pod) {
		seen.attempted = now
	}
	if seen.bound.IsZero() && pod.Spec.NodeName != "" {
		seen.bound = now
	}
}

// tried says whether a scheduler has looked at the pod.
func tried(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return true
		}
	}
	return pod.Spec.NodeName != ""
}

// until waits for a state of the pods. It looks every lookEvery: when what it waits for happened is
// in the book.
func (b *podBook) until(ctx context.Context, what string, reached func(map[string]map[string]*seenPod) bool) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		b.mu.Lock()
		ok := reached(b.mu.pods)
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-look.C:
		case <-b.done:
			return fmt.Errorf("%s: the watch has ended", what)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// boundIn are the pods of a namespace that are bound, by name.
func (b *podBook) boundIn(namespace string) map[string]seenPod {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]seenPod{}
	for name, p := range b.mu.pods[namespace] {
		if !p.bound.IsZero() {
			all[name] = *p
		}
	}
	return all
}
