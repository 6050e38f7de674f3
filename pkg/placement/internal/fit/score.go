package fit

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// strategy defines how NodeResourcesFit scores: the resources, and a curve from the requested amount and the
// capacity (which is not 0) to a score. Source: plugins/noderesources
// {least_allocated,most_allocated,requested_to_capacity_ratio}.go.
type strategy struct {
	resources []configv1.ResourceSpec
	curve     func(requested, capacity int64) int64
	// skipZero leaves resources that score 0 out of the mean and rounds the mean to nearest, as
	// RequestedToCapacityRatio does; the others truncate.
	skipZero bool
}

// customMaxScore is the top of the score range in which users write shapes. Points are scaled from it to
// MaxScore.
const customMaxScore = 10

// newStrategy checks the configuration; nil means LeastAllocated over cpu and memory with equal weights.
func newStrategy(cfg *configv1.ScoringStrategy) (strategy, error) {
	if cfg == nil {
		cfg = &configv1.ScoringStrategy{}
	}
	s := strategy{resources: resourceSpecs(cfg.Resources)}
	switch cfg.Type {
	case configv1.LeastAllocated, "":
		s.curve = leastAllocated
	case configv1.MostAllocated:
		s.curve = mostAllocated
	case configv1.RequestedToCapacityRatio:
		if cfg.RequestedToCapacityRatio == nil || len(cfg.RequestedToCapacityRatio.Shape) == 0 {
			return s, fmt.Errorf("scoringStrategy.requestedToCapacityRatio.shape is empty, want at least one point")
		}
		s.curve = requestedToCapacity(cfg.RequestedToCapacityRatio.Shape)
		s.skipZero = true
	default:
		return s, fmt.Errorf("scoringStrategy.type is %q, want %s, %s or %s",
			cfg.Type, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio)
	}
	return s, nil
}

// leastAllocated is (capacity - requested) / capacity of MaxScore: an empty node scores highest.
func leastAllocated(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return (capacity - requested) * rule.MaxScore / capacity
}

// mostAllocated is requested / capacity of MaxScore: a full node scores highest.
func mostAllocated(requested, capacity int64) int64 {
	return min(requested, capacity) * rule.MaxScore / capacity
}

// requestedToCapacity interpolates linearly between the points of shape, in integers as upstream does. Left of
// the first point and right of the last, the score is that of the point. Utilization is in percent, and 100 where
// more is requested than there is. Source: helper.BuildBrokenLinearFunction.
func requestedToCapacity(shape []configv1.UtilizationShapePoint) func(requested, capacity int64) int64 {
	return func(requested, capacity int64) int64 {
		utilization := int64(100)
		if requested <= capacity {
			utilization = requested * 100 / capacity
		}
		score := func(i int) int64 { return int64(shape[i].Score) * (rule.MaxScore / customMaxScore) }
		for i, point := range shape {
			to := int64(point.Utilization)
			if utilization > to {
				continue
			}
			if i == 0 {
				return score(0)
			}
			from := int64(shape[i-1].Utilization)
			return score(i-1) + (score(i)-score(i-1))*(utilization-from)/(to-from)
		}
		return score(len(shape) - 1)
	}
}

// Demand is one resource to score by, with the amount that the pod requests.
type Demand struct {
	Name   string
	weight int64
	// request is in milli-CPU for cpu, otherwise in the resource's own unit; weight is that in the mean.
	request int64
	// devices, if not nil, counts the devices of class that provide the resource on nodes that do not list it.
	devices *devices.Tally
	class   *resourcev1.DeviceClass
}

// demands resolves the configured resources for a pod. An extended resource that the pod does not request says
// nothing about the node and is left out.
func demands(specs []configv1.ResourceSpec, requests corev1.ResourceList) []Demand {
	list := make([]Demand, 0, len(specs))
	for _, spec := range specs {
		q := requests[corev1.ResourceName(spec.Name)]
		d := Demand{Name: spec.Name, weight: spec.Weight, request: q.Value()}
		if spec.Name == string(corev1.ResourceCPU) {
			d.request = q.MilliValue()
		}
		if d.request != 0 || !resources.IsAccountedResource(spec.Name) {
			list = append(list, d)
		}
	}
	return list
}

