package fit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// plugin rejects nodes without enough free resources and scores nodes by how full they would be. Source:
// plugins/noderesources/fit.go. Resources backed by devices are left to DynamicResources on nodes that do not list
// them.
type plugin struct {
	// ignored and ignoredGroups are extended resources that another component handles: the filter skips them.
	// Groups are the part of a name before the slash. strategy scores.
	ignored, ignoredGroups []string
	strategy               strategy
	// compiled caches the compiled expressions of device classes.
	compiled *cel.Cache
}

// New is the factory of NodeResourcesFit. An error names the field of the scoring strategy that is wrong.
func New(args runtime.Object) (rule.Plugin, error) {
	a, err := rule.Args[configv1.NodeResourcesFitArgs](args)
	if err != nil {
		return nil, err
	}
	s, err := newStrategy(a.ScoringStrategy)
	if err != nil {
		return nil, err
	}
	return plugin{
		ignored: a.IgnoredResources, ignoredGroups: a.IgnoredResourceGroups, strategy: s, compiled: devices.NewExpressions(),
	}, nil
}

// Name implements Plugin.
func (plugin) Name() string { return names.NodeResourcesFit }

// Compile implements Plugin. The filter always applies, because every pod needs one of the node's places for
// pods.
func (p plugin) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	request := incomingRequest(pod.Template)
	return rule.Compiled{
		Filter: newFitFilter(request, p.ignores).leave(devices.BackedResources(request, objects)),
		Scorer: p.strategy.scorer(pod.Template, p.compiled, objects),
	}, nil
}

// incomingRequest returns the request of a pod that does not run yet: only its spec counts, the larger of the sum
// of its containers and the largest init container, plus overhead, or its pod-level resources.
func incomingRequest(obj *corev1.Pod) resources.Resources {
	return resources.NewResources(podresource.PodRequests(obj, podresource.PodResourcesOptions{}))
}

// ignores reports whether a resource is left to another component. Built-in resources cannot be.
func (p plugin) ignores(name string) bool {
	if !resources.IsExtendedResource(name) {
		return false
	}
	group, _, _ := strings.Cut(name, "/")
	return slices.Contains(p.ignored, name) || slices.Contains(p.ignoredGroups, group)
}

// Filter compares a request with the free resources of a node. Extended is sorted by name and holds no zero and
// no ignored resource. Amounts are in the units of resources.Resources.
type Filter struct {
	Request  resources.Resources
	Extended []amount
}

// amount is a requested amount of an extended resource.
type amount struct {
	Name  string
	Value int64
	// devices reports whether devices provide it on nodes that have none of it.
	devices bool
}

// newFitFilter returns the filter for a request, without the extended resources that are ignored.
func newFitFilter(request resources.Resources, ignores func(string) bool) Filter {
	f := Filter{Request: request}
	for _, name := range slices.Sorted(maps.Keys(request.Extended)) {
		if !ignores(name) {
			f.Extended = append(f.Extended, amount{Name: name, Value: request.Extended[name]})
		}
	}
	return f
}

// leave leaves resources to devices on nodes that list none of them. Source: fit.go shouldDelegateResourceToDRA.
func (f Filter) leave(resources []devices.Backed) Filter {
	for _, r := range resources {
		for i := range f.Extended {
			f.Extended[i].devices = f.Extended[i].devices || f.Extended[i].Name == r.Name
		}
	}
	return f
}

// Check implements Filter. A node whose capacity is too small is unresolvable: no eviction helps. Source: fit.go
// fitsRequest.
func (f Filter) Check(n *state.NodeInfo) rule.Code {
	code := rule.Success
	total, used := &n.Node.Allocatable, &n.Requested
	fits := func(request, total, used int64) {
		if request > 0 && request > total-used {
			code = max(code, rule.Unschedulable)
			if request > total {
				code = rule.UnschedulableAndUnresolvable
			}
		}
	}
	// Too few places for pods count as resolvable, even on a node that has none at all, as upstream.
	if int64(n.PodCount())+1 > total.Pods {
		code = rule.Unschedulable
	}
	fits(f.Request.MilliCPU, total.MilliCPU, used.MilliCPU)
	fits(f.Request.Memory, total.Memory, used.Memory)
	fits(f.Request.EphemeralStorage, total.EphemeralStorage, used.EphemeralStorage)
	for i := range f.Extended {
		e := &f.Extended[i]
		// DynamicResources evaluates the resource on this node.
		if e.devices && total.Extended[e.Name] == 0 {
			continue
		}
		fits(e.Value, total.Extended[e.Name], used.Extended[e.Name])
	}
	return code
}

