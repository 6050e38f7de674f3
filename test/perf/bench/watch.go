package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// lookEvery is the time between two looks of Until.
const lookEvery = 50 * time.Millisecond

// SeenPod is a pod as the watch delivered it, with the times of receipt.
type SeenPod struct {
	Labels                     labels.Set
	Appeared, Attempted, Bound time.Time
}

// PodWatch notes when pods appear, are tried and are bound. It is safe for concurrent use.
type PodWatch struct {
	watch watch.Interface
	// want is how many pods Wait waits for. Wanted is closed when so many are bound, ended with the watch.
	want          int
	wanted, ended chan struct{}

	mu struct {
		sync.Mutex
		pods map[string]map[string]*SeenPod
		// bound counts the binds, of pods that were deleted since too.
		bound int
	}
}

// WatchPods follows the pods of a namespace, all pods if it is empty. The number is that of Wait.
func WatchPods(ctx context.Context, access *rest.Config, namespace string, want int) (*PodWatch, error) {
	w, err := harness.WatchPods(ctx, access, namespace)
	if err != nil {
		return nil, err
	}
	p := newPodWatch(want)
	p.watch = w
	go p.follow()
	return p, nil
}

func newPodWatch(want int) *PodWatch {
	p := &PodWatch{want: want, wanted: make(chan struct{}), ended: make(chan struct{})}
	p.mu.pods = map[string]map[string]*SeenPod{}
	return p
}

// Stop ends the watch and its goroutine.
func (p *PodWatch) Stop(context.Context) error {
	p.watch.Stop()
	<-p.ended
	return nil
}

func (p *PodWatch) follow() {
	defer close(p.ended)
	for event := range p.watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			p.note(event.Type, pod, time.Now())
		}
	}
}

func (p *PodWatch) note(kind watch.EventType, pod *corev1.Pod, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.mu.pods[pod.Namespace]
	if in == nil {
		in = map[string]*SeenPod{}
		p.mu.pods[pod.Namespace] = in
	}
	seen := in[pod.Name]
	if seen == nil {
		seen = &SeenPod{Labels: pod.Labels, Appeared: now}
		in[pod.Name] = seen
	}
	if kind == watch.Deleted {
		delete(in, pod.Name)
	}
	if seen.Attempted.IsZero() && tried(pod) {
		seen.Attempted = now
	}
	if seen.Bound.IsZero() && pod.Spec.NodeName != "" {
		seen.Bound = now
		if p.mu.bound++; p.mu.bound == p.want {
			close(p.wanted)
		}
	}
}

// tried reports whether a scheduler has looked at the pod.
func tried(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return true
		}
	}
	return pod.Spec.NodeName != ""
}

// Wait returns when as many pods are bound as are wanted.
func (p *PodWatch) Wait(ctx context.Context) error {
	select {
	case <-p.wanted:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("not every pod is bound: %w", ctx.Err())
	case <-p.ended:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.bound < p.want {
		return fmt.Errorf("the watch ended with %d of %d pods bound", p.mu.bound, p.want)
	}
	return nil
}

// Until waits for a state of the pods, which are by namespace and name. It looks every lookEvery: the times
// themselves do not depend on when it looks.
func (p *PodWatch) Until(ctx context.Context, what string, reached func(map[string]map[string]*SeenPod) bool) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		p.mu.Lock()
		ok := reached(p.mu.pods)
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-look.C:
		case <-p.ended:
			return fmt.Errorf("%s: the watch has ended", what)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// Pods returns the pods of a namespace that are bound, by name.
func (p *PodWatch) Pods(namespace string) map[string]SeenPod {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]SeenPod{}
	for name, seen := range p.mu.pods[namespace] {
		if !seen.Bound.IsZero() {
			all[name] = *seen
		}
	}
	return all
}
