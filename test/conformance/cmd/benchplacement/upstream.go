package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

const (
	// sampled is kube-scheduler's default for percentageOfNodesToScore: it looks for as many
	// feasible nodes as its formula says. allNodes makes it look at all.
	sampled  int32 = 0
	allNodes int32 = 100
)

// upstream is a kube-scheduler with its default configuration whose events are delivered by calls: its own New,
// queue, cache, profile and SchedulePod, without an API server.
type upstream struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *cache.Snapshot
	logger    klog.Logger
	// pods are those on each node, for the node's removal.
	pods map[string][]*corev1.Pod
	// pending is the pod to decide about.
	pending *framework.QueuedPodInfo
}

func newUpstream(ctx context.Context, c placementbench.Cluster, percentage int32) (*upstream, error) {
	client := fake.NewClientset()
	factory := scheduler.NewInformerFactory(client, 0)
	s, err := scheduler.New(ctx, client, factory, nil, recorders, scheduler.WithPercentageOfNodesToScore(&percentage))
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	if err := fillListers(factory, c); err != nil {
		return nil, err
	}
	u := &upstream{
		scheduler: s, framework: s.Profiles[corev1.DefaultSchedulerName], logger: klog.FromContext(ctx),
		pods: map[string][]*corev1.Pod{},
	}
	var ok bool
	if u.snapshot, ok = u.framework.SnapshotSharedLister().(*cache.Snapshot); !ok {
		return nil, fmt.Errorf("kube-scheduler: the lister is a %T, want its snapshot", u.framework.SnapshotSharedLister())
	}
	for _, n := range c.Nodes {
		s.Cache.AddNode(u.logger, n)
	}
	for _, p := range c.Pods {
		if err := u.place(p); err != nil {
			return nil, err
		}
	}
	return u, s.Cache.UpdateSnapshot(u.logger, u.snapshot)
}

// recorders drop events.
func recorders(string) events.EventRecorderLogger { return &events.FakeRecorder{} }

var _ profile.RecorderFactory = recorders

// fillListers puts objects where the plugins' listers look. The informers do not run.
func fillListers(factory informers.SharedInformerFactory, c placementbench.Cluster) error {
	for _, n := range c.Namespaces {
		if err := list(factory.Core().V1().Namespaces().Informer(), n); err != nil {
			return err
		}
	}
	for _, s := range c.Services {
		if err := list(factory.Core().V1().Services().Informer(), s); err != nil {
			return err
		}
	}
	for _, r := range c.ReplicaSets {
		if err := list(factory.Apps().V1().ReplicaSets().Informer(), r); err != nil {
			return err
		}
	}
	return nil
}

func list(informer toolscache.SharedIndexInformer, obj any) error {
	if err := informer.GetIndexer().Add(obj); err != nil {
		return fmt.Errorf("kube-scheduler: lister: %w", err)
	}
	return nil
}

// accept sends a pod through the queue, as its arrival would, and takes it off again.
func (u *upstream) accept(ctx context.Context, pod *corev1.Pod) error {
	if last := u.pending; last != nil {
		u.scheduler.SchedulingQueue.Done(last.Pod.UID)
	}
	u.scheduler.SchedulingQueue.Add(ctx, pod)
	info, err := u.scheduler.NextPod(u.logger)
	if err != nil {
		return err
	}
	if info.Pod != pod {
		return fmt.Errorf("kube-scheduler: the queue gave %s, want %s", info.Pod.Name, pod.Name)
	}
	u.pending = info
	return nil
}

// decide runs kube-scheduler's part between taking a pod off its queue and starting to bind it: schedulingCycle in
// pkg/scheduler/schedule_one.go, without the copy it makes of the pod, its metrics and its preemption.
func (u *upstream) decide(ctx context.Context) (string, error) {
	if err := u.scheduler.Cache.UpdateSnapshot(u.logger, u.snapshot); err != nil {
		return "", err
	}
	pod, state := u.pending.Pod, framework.NewCycleState()
	result, err := u.scheduler.SchedulePod(ctx, u.framework, state, u.pending)
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		return "", nil
	case err != nil:
		return "", err
	}
	pod.Spec.NodeName = result.SuggestedHost
	if err := u.scheduler.Cache.AssumePod(u.logger, pod); err != nil {
		return "", err
	}
	u.pods[pod.Spec.NodeName] = append(u.pods[pod.Spec.NodeName], pod)
	status := u.framework.RunReservePluginsReserve(ctx, state, pod, result.SuggestedHost)
	return result.SuggestedHost, status.AsError()
}

// place puts a bound pod into the cache.
func (u *upstream) place(pod *corev1.Pod) error {
	u.pods[pod.Spec.NodeName] = append(u.pods[pod.Spec.NodeName], pod)
	return u.scheduler.Cache.AddPod(u.logger, pod)
}

// change applies an event to the cache.
func (u *upstream) change(e placementbench.NodeEvent) error {
	nodes := u.scheduler.Cache
	switch {
	case e.Before == nil:
		nodes.AddNode(u.logger, e.After)
		return nil
	case e.After != nil:
		nodes.UpdateNode(u.logger, e.Before, e.After)
		return nil
	}
	for _, p := range u.pods[e.Before.Name] {
		if err := nodes.RemovePod(u.logger, p); err != nil {
			return err
		}
	}
	delete(u.pods, e.Before.Name)
	return nodes.RemoveNode(u.logger, e.Before)
}
