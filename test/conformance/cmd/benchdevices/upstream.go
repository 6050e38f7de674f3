package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// lookEvery and seenWithin are the interval and the limit of waits for informers, before the clock continues.
	lookEvery, seenWithin = 200 * time.Microsecond, 10 * time.Second
)

// upstream is a kube-scheduler with its default configuration whose informers follow a store of
// objects in memory.
type upstream struct {
	client    kubernetes.Interface
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *cache.Snapshot
	claims    func(name string) (*resourcev1.ResourceClaim, error)
	logger    klog.Logger
	// pending is the pod to decide about, and then its outcome.
	pending *framework.QueuedPodInfo
	state   *framework.CycleState
}

func newUpstream(ctx context.Context, l load) (contender, error) {
	objects := []runtime.Object{deviceClass()}
	for i := range l.nodes {
		objects = append(objects, l.node(i), l.slice(i))
	}
	version := 0
	next := func(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		version++
		claim.ResourceVersion = strconv.Itoa(version)
		return claim
	}
	for _, c := range l.taken() {
		objects = append(objects, next(c))
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("*", "resourceclaims", func(a testing.Action) (bool, runtime.Object, error) {
		// The store in memory keeps the versions that it is given.
		if write, ok := a.(testing.CreateAction); ok {
			if claim, ok := write.GetObject().(*resourcev1.ResourceClaim); ok {
				next(claim)
			}
		}
		return false, nil, nil
	})
	factory := scheduler.NewInformerFactory(client, 0)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	s, err := scheduler.New(ctx, client, factory, nil, recorder)
	if err != nil {
		return nil, err
	}
	u := &upstream{
		client: client, scheduler: s, framework: s.Profiles[corev1.DefaultSchedulerName], logger: klog.FromContext(ctx),
	}
	u.claims = func(name string) (*resourcev1.ResourceClaim, error) {
		return u.framework.SharedDRAManager().ResourceClaims().Get(namespace, name)
	}
	var ok bool
	if u.snapshot, ok = u.framework.SnapshotSharedLister().(*cache.Snapshot); !ok {
		return nil, fmt.Errorf("the lister is a %T, want its snapshot", u.framework.SnapshotSharedLister())
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *upstream) arrive(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	if _, err := u.client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := u.until(ctx, claim.Name, func(*resourcev1.ResourceClaim) bool { return true }); err != nil {
		return err
	}
	info, err := framework.NewPodInfo(pod)
	u.pending = &framework.QueuedPodInfo{PodInfo: info}
	return err
}

// until waits until the informer shows a claim like this.
func (u *upstream) until(ctx context.Context, name string, like func(*resourcev1.ResourceClaim) bool) error {
	return wait.PollUntilContextTimeout(ctx, lookEvery, seenWithin, true, func(context.Context) (bool, error) {
		claim, err := u.claims(name)
		return err == nil && like(claim), nil
	})
}

func (u *upstream) decide(ctx context.Context) error {
	if err := u.scheduler.Cache.UpdateSnapshot(u.logger, u.snapshot); err != nil {
		return err
	}
	pod := u.pending.Pod
	u.state = framework.NewCycleState()
	result, err := u.scheduler.SchedulePod(ctx, u.framework, u.state, u.pending)
	if err != nil {
		return err
	}
	pod.Spec.NodeName = result.SuggestedHost
	if err := u.scheduler.Cache.AssumePod(u.logger, pod); err != nil {
		return err
	}
	return u.framework.RunReservePluginsReserve(ctx, u.state, pod, result.SuggestedHost).AsError()
}

// settle writes the claim as the plugin does before a bind.
func (u *upstream) settle(ctx context.Context) error {
	pod := u.pending.Pod
	if err := u.framework.RunPreBindPlugins(ctx, u.state, pod, pod.Spec.NodeName).AsError(); err != nil {
		return err
	}
	return u.until(ctx, *pod.Spec.ResourceClaims[0].ResourceClaimName, func(c *resourcev1.ResourceClaim) bool {
		return c.Status.Allocation != nil
	})
}
