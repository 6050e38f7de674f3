package perf

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// makers is how many objects are made at once.
const makers = 16

// stage is a cluster, the contender on it, and what the operations have to remember.
type stage struct {
	*contend.Ground
	client  kubernetes.Interface
	objects *objects
	pods    *bench.PodWatch
	// collecting is set from startCollectingMetrics to stopCollectingMetrics.
	collecting *collection
}

func (s *stage) connect(ctx context.Context) error {
	s.client = s.Cluster.Client
	var err error
	if s.objects, err = newObjects(s.Cluster.Rest); err != nil {
		return err
	}
	if s.pods, err = bench.WatchPods(ctx, s.Cluster.Rest, metav1.NamespaceAll, 0); err != nil {
		return err
	}
	s.Add(s.pods.Stop)
	return nil
}

// play carries the operations out in their order.
func (s *stage) play(ctx context.Context, ops []perfconfig.Op, r *result) error {
	for i := range ops {
		if err := s.one(ctx, &ops[i], r); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, ops[i].Opcode, err)
		}
	}
	if r.Pods == 0 {
		return fmt.Errorf("the workload measures no pods")
	}
	return nil
}

func (s *stage) one(ctx context.Context, op *perfconfig.Op, r *result) error {
	switch op.Opcode {
	case perfconfig.CreateNodes:
		return s.createNodes(ctx, op)
	case perfconfig.CreateNamespaces:
		for i := range op.Count {
			if err := s.namespace(ctx, fmt.Sprintf("%s-%d", op.Prefix, i), op.NamespaceTemplatePath); err != nil {
				return err
			}
		}
		return nil
	case perfconfig.CreatePods:
		return s.createPods(ctx, op, r)
	case perfconfig.CreatePodSets:
		for i := range op.Count {
			inner := *op.CreatePodsOp
			inner.Namespace = fmt.Sprintf("%s-%d", op.NamespacePrefix, i)
			if err := s.createPods(ctx, &inner, r); err != nil {
				return err
			}
		}
		return nil
	case perfconfig.CreateAny:
		if op.Namespace != "" {
			if err := s.namespace(ctx, op.Namespace, ""); err != nil {
				return err
			}
		}
		return s.objects.createSome(ctx, op)
	case perfconfig.CreateDriver:
		return s.createDevices(ctx, op)
	case perfconfig.DeletePods:
		return s.deletePods(ctx, op)
	case perfconfig.Churn:
		return s.startChurn(ctx, op)
	case perfconfig.Barrier:
		return s.barrier(ctx, op)
	case perfconfig.Sleep:
		return bench.Pause(ctx, op.Duration.Duration)
	case perfconfig.StartCollecting:
		collecting, err := s.collect(op.Namespaces)
		s.collecting = collecting
		return err
	case perfconfig.StopCollecting:
		if s.collecting == nil {
			return fmt.Errorf("nothing is being collected")
		}
		return s.collecting.finish(r)
	}
	return fmt.Errorf("no such operation")
}

// namespace makes a namespace, unless it exists, and waits until pods can be made in it.
func (s *stage) namespace(ctx context.Context, name, template string) error {
	ns := &corev1.Namespace{}
	if template != "" {
		if err := readTemplate(template, nil, ns); err != nil {
			return err
		}
	}
	ns.Name, ns.GenerateName = name, ""
	if err := harness.CreateNamespace(ctx, s.client, ns); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// createPods makes pods and, unless op says otherwise, waits until all are bound.
func (s *stage) createPods(ctx context.Context, op *perfconfig.Op, r *result) error {
	if err := s.namespace(ctx, op.Namespace, ""); err != nil {
		return err
	}
	pod := defaultPod()
	if op.PodTemplatePath != "" {
		pod = &corev1.Pod{}
		if err := readTemplate(op.PodTemplatePath, nil, pod); err != nil {
			return err
		}
	}
	if err := s.classify(ctx, pod); err != nil {
		return err
	}
	var collecting *collection
	if op.CollectMetrics {
		var err error
		if collecting, err = s.collect([]string{op.Namespace}); err != nil {
			return err
		}
	}
	names, err := s.makePods(ctx, op.Namespace, pod, op.Count)
	if err != nil || op.SkipWaitToCompletion {
		return err
	}
	left := names
	what := fmt.Sprintf("%d pods of %s are bound", len(names), op.Namespace)
	err = s.pods.Until(ctx, what, func(pods map[string]map[string]*bench.SeenPod) bool {
		for len(left) > 0 {
			if p := pods[op.Namespace][left[0]]; p == nil || p.Bound.IsZero() {
				return false
			}
			left = left[1:]
		}
		return true
	})
	if err != nil || collecting == nil {
		return err
	}
	return collecting.finish(r)
}

// makePods makes so many copies and returns their names.
func (s *stage) makePods(ctx context.Context, namespace string, pod *corev1.Pod, count int) ([]string, error) {
	names := make([]string, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for i := range count {
		group.Go(func() error {
			made, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create a pod in %s: %w", namespace, err)
			}
			names[i] = made.Name
			return nil
		})
	}
	return names, group.Wait()
}

// deletePods deletes the pods of a namespace that the selector selects, all at once or so many a second.
func (s *stage) deletePods(ctx context.Context, op *perfconfig.Op) error {
	selector := labels.SelectorFromSet(op.LabelSelector).String()
	list, err := s.client.CoreV1().Pods(op.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	doomed := list.Items
	work := func(ctx context.Context) error { return s.deleteAll(ctx, doomed, op.DeletePodsPerSecond) }
	if op.SkipWaitToCompletion {
		s.background(ctx, work)
		return nil
	}
	return work(ctx)
}

func (s *stage) deleteAll(ctx context.Context, pods []corev1.Pod, perSecond int) error {
	for i := range pods {
		err := s.client.CoreV1().Pods(pods[i].Namespace).Delete(ctx, pods[i].Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			return err
		}
		if perSecond > 0 {
			if err := bench.Pause(ctx, time.Second/time.Duration(perSecond)); err != nil {
				return nil // ended with the run
			}
		}
	}
	return nil
}

// barrier waits until the pods that exist now in the namespaces are bound, or were tried.
func (s *stage) barrier(ctx context.Context, op *perfconfig.Op) error {
	selector := labels.SelectorFromSet(op.LabelSelector)
	wanted := map[string]bool{}
	for _, name := range op.Namespaces {
		wanted[name] = true
	}
	what := "barrier: pods are " + op.StageRequirement
	return s.pods.Until(ctx, what, func(pods map[string]map[string]*bench.SeenPod) bool {
		for namespace, in := range pods {
			if len(wanted) > 0 && !wanted[namespace] {
				continue
			}
			for _, p := range in {
				reached := p.Bound
				if op.StageRequirement == perfconfig.Attempted {
					reached = p.Attempted
				}
				if reached.IsZero() && selector.Matches(p.Labels) {
					return false
				}
			}
		}
		return true
	})
}