// scorer compiles the strategy for a pod. Containers without requests count with defaults.
// Pod-level resources do not count: upstream's scorer for this plugin is built without the
// switch for them (noderesources/fit.go, nodeResourceStrategyTypeMap), unlike its filter.
func (s strategy) scorer(obj *corev1.Pod, compiled *cel.Cache, objects rule.Objects) rule.Scorer {
	requests := podresource.PodRequests(obj, podresource.PodResourcesOptions{
		SkipPodLevelResources:       true,
		NonMissingContainerRequests: state.DefaultRequests(),
	})
	list := demands(s.resources, requests)
	backScores(list, compiled, objects)
	return Scorer{strategy: s, Demands: list}
}

// Scorer is the scoring part of NodeResourcesFit.
type Scorer struct {
	strategy
	Demands []Demand
}

// Score implements Scorer.
func (s Scorer) Score(n *state.NodeInfo) int64 {
	var room [UsualDemands]Share
	return s.OfShares(measureAll(room[:0], s.Demands, n, &n.NonZeroRequested))
}

// OfShares is Score computed from the node's share of each demand, in the order of Demands. The score is the
// weighted mean over the resources that the node has.
func (s *Scorer) OfShares(shares []Share) int64 {
	var sum, weights int64
	for i := range shares {
		d, has := &s.Demands[i], &shares[i]
		if has.Capacity == 0 {
			continue
		}
		score := s.curve(has.Used+d.request, has.Capacity)
		if s.skipZero && score <= 0 {
			continue
		}
		sum += score * d.weight
		weights += d.weight
	}
	switch {
	case weights == 0:
		return 0
	case s.skipZero:
		return int64(math.Round(float64(sum) / float64(weights)))
	default:
		return sum / weights
	}
}

// AddPods adds the requests of so many pods to the shares of a node, in the order of Demands: with them, OfShares is
// the score that the node has once these pods run there.
func (s *Scorer) AddPods(shares []Share, pods int64) { addPods(s.Demands, shares, pods) }

// AddPods is Scorer.AddPods.
func (s *BalanceScorer) AddPods(shares []Share, pods int64) { addPods(s.Demands, shares, pods) }

func addPods(demands []Demand, shares []Share, pods int64) {
	if pods == 0 {
		return
	}
	for i := range shares {
		shares[i].Used += pods * demands[i].request
	}
}

// Share is how much of one resource a node has, and how much of that is in use, in the unit of the resource. A
// capacity of 0 means that the node does not have the resource, and that it does not count.
type Share struct{ Capacity, Used int64 }

// UsualDemands is the number of resources that are measured without an allocation. Profiles rarely name more than
// three.
const UsualDemands = 8

// measureAll appends the share of each demand. use holds the cpu and memory in use that the caller scores by.
func measureAll(to []Share, demands []Demand, n *state.NodeInfo, use *resources.Resources) []Share {
	for i := range demands {
		capacity, used := demands[i].measure(n, use)
		to = append(to, Share{capacity, used})
	}
	return to
}

// measure returns a node's capacity and use of the resource. For cpu and memory, the use is taken from the
// argument; for all other resources, it is the sum of the requests.
func (d *Demand) measure(n *state.NodeInfo, use *resources.Resources) (capacity, used int64) {
	switch corev1.ResourceName(d.Name) {
	case corev1.ResourceCPU:
		return n.Node.Allocatable.MilliCPU, use.MilliCPU
	case corev1.ResourceMemory:
		return n.Node.Allocatable.Memory, use.Memory
	case corev1.ResourceEphemeralStorage:
		return n.Node.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage
	}
	capacity = n.Node.Allocatable.Extended[d.Name]
	if capacity == 0 && d.devices != nil {
		return d.devices.Count(n.Node.Object, d.class)
	}
	return capacity, n.Requested.Extended[d.Name]
}

// balancedAllocation prefers nodes whose resources are used evenly, according to how much the pod improves the
// balance. A node whose cpu is used up and whose memory is not cannot take another pod: unevenly used resources
// are wasted. Source: plugins/noderesources/balanced_allocation.go.
type balancedAllocation struct {
	resources []configv1.ResourceSpec
	compiled  *cel.Cache
}

