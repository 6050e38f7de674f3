package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/cmd/berth/app"
)

func main() {
	os.Exit(app.Main(
		app.WithPlugin(name, newLicences), app.WithPlugin(togetherName, newTogether), app.WithPlugin(courierName, newCourier),
	))
}

// name is the plugin's name in a configuration.
const name = "Licences"

// wanted is the label of pods that need a licence.
const wanted = "licence"

// numberOf is the annotation that holds the number of a pod's licence.
const numberOf = "example.com/licence-number"

// licences is the plugin. Its argument is the label of nodes that holds the number of their licences. The framework
// calls it concurrently; given counts the licences that it has given.
type licences struct {
	Label string `json:"label"`

	handle framework.Handle
	given  atomic.Int64
}

// wantedLater is the value of the label of pods that will need a licence later and must not be placed before.
const wantedLater = "later"

var (
	_ framework.PreEnqueuePlugin  = &licences{}
	_ framework.PreFilterPlugin   = &licences{}
	_ framework.FilterPlugin      = &licences{}
	_ framework.ScorePlugin       = &licences{}
	_ framework.PreBindPlugin     = &licences{}
	_ framework.EnqueueExtensions = &licences{}
)

// newLicences is the plugin's factory. Its arguments arrive as the JSON of pluginConfig; an error names the field, and
// ends the start of the process.
func newLicences(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	// Arguments of plugins that the configuration's scheme does not know arrive undecoded.
	raw, ok := args.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("args: want a label, have %T", args)
	}
	l := &licences{handle: h}
	if err := json.Unmarshal(raw.Raw, l); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	if l.Label == "" {
		return nil, fmt.Errorf("args: label: %q: want the label of nodes that have licences", l.Label)
	}
	return l, nil
}

func (l *licences) Name() string { return name }

// EventsToRegister returns the events that can help a pod that has found no licence, or that needed none yet: a
// change of its own labels, a node that has licences, and a licence that is given back.
func (l *licences) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.UpdatePodLabel | framework.Delete},
			QueueingHintFn: l.givesBack},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel}},
	}, nil
}

// givesBack reports whether a pod had a licence that another pod can have now, or is the waiting pod itself.
func (l *licences) givesBack(_ klog.Logger, pod *corev1.Pod, before, after any) (framework.QueueingHint, error) {
	// For an object that is no pod the framework would not call this hint.
	was, ok := before.(*corev1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("%T: want a Pod", before)
	}
	now, _ := after.(*corev1.Pod)
	_, had := was.Labels[wanted]
	if had && (now == nil || now.Labels[wanted] == "") || now != nil && now.UID == pod.UID {
		return framework.Queue, nil
	}
	return framework.QueueSkip, nil
}

// PreEnqueue holds back pods that will need a licence later.
func (l *licences) PreEnqueue(_ context.Context, pod *corev1.Pod) *framework.Status {
	if pod.Labels[wanted] == wantedLater {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "does not need a licence yet")
	}
	return nil
}

// PreFilter skips pods that need no licence.
func (l *licences) PreFilter(
	_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo,
) (*framework.PreFilterResult, *framework.Status) {
	if _, needs := pod.Labels[wanted]; !needs {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, nil
}

// PreFilterExtensions returns nil: PreFilter computes nothing that preemption would have to adjust.
func (l *licences) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter rejects nodes without a licence left. The status is Unschedulable, not UnschedulableAndUnresolvable, as the
// eviction of a pod may free one.
func (l *licences) Filter(
	_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo,
) *framework.Status {
	if l.left(node) < 1 {
		return framework.NewStatus(framework.Unschedulable, "node(s) had no licence left")
	}
	return nil
}

// Score returns how many licences are left, at most framework.MaxScore.
func (l *licences) Score(
	_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo,
) (int64, *framework.Status) {
	return min(max(l.left(node), framework.MinScore), framework.MaxScore), nil
}

// ScoreExtensions returns nil: scores are in the range that the framework expects.
func (l *licences) ScoreExtensions() framework.ScoreExtensions { return nil }

// PreBindPreFlight skips PreBind for pods that need no licence.
func (l *licences) PreBindPreFlight(
	_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ string,
) (*framework.PreBindPreFlightResult, *framework.Status) {
	if _, needs := pod.Labels[wanted]; !needs {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, nil
}

// PreBind writes the number of the pod's licence on the pod, counted over the licences that this process has given.
func (l *licences) PreBind(
	ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string,
) *framework.Status {
	number := fmt.Sprintf("%s-%d", node, l.given.Add(1))
	patch := fmt.Appendf(nil, `{"metadata": {"uid": %q, "annotations": {%q: %q}}}`, pod.UID, numberOf, number)
	_, err := l.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return framework.AsStatus(err)
}

// left returns how many licences of a node are not taken by the pods on it, including those about to be bound.
func (l *licences) left(node framework.NodeInfo) int64 {
	left, err := strconv.ParseInt(node.Node().Labels[l.Label], 10, 64)
	if err != nil {
		return 0
	}
	for _, p := range node.GetPods() {
		if _, needs := p.GetPod().Labels[wanted]; needs {
			left--
		}
	}
	return left
}
