package conformance

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// prepareUpstream sets what upstream keeps per process.
func prepareUpstream() { metrics.Register() }

// oracle is upstream's framework over upstream's state of a cluster.
type oracle struct {
	*upstreamState
	framework framework.Framework
}

// newOracle builds a framework with the plugins of the profile, over an empty cluster.
func newOracle(ctx context.Context, profile placement.ProfileConfig) (*oracle, error) {
	upstream, err := upstreamProfile(profile)
	if err != nil {
		return nil, err
	}
	state := newUpstreamState(ctx)
	csiNodes := state.listers.Storage().V1().CSINodes().Lister()
	tracker, err := state.tracker(ctx)
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), state.claims, "ResourceClaim", "", nil)
	dra := dynamicresources.NewDRAManager(ctx, claims, tracker, state.listers)
	resources, ok := dra.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	if !ok {
		return nil, fmt.Errorf("device classes are resolved by a %T", dra.DeviceClassResolver())
	}
	state.classes.handler = resources
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), upstream,
		frameworkruntime.WithSnapshotSharedLister(state.snapshot),
		frameworkruntime.WithClientSet(fake.NewClientset()),
		frameworkruntime.WithInformerFactory(state.listers),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(csiNodes)),
		frameworkruntime.WithSharedDRAManager(dra),
	)
	return &oracle{state, f}, err
}

// upstreamProfile converts a profile, arguments defaulted and converted by upstream.
func upstreamProfile(p placement.ProfileConfig) (*config.KubeSchedulerProfile, error) {
	profile := &config.KubeSchedulerProfile{SchedulerName: p.SchedulerName, Plugins: enabled(p.Plugins)}
	for _, c := range p.Plugins {
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

// enabled lists plugins with their weights: at multiPoint if all are enabled wholly, else
// those that filter or score point by point, as both kinds of list together would come out
// in another order.
func enabled(list []placement.PluginConfig) *config.Plugins {
	var p config.Plugins
	whole := !slices.ContainsFunc(list, func(c placement.PluginConfig) bool { return c.Points != 0 })
	for _, c := range list {
		if c.Points == 0 {
			c.Points = placement.Narrowing | placement.Filtering | placement.Scoring
		}
		plugin, anywhere := config.Plugin{Name: c.Name, Weight: c.Weight}, false
		for _, at := range points {
			anywhere = anywhere || slices.Contains(at.plugins, c.Name)
			if !whole && slices.Contains(at.plugins, c.Name) && c.Points&at.ours != 0 {
				set := at.set(&p)
				set.Enabled = append(set.Enabled, plugin)
			}
		}
		if whole || !anywhere {
			p.MultiPoint.Enabled = append(p.MultiPoint.Enabled, plugin)
		}
	}
	return &p
}

// points are upstream's extension points that correspond to ours, and the plugins that have them.
var points = []struct {
	ours    placement.Points
	set     func(*config.Plugins) *config.PluginSet
	plugins []string
}{
	{placement.Narrowing, func(p *config.Plugins) *config.PluginSet { return &p.PreEnqueue }, []string{
		names.DynamicResources,
	}},
	{placement.Narrowing, func(p *config.Plugins) *config.PluginSet { return &p.PreFilter }, []string{
		names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread,
		names.InterPodAffinity, names.NodeDeclaredFeatures, names.VolumeRestrictions,
		names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.DynamicResources,
	}},
	{placement.Filtering, func(p *config.Plugins) *config.PluginSet { return &p.Filter },
		slices.Concat(filters, volumeFilters, []string{names.DynamicResources})},
	{placement.Scoring, func(p *config.Plugins) *config.PluginSet { return &p.PreScore }, []string{
		names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit, names.PodTopologySpread,
		names.InterPodAffinity, names.NodeResourcesBalancedAllocation,
	}},
	{placement.Scoring, func(p *config.Plugins) *config.PluginSet { return &p.Score },
		slices.Concat(scorers, []string{names.DynamicResources})},
}

func defaultArgs(plugin string) runtime.Object {
	switch plugin {
	case names.NodeAffinity:
		return &configv1.NodeAffinityArgs{}
	case names.NodeResourcesFit:
		return &configv1.NodeResourcesFitArgs{}
	case names.NodeResourcesBalancedAllocation:
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	case names.PodTopologySpread:
		return &configv1.PodTopologySpreadArgs{}
	case names.InterPodAffinity:
		return &configv1.InterPodAffinityArgs{}
	case names.VolumeBinding:
		return &configv1.VolumeBindingArgs{}
	case names.DynamicResources:
		return &configv1.DynamicResourcesArgs{}
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
	case *configv1.VolumeBindingArgs:
		internal = &config.VolumeBindingArgs{}
	case *configv1.DynamicResourcesArgs:
		internal = &config.DynamicResourcesArgs{}
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
	// Nominated is the node chosen because the pod has been nominated to it. No other is looked at, and none is
	// scored.
	Nominated string
	// Only is the node that alone is feasible, so that there is nothing to compare. It is
	// scored here all the same, which may fail; the attempt would not.
	Only  string
	Nodes map[string]nodeAnswer
}

type nodeAnswer struct {
	Code    string
	Plugin  string
	Reasons []string
	Total   int64
	Scores  map[string]int64 // weighted
}

// decide runs the extension points as upstream's queue and schedulePod do, over all nodes,
// but always scores, even a single feasible node.
func (o *oracle) decide(ctx context.Context, pod *corev1.Pod) answer {
	if err := o.refresh(ctx); err != nil {
		return answer{Failed: true, Message: "upstream: " + err.Error()}
	}
	nodes, err := o.snapshot.NodeInfos().List()
	if err != nil {
		return answer{Failed: true, Message: "upstream: " + err.Error()}
	}
	if len(nodes) == 0 {
		return answer{Message: "no nodes available to schedule pods"} // scheduler.ErrNoNodesAvailable
	}
	c := cycle{
		framework: o.framework, pod: pod, nodes: nodes, state: framework.NewCycleState(), raw: o.raw,
		diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	return c.run(ctx)
}

// cycle is one decision of upstream's.
type cycle struct {
	framework framework.Framework
	pod       *corev1.Pod
	nodes     []fwk.NodeInfo
	state     fwk.CycleState
	diagnosis framework.Diagnosis
	raw       bool // see mendNomination
}

func (c *cycle) run(ctx context.Context) answer {
	for _, p := range c.framework.PreEnqueuePlugins() {
		if status := p.PreEnqueue(ctx, c.pod); !status.IsSuccess() {
			status.SetPlugin(p.Name())
			return c.refusedEverywhere(status)
		}
	}
	narrowed, status, narrowedBy := c.framework.RunPreFilterPlugins(ctx, c.state, c.pod)
	c.diagnosis.UnschedulablePlugins = narrowedBy
	switch {
	case status.IsRejected():
		return c.refusedEverywhere(status)
	case !status.IsSuccess():
		return answer{Failed: true}
	}
	if name := c.nominated(ctx); name != "" {
		return answer{Nominated: name}
	}
	candidates := c.nodes
	if !narrowed.AllNodes() {
		candidates = slices.DeleteFunc(slices.Clone(c.nodes), func(n fwk.NodeInfo) bool {
			return !narrowed.NodeNames.Has(n.Node().Name)
		})
		c.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(c.diagnosis.UnschedulablePlugins))))
	}
	feasible, ok := c.filter(ctx, candidates)
	switch {
	case !ok:
		return answer{Failed: true}
	case len(feasible) == 0:
		return c.refused()
	}
	a := c.scored(ctx, feasible)
	if len(feasible) == 1 {
		a.Only = feasible[0].Node().Name
	}
	return a
}

// nominated is the node chosen because the pod has been nominated to it.
func (c *cycle) nominated(ctx context.Context) string {
	name := c.pod.Status.NominatedNodeName
	only := slices.DeleteFunc(slices.Clone(c.nodes), func(n fwk.NodeInfo) bool { return n.Node().Name != name })
	if !c.raw {
		defer c.fixNomination(c.diagnosis.UnschedulablePlugins.Clone())
	}
	if feasible, ok := c.filter(ctx, only); !ok || len(feasible) == 0 {
		return ""
	}
	return name
}

// filter returns the nodes that pass; false when a plugin failed.
func (c *cycle) filter(ctx context.Context, nodes []fwk.NodeInfo) (feasible []fwk.NodeInfo, ok bool) {
	for _, n := range nodes {
		status := c.framework.RunFilterPlugins(ctx, c.state, c.pod, n)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, n)
		case status.IsRejected():
			c.diagnosis.NodeToStatus.Set(n.Node().Name, status)
			c.diagnosis.AddPluginStatus(status)
		default:
			return nil, false
		}
	}
	return feasible, true
}

