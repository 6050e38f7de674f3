package placement

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
	"github.com/berth-scheduler/berth/pkg/state"
)

// nodeResourcesFit rejects nodes without enough free resources and scores nodes by how full they would be. Source:
// plugins/noderesources/fit.go. Resources backed by devices are left to DynamicResources on nodes that do not list
// them.
type nodeResourcesFit struct {
	ignored, ignoredGroups []string
	strategy               strategy
	// compiled caches the compiled expressions of device classes.
	compiled *cel.Cache
}

func newNodeResourcesFit(args runtime.Object) (Plugin, error) {
	a, err := argsOf[configv1.NodeResourcesFitArgs](args)
	if err != nil {
		return nil, err
	}
	s, err := newStrategy(a.ScoringStrategy)
	if err != nil {
		return nil, err
	}
	return nodeResourcesFit{
		ignored: a.IgnoredResources, ignoredGroups: a.IgnoredResourceGroups, strategy: s, compiled: newExpressions(),
	}, nil
}

// Name implements Plugin.
func (nodeResourcesFit) Name() string { return NodeResourcesFit }

// Compile implements Plugin.
func (p nodeResourcesFit) Compile(pod *state.Pod, objects Objects) (Compiled, error) {
	request := incomingRequest(pod.Template)
	return Compiled{
		Filter: newFitFilter(request, p.ignores).leave(backedResources(request, objects)),
		Scorer: p.strategy.scorer(pod.Template, p.compiled, objects),
	}, nil
}

// incomingRequest returns the request of a pod that does not run yet: only its spec counts.
func incomingRequest(obj *corev1.Pod) state.Resources {
	return state.NewResources(podresource.PodRequests(obj, podresource.PodResourcesOptions{}))
}

// ignores reports whether a resource is left to another component.
func (p nodeResourcesFit) ignores(name string) bool {
	if !state.IsExtendedResource(name) {
		return false
	}
	group, _, _ := strings.Cut(name, "/")
	return slices.Contains(p.ignored, name) || slices.Contains(p.ignoredGroups, group)
}

// fitFilter compares a request with the free resources of a node. extended is sorted by name and holds no zero and
// no ignored resource.
type fitFilter struct {
	request  state.Resources
	extended []amount
}

type amount struct {
	name  string
	value int64
	// devices reports whether devices provide it on nodes that have none of it.
	devices bool
}

func newFitFilter(request state.Resources, ignores func(string) bool) fitFilter {
	f := fitFilter{request: request}
	for _, name := range slices.Sorted(maps.Keys(request.Extended)) {
		if !ignores(name) {
			f.extended = append(f.extended, amount{name: name, value: request.Extended[name]})
		}
	}
	return f
}

// leave leaves resources to devices on nodes that list none of them. Source: fit.go shouldDelegateResourceToDRA.
func (f fitFilter) leave(resources []backed) fitFilter {
	for _, r := range resources {
		for i := range f.extended {
			f.extended[i].devices = f.extended[i].devices || f.extended[i].name == r.name
		}
	}
	return f
}

// Check implements Filter.
func (f fitFilter) Check(n *state.NodeInfo) Code {
	code := Success
	total, used := &n.Node.Allocatable, &n.Requested
	fits := func(request, total, used int64) {
		if request > 0 && request > total-used {
			code = max(code, Unschedulable)
			if request > total {
				code = UnschedulableAndUnresolvable
			}
		}
	}
	if int64(n.PodCount())+1 > total.Pods {
		code = Unschedulable
	}
	fits(f.request.MilliCPU, total.MilliCPU, used.MilliCPU)
	fits(f.request.Memory, total.Memory, used.Memory)
	fits(f.request.EphemeralStorage, total.EphemeralStorage, used.EphemeralStorage)
	for i := range f.extended {
		e := &f.extended[i]
		if e.devices && total.Extended[e.name] == 0 {
			continue
		}
		fits(e.value, total.Extended[e.name], used.Extended[e.name])
	}
	return code
}