// Explain implements Filter. It lists every resource of which there is too little, where Check returns one code.
func (f Filter) Explain(n *state.NodeInfo) []string {
	var reasons []string
	total, used := n.Node.Allocatable, n.Requested
	lacks := func(name string, request, total, used int64) {
		if request > 0 && request > total-used {
			reasons = append(reasons, Insufficient(name))
		}
	}
	if int64(n.PodCount())+1 > total.Pods {
		reasons = append(reasons, TooManyPods)
	}
	lacks("cpu", f.Request.MilliCPU, total.MilliCPU, used.MilliCPU)
	lacks("memory", f.Request.Memory, total.Memory, used.Memory)
	lacks("ephemeral-storage", f.Request.EphemeralStorage, total.EphemeralStorage, used.EphemeralStorage)
	for _, e := range f.Extended {
		if e.devices && total.Extended[e.Name] == 0 {
			continue
		}
		lacks(e.Name, e.Value, total.Extended[e.Name], used.Extended[e.Name])
	}
	return reasons
}

// TooManyPods is the reason for a node that has its maximum of pods.
const TooManyPods = "Too many pods"

// Insufficient returns the reason for a node that has too little of a resource.
func Insufficient(resource string) string { return "Insufficient " + resource }

// Events implements Plugin.
func (plugin) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindPod, Actions: rule.Delete | rule.UpdatePodScaleDown},
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeAllocatable},
		{Kind: events.KindDeviceClass, Actions: rule.Add | rule.Update},
	}
}

// Hint implements Plugin. A node helps if the pod would fit on it when it is empty, and if it is new or has grown
// in something that the pod requests. A pod helps if it is gone, or requests less of something. Source: fit.go
// isSchedulableAfter...
func (plugin) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindPod {
		if c.NewPod == nil {
			return rule.HeldPlace(c.OldPod)
		}
		return c.IsOf(pod) || c.NewPod.NodeName != "" && frees(pod, c)
	}
	if c.Kind == events.KindDeviceClass {
		return devices.ClassHelps(pod, c)
	}
	// The rest is about nodes.
	request := incomingRequest(pod.Template)
	empty := newFitFilter(request, func(string) bool { return false }).leave(devices.BackedResources(request, c.Objects))
	if empty.Check(state.NewNodeInfo(c.NewNode)) != rule.Success {
		return false
	}
	return c.OldNode == nil || grew(request, c.OldNode.Allocatable, c.NewNode.Allocatable)
}

// frees reports whether the change lowered the request for any resource that the pod requests (an in-place
// resize).
func frees(pod *state.Pod, c rule.Change) bool {
	for name, v := range pod.Requests.Map() {
		if v > 0 && name != string(corev1.ResourcePods) && c.NewPod.Requests.Get(name) < c.OldPod.Requests.Get(name) {
			return true
		}
	}
	return false
}

// grew reports whether a node has more room for pods or more of any requested resource.
func grew(request, before, after resources.Resources) bool {
	if after.Pods > before.Pods {
		return true
	}
	for name, v := range request.Map() {
		if v > 0 && after.Get(name) > before.Get(name) {
			return true
		}
	}
	return false
}

// Interest implements rule.Classifier. The request appears twice: as the rule computes it from the spec, and as
// the state counts it, which Hint compares.
func (plugin) Interest(pod *state.Pod) rule.Interest {
	asks := amounts(incomingRequest(pod.Template))
	counts := amounts(pod.Requests)
	return rule.Interest{
		Class: rule.Joined(rule.Joined(asks...), rule.Joined(counts...)), Pods: rule.Everything, Nodes: rule.Everything,
	}
}

// amounts returns the resources that are not zero, sorted.
func amounts(r resources.Resources) []string {
	var list []string
	for name, v := range r.Map() {
		if v != 0 {
			list = append(list, rule.Joined(name, strconv.FormatInt(v, 10)))
		}
	}
	slices.Sort(list)
	return list
}

// Shortages calls add for every resource that the node has too little of, sorted by name.
func (f Filter) Shortages(n *state.NodeInfo, add func(name string, asked, free int64)) {
	compare := func(name string, asked, free int64) {
		if asked > 0 && asked > free {
			add(name, asked, free)
		}
	}
	total, used := &n.Node.Allocatable, &n.Requested
	compare("cpu", f.Request.MilliCPU, total.MilliCPU-used.MilliCPU)
	compare("ephemeral-storage", f.Request.EphemeralStorage, total.EphemeralStorage-used.EphemeralStorage)
	for _, x := range f.Extended {
		compare(x.Name, x.Value, total.Extended[x.Name]-used.Extended[x.Name])
	}
	compare("memory", f.Request.Memory, total.Memory-used.Memory)
	compare("pods", 1, total.Pods-int64(n.PodCount()))
}
