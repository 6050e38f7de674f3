package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// prepareUpstream sets what upstream keeps per process. Extended resources backed by
// devices are off: there are no DeviceClasses here, so they change no answer, and on they
// want a whole device manager.
func prepareUpstream(t *testing.T) {
	metrics.Register()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRAExtendedResource, false)
}

// oracle is upstream's framework over one cluster.
type oracle struct {
	framework framework.Framework
	nodes     []fwk.NodeInfo
}

// newOracle fills upstream's cache in the order given, as its event handlers would, and
// builds a framework with the plugins of the profile.
func newOracle(ctx context.Context, c cluster, profile placement.ProfileConfig) (*oracle, error) {
	logger := klog.FromContext(ctx)
	nodes := cache.New(ctx, nil, false)
	for _, n := range c.nodes {
		nodes.AddNode(logger, n.DeepCopy())
	}
	for _, p := range c.pods {
		if err := nodes.AddPod(logger, p.DeepCopy()); err != nil {
			return nil, err
		}
	}
	snapshot := cache.NewEmptySnapshot()
	if err := nodes.UpdateSnapshot(logger, snapshot); err != nil {
		return nil, err
	}
	upstream, err := upstreamProfile(profile)
	if err != nil {
		return nil, err
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := c.fill(factory); err != nil {
		return nil, err
	}
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), upstream,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
	)
	if err != nil {
		return nil, err
	}
	o := &oracle{framework: f}
	for _, n := range c.nodes {
		info, err := snapshot.Get(n.Name)
		if err != nil {
			return nil, err
		}
		o.nodes = append(o.nodes, info)
	}
	return o, nil
}

// upstreamProfile converts a profile: plugins at all points with their weights, arguments
// defaulted and converted by upstream.
func upstreamProfile(p placement.ProfileConfig) (*config.KubeSchedulerProfile, error) {
	profile := &config.KubeSchedulerProfile{SchedulerName: p.SchedulerName, Plugins: &config.Plugins{}}
	for _, c := range p.Plugins {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled,
			config.Plugin{Name: c.Name, Weight: c.Weight})
		args := c.Args
		if args == nil {
			args = defaultArgs(c.Name)
		}
		if args == nil {
			continue
		}
		internal, err := internalArgs(args)
		if err != nil {
			return nil, fmt.Errorf("args of %s: %w", c.Name, err)
		}
		profile.PluginConfig = append(profile.PluginConfig, config.PluginConfig{Name: c.Name, Args: internal})
	}
	return profile, nil
}

func defaultArgs(plugin string) runtime.Object {
	switch plugin {
	case placement.NodeAffinity:
		return &configv1.NodeAffinityArgs{}
	case placement.NodeResourcesFit:
		return &configv1.NodeResourcesFitArgs{}
	case placement.NodeResourcesBalancedAllocation:
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	case placement.PodTopologySpread:
		return &configv1.PodTopologySpreadArgs{}
	case placement.InterPodAffinity:
		return &configv1.InterPodAffinityArgs{}
	default:
		return nil
	}
}

func internalArgs(args runtime.Object) (runtime.Object, error) {
	args = args.DeepCopyObject()
	scheme.Scheme.Default(args)
	var internal runtime.Object
	switch args.(type) {
	case *configv1.NodeAffinityArgs:
		internal = &config.NodeAffinityArgs{}
	case *configv1.NodeResourcesFitArgs:
		internal = &config.NodeResourcesFitArgs{}
	case *configv1.NodeResourcesBalancedAllocationArgs:
		internal = &config.NodeResourcesBalancedAllocationArgs{}
	case *configv1.PodTopologySpreadArgs:
		internal = &config.PodTopologySpreadArgs{}
	case *configv1.InterPodAffinityArgs:
		internal = &config.InterPodAffinityArgs{}
	default:
		return nil, fmt.Errorf("type %T is not known here", args)
	}
	return internal, scheme.Scheme.Convert(args, internal, nil)
}

// answer is one decision in the words both sides share.
type answer struct {
	// Failed: the attempt is an error.
	Failed bool
	// Message and Plugins of a pod that fits nowhere.
	Message string
	Plugins []string
	Nodes   map[string]nodeAnswer
}

type nodeAnswer struct {
	Code    string
	Plugin  string
	Reasons []string
	Total   int64
	Scores  map[string]int64 // weighted
}

// decide runs the extension points as upstream's schedulePod does, over all nodes, but
// always scores, even a single feasible node.
func (o *oracle) decide(ctx context.Context, pod *corev1.Pod) answer {
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	narrowed, status, narrowedBy := o.framework.RunPreFilterPlugins(ctx, state, pod)
	diagnosis.UnschedulablePlugins = narrowedBy
	switch {
	case status.IsRejected():
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		return o.refusal(pod, diagnosis)
	case !status.IsSuccess():
		return answer{Failed: true}
	}
	if !narrowed.AllNodes() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowedBy))))
	}
	var feasible []fwk.NodeInfo
	for _, n := range o.nodes {
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(n.Node().Name) {
			continue
		}
		status := o.framework.RunFilterPlugins(ctx, state, pod, n)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, n)
		case status.IsRejected():
			diagnosis.NodeToStatus.Set(n.Node().Name, status)
			diagnosis.AddPluginStatus(status)
		default:
			return answer{Failed: true}
		}
	}
	if len(feasible) == 0 {
		return o.refusal(pod, diagnosis)
	}
	return o.scored(ctx, state, pod, feasible, diagnosis)
}

func (o *oracle) scored(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, d framework.Diagnosis,
) answer {
	if !o.framework.RunPreScorePlugins(ctx, state, pod, feasible).IsSuccess() {
		return answer{Failed: true}
	}
	scores, status := o.framework.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return answer{Failed: true}
	}
	a := answer{Nodes: o.statuses(d)}
	for _, s := range scores {
		n := nodeAnswer{Code: fwk.Success.String(), Total: s.TotalScore, Scores: map[string]int64{}}
		for _, p := range s.Scores {
			n.Scores[p.Name] = p.Score
		}
		a.Nodes[s.Name] = n
	}
	return a
}

func (o *oracle) refusal(pod *corev1.Pod, d framework.Diagnosis) answer {
	err := &framework.FitError{Pod: pod, NumAllNodes: len(o.nodes), Diagnosis: d}
	return answer{Message: err.Error(), Plugins: sets.List(d.UnschedulablePlugins), Nodes: o.statuses(d)}
}

func (o *oracle) statuses(d framework.Diagnosis) map[string]nodeAnswer {
	m := map[string]nodeAnswer{}
	for _, n := range o.nodes {
		s := d.NodeToStatus.Get(n.Node().Name)
		reasons := slices.Clone(s.Reasons())
		slices.Sort(reasons)
		m[n.Node().Name] = nodeAnswer{Code: s.Code().String(), Plugin: s.Plugin(), Reasons: reasons}
	}
	return m
}