// Explain implements Filter.
func (f fitFilter) Explain(n *state.NodeInfo) []string {
	var reasons []string
	total, used := n.Node.Allocatable, n.Requested
	lacks := func(name string, request, total, used int64) {
		if request > 0 && request > total-used {
			reasons = append(reasons, insufficient(name))
		}
	}
	if int64(n.PodCount())+1 > total.Pods {
		reasons = append(reasons, tooManyPods)
	}
	lacks("cpu", f.request.MilliCPU, total.MilliCPU, used.MilliCPU)
	lacks("memory", f.request.Memory, total.Memory, used.Memory)
	lacks("ephemeral-storage", f.request.EphemeralStorage, total.EphemeralStorage, used.EphemeralStorage)
	for _, e := range f.extended {
		if e.devices && total.Extended[e.name] == 0 {
			continue
		}
		lacks(e.name, e.value, total.Extended[e.name], used.Extended[e.name])
	}
	return reasons
}

const tooManyPods = "Too many pods"

func insufficient(resource string) string { return "Insufficient " + resource }

// Events implements Plugin.
func (nodeResourcesFit) Events() []Event {
	return []Event{
		{events.KindPod, Delete | UpdatePodScaleDown},
		{events.KindNode, Add | UpdateNodeAllocatable},
		{events.KindDeviceClass, Add | Update},
	}
}

// Hint implements Plugin.
func (nodeResourcesFit) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindPod {
		if c.NewPod == nil {
			return heldPlace(c.OldPod)
		}
		return c.isOf(pod) || c.NewPod.NodeName != "" && frees(pod, c)
	}
	if c.Kind == events.KindDeviceClass {
		return classHelps(pod, c)
	}
	request := incomingRequest(pod.Template)
	empty := newFitFilter(request, func(string) bool { return false }).leave(backedResources(request, c.Objects))
	if empty.Check(state.NewNodeInfo(c.NewNode)) != Success {
		return false
	}
	return c.OldNode == nil || grew(request, c.OldNode.Allocatable, c.NewNode.Allocatable)
}

// frees reports whether the change lowered the request for any resource that the pod requests.
func frees(pod *state.Pod, c Change) bool {
	for name, v := range pod.Requests.Map() {
		if v > 0 && name != string(corev1.ResourcePods) && c.NewPod.Requests.Get(name) < c.OldPod.Requests.Get(name) {
			return true
		}
	}
	return false
}

// grew reports whether a node has more room for pods or more of any requested resource.
func grew(request, before, after state.Resources) bool {
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

func (nodeResourcesFit) interest(pod *state.Pod) Interest {
	asks := amounts(incomingRequest(pod.Template))
	counts := amounts(pod.Requests)
	return Interest{Class: joined(joined(asks...), joined(counts...)), Pods: everything, Nodes: everything}
}

// amounts returns the resources that are not zero, sorted.
func amounts(r state.Resources) []string {
	var list []string
	for name, v := range r.Map() {
		if v != 0 {
			list = append(list, joined(name, strconv.FormatInt(v, 10)))
		}
	}
	slices.Sort(list)
	return list
}

// shortages calls add for every resource that the node has too little of.
func (f fitFilter) shortages(n *state.NodeInfo, add func(name string, asked, free int64)) {
	compare := func(name string, asked, free int64) {
		if asked > 0 && asked > free {
			add(name, asked, free)
		}
	}
	total, used := &n.Node.Allocatable, &n.Requested
	compare("cpu", f.request.MilliCPU, total.MilliCPU-used.MilliCPU)
	compare("ephemeral-storage", f.request.EphemeralStorage, total.EphemeralStorage-used.EphemeralStorage)
	for _, x := range f.extended {
		compare(x.name, x.value, total.Extended[x.name]-used.Extended[x.name])
	}
	compare("memory", f.request.Memory, total.Memory-used.Memory)
	compare("pods", 1, total.Pods-int64(n.PodCount()))
}
