package scaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

const (
	// evictFor bounds the time for which evictions from a node are requested (--max-pod-eviction-time), and the time
	// until the evicted pods have left.
	evictFor = 2 * time.Minute
	// evictEvery is the time between two requests for a pod that its budget protects.
	evictEvery = 2 * time.Second
	// cleanUpWithin bounds the removal of the taint of a node that stays.
	cleanUpWithin = 10 * time.Second
)

// errNotEmpty is why a node stays that was empty.
var errNotEmpty = errors.New("pods have appeared on it")

// remove removes a node, or takes its taint away again.
func (s *scaler) remove(ctx context.Context, name string, drain bool) {
	err := s.removed(ctx, name, drain)
	if err != nil {
		// The context may have ended; the taint must not stay.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
		defer cancel()
		err = errors.Join(err, s.taint(ctx, name, false))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.empty, name)
	delete(s.mu.drained, name)
	if err != nil {
		s.mu.failed = time.Now()
		s.Logf("autoscaler: node %s stays: %v", name, err)
		return
	}
	s.Logf("autoscaler: removed node %s", name)
}

func (s *scaler) removed(ctx context.Context, name string, drain bool) error {
	if err := s.taint(ctx, name, true); err != nil {
		return err
	}
	if err := pause(ctx, s.AfterTaint); err != nil {
		return err
	}
	pods, err := s.podsOn(ctx, name)
	if err != nil {
		return err
	}
	if !drain && len(pods) > 0 {
		return errNotEmpty
	}
	if err := s.evict(ctx, name, pods); err != nil {
		return err
	}
	return s.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// podsOn are the pods of a node that have to go, from the API server's etcd.
func (s *scaler) podsOn(ctx context.Context, name string) ([]*corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String(),
	})
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, pod := range pointers(list.Items) {
		if movable(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// evict evicts pods through the eviction API, and waits until they have left.
func (s *scaler) evict(ctx context.Context, name string, pods []*corev1.Pod) error {
	waiting := pods
	err := wait.PollUntilContextTimeout(ctx, evictEvery, evictFor, true, func(ctx context.Context) (bool, error) {
		var refused []*corev1.Pod
		for _, pod := range waiting {
			err := s.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			})
			switch {
			case err == nil || apierrors.IsNotFound(err):
			case apierrors.IsTooManyRequests(err):
				refused = append(refused, pod)
			default:
				return false, err
			}
		}
		waiting = refused
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d pods were not evicted: %w", len(waiting), len(pods), err)
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, evictFor, true, func(ctx context.Context) (bool, error) {
		left, err := s.podsOn(ctx, name)
		return err == nil && len(left) == 0, nil
	})
}

// taint sets or removes the taint of a node that is being removed.
func (s *scaler) taint(ctx context.Context, name string, set bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := s.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !set {
			return nil
		}
		if err != nil {
			return err
		}
		var taints []corev1.Taint
		for _, t := range node.Spec.Taints {
			if t.Key != toBeDeleted {
				taints = append(taints, t)
			}
		}
		if set {
			taints = append(taints, corev1.Taint{
				Key: toBeDeleted, Value: fmt.Sprint(time.Now().Unix()), Effect: corev1.TaintEffectNoSchedule,
			})
		}
		node.Spec.Taints = taints
		_, err = s.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// pause waits for a while, or until ctx ends, which is an error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
