package steady

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// requestsAtOnce is how many creations and deletions may be under way.
const requestsAtOnce = 64

// turnover is how many pods came, were bound and went.
type turnover struct {
	Created, Bound, Deleted int
	Took                    time.Duration
}

// turn creates and deletes pods at the rate until ctx ends.
func (w *watch) turn(ctx context.Context, access *rest.Config) (t turnover, err error) {
	if w.rate == 0 {
		<-ctx.Done()
		return t, nil
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return t, err
	}
	binds, err := harness.WatchBinds(ctx, client, namespace)
	if err != nil {
		return t, err
	}
	requests, going := errgroup.WithContext(ctx) // over at the first failure
	requests.SetLimit(requestsAtOnce)
	begin := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for going.Err() == nil {
		next.Reset(time.Until(begin.Add(time.Duration(float64(t.Created) / w.rate * float64(time.Second)))))
		select {
		case <-next.C:
		case <-going.Done():
			continue
		}
		number := t.Created
		t.Created++
		requests.Go(func() error { return ended(ctx, create(ctx, client, number)) })
		if old := number - w.standing; old >= 0 {
			t.Deleted++
			requests.Go(func() error { return ended(ctx, remove(ctx, client, old)) })
		}
	}
	t.Took = time.Since(begin)
	err = requests.Wait()
	bound, lost := binds.Count()
	t.Bound = bound
	if ctx.Err() != nil {
		lost = nil // the watch ends with ctx
	}
	return t, errors.Join(err, lost)
}

// ended drops errors that occur because ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func podName(i int) string { return fmt.Sprintf("pod-%08d", i) }

func create(ctx context.Context, client kubernetes.Interface, i int) error {
	pod := bench.Pod(namespace, podName(i), "100m", "500Mi")
	_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func remove(ctx context.Context, client kubernetes.Interface, i int) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	err := client.CoreV1().Pods(namespace).Delete(ctx, podName(i), now)
	if apierrors.IsNotFound(err) {
		return nil // its creation is still under way: one pod more exists
	}
	return err
}
