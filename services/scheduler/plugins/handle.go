package plugins

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// handle is the framework.Handle of the plugins of a profile. Methods without a meaning here return an error if they
// can, and a zero value otherwise; docs/extending.md lists both. Plugins call it from any goroutine, during and
// after New.
type handle struct {
	runtime  *Runtime
	profile  string
	parallel parallelizer
}

// failed returns why something that a plugin asked for could not be created; nil if all could. newSet checks it
// after each plugin, because the Handle's methods cannot return errors.
func (h *handle) failed() error {
	c := h.runtime.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// SnapshotSharedLister returns the cluster as it was shown to the cycle in progress, or else to the last one. It has
// no nodes before the first cycle.
func (h *handle) SnapshotSharedLister() framework.SharedLister { return h.runtime.seen.Load() }

// ClientSet creates a client on the first call. All plugins of the process share it, with its limits of requests.
func (h *handle) ClientSet() clientset.Interface { return h.runtime.clients.client() }

// KubeConfig returns the configuration for connections to the API server; nil if the process has none.
func (h *handle) KubeConfig() *restclient.Config { return h.runtime.clients.rest() }

// EventRecorder returns a recorder that writes events in the name of the profile.
func (h *handle) EventRecorder() events.EventRecorderLogger {
	return h.runtime.clients.recorder(h.profile)
}

// SharedInformerFactory returns the factory that all plugins of the process share. Informers requested while plugins
// are created have synced before the first pod is tried.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.runtime.clients.factory()
}

// ProfileName returns the scheduler name of the profile.
func (h *handle) ProfileName() string { return h.profile }

// Parallelizer returns the one that this package uses itself for Filter, Score and PreBind.
func (h *handle) Parallelizer() framework.Parallelizer { return h.parallel }

// parallelizer is how many pieces are processed at once; it implements framework.Parallelizer.
type parallelizer int

// Until returns when all pieces are done, or ctx has ended.
func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	workqueue.ParallelizeUntil(ctx, int(p), pieces, do)
}

// errNotHere is the answer to plugins that want to run the profile's own plugins, as upstream's preemption does. The
// rules of a profile are no plugins here, so that there is nothing to run.
var errNotHere = errors.New("not supported: the rules of a profile are not plugins in Berth")

// The Run methods implement framework.PluginsRunner: see errNotHere.
func (h *handle) RunPreScorePlugins(
	context.Context, framework.CycleState, *corev1.Pod, []framework.NodeInfo,
) *framework.Status {
	return framework.AsStatus(errNotHere)
}

func (h *handle) RunScorePlugins(
	context.Context, framework.CycleState, *corev1.Pod, []framework.NodeInfo,
) ([]framework.NodePluginScores, *framework.Status) {
	return nil, framework.AsStatus(errNotHere)
}

func (h *handle) RunFilterPlugins(
	context.Context, framework.CycleState, *corev1.Pod, framework.NodeInfo,
) *framework.Status {
	return framework.AsStatus(errNotHere)
}

func (h *handle) RunFilterPluginsWithNominatedPods(
	context.Context, framework.CycleState, *corev1.Pod, framework.NodeInfo,
) *framework.Status {
	return framework.AsStatus(errNotHere)
}

func (h *handle) RunPreFilterExtensionAddPod(
	context.Context, framework.CycleState, *corev1.Pod, framework.PodInfo, framework.NodeInfo,
) *framework.Status {
	return framework.AsStatus(errNotHere)
}

func (h *handle) RunPreFilterExtensionRemovePod(
	context.Context, framework.CycleState, *corev1.Pod, framework.PodInfo, framework.NodeInfo,
) *framework.Status {
	return framework.AsStatus(errNotHere)
}

// The ledger nominates pods: there a held place counts as a pod on its node.

func (h *handle) AddNominatedPod(klog.Logger, framework.PodInfo, *framework.NominatingInfo) {}
func (h *handle) DeleteNominatedPodIfExists(*corev1.Pod)                                    {}
func (h *handle) UpdateNominatedPod(klog.Logger, *corev1.Pod, framework.PodInfo)            {}
func (h *handle) NominatedPodsForNode(string) []framework.PodInfo                           { return nil }

// Activate makes one of the process's shards report the pods to the queue, soon.
func (h *handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	h.runtime.activations.add(pods)
}

// IterateOverWaitingPods visits the pods of the process that wait at Permit, of all profiles.
func (h *handle) IterateOverWaitingPods(visit func(framework.WaitingPod)) {
	for _, p := range h.runtime.waiting.all() {
		visit(p)
	}
}

// GetWaitingPod returns nil for a pod that does not wait at Permit in this process.
func (h *handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	if p := h.runtime.waiting.get(uid); p != nil {
		return p
	}
	return nil
}

// RejectWaitingPod returns false for a pod that does not wait at Permit in this process.
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	p := h.runtime.waiting.get(uid)
	return p != nil && p.Reject("", "removed")
}

// AddPodInPreBind notes that a pod is at PreBind, where other plugins can cancel it.
func (h *handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.runtime.inPreBind.add(uid, cancel)
}

// GetPodInPreBind returns nil for a pod that is not at PreBind in this process.
func (h *handle) GetPodInPreBind(uid types.UID) framework.PodInPreBind {
	if p := h.runtime.inPreBind.get(uid); p != nil {
		return p
	}
	return nil
}

// RemovePodInPreBind undoes AddPodInPreBind.
func (h *handle) RemovePodInPreBind(uid types.UID) { h.runtime.inPreBind.remove(uid) }

// What follows has no counterpart in Berth. A plugin that uses it must be prepared for nil, as docs/extending.md
// explains.
func (h *handle) SharedDRAManager() framework.SharedDRAManager                { return nil }
func (h *handle) SharedCSIManager() framework.CSIManager                      { return nil }
func (h *handle) Extenders() []framework.Extender                             { return nil }
func (h *handle) APIDispatcher() framework.APIDispatcher                      { return nil }
func (h *handle) APICacher() framework.APICacher                              { return nil }
func (h *handle) PodGroupManager() framework.PodGroupManager                  { return nil }
func (h *handle) SignPod(context.Context, *corev1.Pod) framework.PodSignature { return nil }
