package e2e

import (
	"context"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// toldWithin bounds the wait for the events of a run, from the last bind on.
const toldWithin = time.Minute

// told waits until there is a Scheduled event of each of so many pods. Events are read only after the last bind, so
// that reading them costs no contender anything while the clock runs.
func told(ctx context.Context, client kubernetes.Interface, pods int) error {
	ctx, cancel := context.WithTimeout(ctx, toldWithin)
	defer cancel()
	events := client.EventsV1().Events(namespace)
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	seen := map[string]bool{}
	note := func(e *eventsv1.Event) bool {
		if e.Reason == "Scheduled" {
			seen[e.Regarding.Name] = true
		}
		return len(seen) >= pods
	}
	for i := range list.Items {
		if note(&list.Items[i]) {
			return nil
		}
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return events.Watch(ctx, options)
		},
	})
	if err != nil {
		return fmt.Errorf("watch events: %w", err)
	}
	defer w.Stop()
	for got := range w.ResultChan() {
		if e, ok := got.Object.(*eventsv1.Event); ok && note(e) {
			return nil
		}
	}
	return fmt.Errorf("%d of %d pods have a Scheduled event %s after the last bind", len(seen), pods, toldWithin)
}
