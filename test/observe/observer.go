package observe

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Observer keeps an account from the API server's watches until its context ends. Its methods may
// be called at any time, from any goroutine.
type Observer struct {
	mu struct {
		sync.Mutex
		account *Account
		err     error
	}
}

// source is one kind of objects that is followed.
type source struct {
	name  string
	list  func(context.Context) (version string, items []watch.Event, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Start observes a cluster from now on, until ctx ends. What was there before is known.
func Start(ctx context.Context, client kubernetes.Interface) (*Observer, error) {
	o := &Observer{}
	o.mu.account = NewAccount()
	for _, s := range sources(client) {
		version, items, err := s.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("observer: list %s: %w", s.name, err)
		}
		for _, item := range items {
			o.note(item)
		}
		w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: s.watch})
		if err != nil {
			return nil, fmt.Errorf("observer: watch %s: %w", s.name, err)
		}
		go o.follow(ctx, s.name, w)
	}
	return o, nil
}

func sources(client kubernetes.Interface) []source {
	all := metav1.NamespaceAll
	pods, events := client.CoreV1().Pods(all), client.CoreV1().Events(all)
	budgets := client.PolicyV1().PodDisruptionBudgets(all)
	return []source{
		{"budgets", func(ctx context.Context) (string, []watch.Event, error) {
			list, err := budgets.List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", nil, err
			}
			return list.ResourceVersion, added(list.Items), nil
		}, budgets.Watch},
		{"pods", func(ctx context.Context) (string, []watch.Event, error) {
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", nil, err
			}
			return list.ResourceVersion, added(list.Items), nil
		}, pods.Watch},
		{"events", func(ctx context.Context) (string, []watch.Event, error) {
			list, err := events.List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return "", nil, err
			}
			return list.ResourceVersion, nil, nil
		}, events.Watch},
	}
}

// added returns the events of a watch that would show these objects.
func added[T any, P interface {
	*T
	runtime.Object
}](items []T) []watch.Event {
	events := make([]watch.Event, 0, len(items))
	for i := range items {
		events = append(events, watch.Event{Type: watch.Added, Object: P(&items[i])})
	}
	return events
}

// follow ends with the context. A watch that ends before is an error: something was missed.
func (o *Observer) follow(ctx context.Context, name string, w watch.Interface) {
	defer w.Stop()
	for event := range w.ResultChan() {
		o.note(event)
	}
	if ctx.Err() == nil {
		o.fail(fmt.Errorf("observer: the watch of %s ended", name))
	}
}

func (o *Observer) note(event watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch object := event.Object.(type) {
	case *corev1.Pod:
		o.mu.account.Pod(object, event.Type == watch.Deleted)
	case *policyv1.PodDisruptionBudget:
		if err := o.mu.account.Budget(object); err != nil && o.mu.err == nil {
			o.mu.err = err
		}
	case *corev1.Event:
		o.mu.account.Event(object)
	case *metav1.Status:
		if o.mu.err == nil {
			o.mu.err = fmt.Errorf("observer: %s: %s", event.Type, object.Message)
		}
	}
}

func (o *Observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.err == nil {
		o.mu.err = err
	}
}

// Excuse is Account.Excuse.
func (o *Observer) Excuse(namespace, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.account.Excuse(namespace, name)
}

// Evictions is Account.Evictions; an error if something was missed.
func (o *Observer) Evictions() ([]Eviction, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.account.Evictions(), o.mu.err
}

// Findings is Account.Findings; an error if something was missed.
func (o *Observer) Findings() ([]Finding, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.account.Findings(), o.mu.err
}

// Preempted is Account.Preempted.
func (o *Observer) Preempted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.account.Preempted()
}

// Bound is Account.Bound.
func (o *Observer) Bound(prefix string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.account.Bound(prefix)
}
