package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

// upstream is a kube-scheduler whose events are delivered by calls: its own New, queue, cache, profile, SchedulePod
// and DefaultPreemption, without an API server. Victims are noted down instead of killed.
type upstream struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	snapshot  *cache.Snapshot
	pods      toolscache.Indexer
	logger    klog.Logger
	pending   *framework.QueuedPodInfo

	mu struct {
		sync.Mutex
		victims []*corev1.Pod // of the pending pod
	}
}

func newUpstream(ctx context.Context, c placementbench.Cluster, allNodes bool) (*upstream, error) {
	// Killing is no part of the decision, and would go on in the background.
	if err := utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false"); err != nil {
		return nil, err
	}
	cfg, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	if allNodes {
		tryAll(cfg)
	}
	client := fake.NewClientset()
	factory := scheduler.NewInformerFactory(client, 0)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	s, err := scheduler.New(ctx, client, factory, nil, recorder, scheduler.WithProfiles(cfg.Profiles...))
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	u := &upstream{
		scheduler: s, framework: s.Profiles[corev1.DefaultSchedulerName], logger: klog.FromContext(ctx),
		pods: factory.Core().V1().Pods().Informer().GetIndexer(),
	}
	var ok bool
	if u.snapshot, ok = u.framework.SnapshotSharedLister().(*cache.Snapshot); !ok {
		return nil, fmt.Errorf("kube-scheduler: the lister is a %T, want its snapshot", u.framework.SnapshotSharedLister())
	}
	if err := u.disarm(); err != nil {
		return nil, err
	}
	return u, u.fill(factory, c)
}

// tryAll makes preemption try every node.
func tryAll(cfg *config.KubeSchedulerConfiguration) {
	for _, c := range cfg.Profiles[0].PluginConfig {
		if args, ok := c.Args.(*config.DefaultPreemptionArgs); ok {
			args.MinCandidateNodesPercentage = 100
		}
	}
}

// disarm has victims noted down.
func (u *upstream) disarm() error {
	for _, e := range u.framework.EnqueueExtensions() {
		plugin, ok := e.(*defaultpreemption.DefaultPreemption)
		if !ok {
			continue
		}
		plugin.Executor.PreemptPod = func(
			_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string,
		) error {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.mu.victims = append(u.mu.victims, victim)
			return nil
		}
		return nil
	}
	return errors.New("kube-scheduler: its profile has no DefaultPreemption")
}

// fill puts a cluster where the cache and the plugins' listers look. The informers do not run.
func (u *upstream) fill(factory informers.SharedInformerFactory, c placementbench.Cluster) error {
	var errs []error
	for _, n := range c.Namespaces {
		errs = append(errs, factory.Core().V1().Namespaces().Informer().GetIndexer().Add(n))
	}
	for _, s := range c.Services {
		errs = append(errs, factory.Core().V1().Services().Informer().GetIndexer().Add(s))
	}
	for _, r := range c.ReplicaSets {
		errs = append(errs, factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(r))
	}
	for _, n := range c.Nodes {
		u.scheduler.Cache.AddNode(u.logger, n)
	}
	for _, p := range c.Pods {
		errs = append(errs, u.scheduler.Cache.AddPod(u.logger, p))
	}
	return errors.Join(errs...)
}

// accept sends a pod through the queue, as its arrival would, and takes it off again.
func (u *upstream) accept(pod *corev1.Pod) error {
	if last := u.pending; last != nil {
		u.scheduler.SchedulingQueue.Done(last.Pod.UID)
	}
	if err := u.pods.Add(pod); err != nil {
		return err
	}
	u.scheduler.SchedulingQueue.Add(context.Background(), pod)
	info, err := u.scheduler.NextPod(u.logger)
	if err != nil {
		return err
	}
	u.pending = info
	return nil
}

// preempt runs kube-scheduler's part between taking a pod off its queue and killing its victims (schedulingCycle and
// handleSchedulingFailure in pkg/scheduler/schedule_one.go), and then the changes in its cache through the victims'
// end and the pod's placement.
func (u *upstream) preempt(ctx context.Context) (int, error) {
	if err := u.scheduler.Cache.UpdateSnapshot(u.logger, u.snapshot); err != nil {
		return 0, err
	}
	u.mu.victims = u.mu.victims[:0]
	pod, state := u.pending.Pod, framework.NewCycleState()
	result, err := u.scheduler.SchedulePod(ctx, u.framework, state, u.pending)
	host := result.SuggestedHost
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		chosen, status := u.framework.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
		if !status.IsSuccess() {
			return 0, fmt.Errorf("kube-scheduler: preemption for %s: %s", pod.Name, status.Message())
		}
		host = chosen.NominatedNodeName
	case err != nil:
		return 0, err
	}
	for _, v := range u.mu.victims {
		if err := u.scheduler.Cache.RemovePod(u.logger, v); err != nil {
			return 0, err
		}
	}
	pod.Spec.NodeName = host
	return len(u.mu.victims), u.scheduler.Cache.AddPod(u.logger, pod)
}