func (c *cycle) refusedEverywhere(status *fwk.Status) answer {
	c.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
	c.diagnosis.PreFilterMsg = status.Message()
	c.diagnosis.AddPluginStatus(status)
	return c.refused()
}

func (c *cycle) scored(ctx context.Context, feasible []fwk.NodeInfo) answer {
	if !c.framework.RunPreScorePlugins(ctx, c.state, c.pod, feasible).IsSuccess() {
		return answer{Failed: true}
	}
	scores, status := c.framework.RunScorePlugins(ctx, c.state, c.pod, feasible)
	if !status.IsSuccess() {
		return answer{Failed: true}
	}
	a := answer{Nodes: c.statuses()}
	for _, s := range scores {
		n := nodeAnswer{Code: fwk.Success.String(), Total: s.TotalScore, Scores: map[string]int64{}}
		for _, p := range s.Scores {
			setScore(n.Scores, p.Name, p.Score)
		}
		a.Nodes[s.Name] = n
	}
	return a
}

func (c *cycle) refused() answer {
	err := &framework.FitError{Pod: c.pod, NumAllNodes: len(c.nodes), Diagnosis: c.diagnosis}
	return answer{
		Message: err.Error(), Plugins: sets.List(c.diagnosis.UnschedulablePlugins), Nodes: c.statuses(),
	}
}

func (c *cycle) statuses() map[string]nodeAnswer {
	m := map[string]nodeAnswer{}
	for _, n := range c.nodes {
		s := c.diagnosis.NodeToStatus.Get(n.Node().Name)
		reasons := slices.Clone(s.Reasons())
		slices.Sort(reasons)
		m[n.Node().Name] = nodeAnswer{Code: s.Code().String(), Plugin: s.Plugin(), Reasons: reasons}
	}
	return m
}

// setScore leaves out that the rule about devices has nothing to say: upstream asks it about every
// pod, here it takes part for pods with alternatives only.
func setScore(scores map[string]int64, plugin string, score int64) {
	if plugin != names.DynamicResources || score != 0 {
		scores[plugin] = score
	}
}