// NewBalanced is the factory of NodeResourcesBalancedAllocation.
func NewBalanced(args runtime.Object) (rule.Plugin, error) {
	a, err := rule.Args[configv1.NodeResourcesBalancedAllocationArgs](args)
	if err != nil {
		return nil, err
	}
	return balancedAllocation{resources: resourceSpecs(a.Resources), compiled: devices.NewExpressions()}, nil
}

// Name implements Plugin.
func (balancedAllocation) Name() string { return names.NodeResourcesBalancedAllocation }

// Events implements Plugin.
func (balancedAllocation) Events() []rule.Event { return nil }

// Hint implements Plugin.
func (balancedAllocation) Hint(*state.Pod, rule.Change) bool { return false }

// Compile does not score for pods that request none of the resources: balance would place all of them on one node
// (kubernetes#129138).
func (p balancedAllocation) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	requests := podresource.PodRequests(pod.Object(), podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	list := demands(p.resources, requests)
	backScores(list, p.compiled, objects)
	for _, d := range list {
		if d.request != 0 {
			return rule.Compiled{Scorer: BalanceScorer{Demands: list}}, nil
		}
	}
	return rule.Compiled{}, nil
}

// BalanceScorer is the scoring part of NodeResourcesBalancedAllocation.
type BalanceScorer struct{ Demands []Demand }

// Score implements Scorer.
func (s BalanceScorer) Score(n *state.NodeInfo) int64 {
	var room [UsualDemands]Share
	return s.OfShares(measureAll(room[:0], s.Demands, n, &n.Requested))
}

// OfShares is 75 when the pod does not change the balance, up to 100 when the node becomes more balanced and down
// to 50 when it becomes less balanced. Example: a node uses 75 % of its cpu and 25 % of its memory, a balance of
// 75. A pod that takes half of the memory makes both equal, a balance of 100: 50 + (50 + 100 - 75) / 2 = 87
// points.
func (s *BalanceScorer) OfShares(shares []Share) int64 {
	const half = rule.MaxScore / 2
	return half + (half+s.balance(shares, true)-s.balance(shares, false))/2
}

// balance returns 100 times (1 - the standard deviation of the used fractions). It is 100 for a node on which all
// resources are used to the same share.
func (s *BalanceScorer) balance(shares []Share, withPod bool) int64 {
	var buffer [UsualDemands]float64
	fractions := buffer[:0]
	var sum float64
	for i := range shares {
		has := shares[i]
		if has.Capacity == 0 {
			continue
		}
		if withPod {
			has.Used += s.Demands[i].request
		}
		fraction := min(float64(has.Used)/float64(has.Capacity), 1)
		fractions = append(fractions, fraction)
		sum += fraction
	}
	return int64((1 - deviation(fractions, sum)) * float64(rule.MaxScore))
}

// deviation returns the standard deviation of fractions, given their sum. For two it is half of their difference,
// which upstream computes in this way too, so that rounding is the same.
func deviation(fractions []float64, sum float64) float64 {
	switch len(fractions) {
	case 0, 1:
		return 0
	case 2:
		return math.Abs((fractions[0] - fractions[1]) / 2)
	}
	mean := sum / float64(len(fractions))
	var squares float64
	for _, f := range fractions {
		squares += (f - mean) * (f - mean)
	}
	return math.Sqrt(squares / float64(len(fractions)))
}

// resourceSpecs returns the resources to score by, cpu and memory when none are named. A weight of 0 counts as 1.
func resourceSpecs(specs []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(specs) == 0 {
		specs = []configv1.ResourceSpec{{Name: "cpu"}, {Name: "memory"}}
	}
	specs = slices.Clone(specs)
	for i := range specs {
		if specs[i].Weight == 0 {
			specs[i].Weight = 1
		}
	}
	return specs
}

// backScores makes scores measure a resource backed by devices by those devices, on nodes that do not list the
// resource.
func backScores(list []Demand, compiled *cel.Cache, objects rule.Objects) {
	var tally *devices.Tally
	for i := range list {
		d := &list[i]
		if d.request == 0 || !devices.MayBeDevices(d.Name) {
			continue
		}
		class := devices.ClassFor(d.Name, objects)
		if class == nil {
			continue
		}
		if tally == nil {
			tally = devices.NewTally(compiled, objects)
		}
		d.devices, d.class = tally, class
	}
}
