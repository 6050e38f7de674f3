package placement

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// idle is a plugin of the default profile that takes no part in placement: PrioritySort (see Less) orders the
// queue, DefaultBinder is the binder service, DefaultPreemption is Profile.Preempt.
type idle struct{ name string }

// Name implements Plugin.
func (p idle) Name() string { return p.name }

// Compile implements Plugin.
func (idle) Compile(*state.Pod, Objects) (Compiled, error) { return Compiled{}, nil }

// Events implements Plugin.
func (idle) Events() []Event { return nil }

// Hint implements Plugin.
func (idle) Hint(*state.Pod, Change) bool { return false }

// schedulingGates rejects gated pods. The queue does not offer them; if one is evaluated nevertheless, it is
// rejected. Source: plugins/schedulinggates.
type schedulingGates struct{}

// Name implements Plugin.
func (schedulingGates) Name() string { return SchedulingGates }

// Compile implements Plugin. Admit does everything.
func (schedulingGates) Compile(*state.Pod, Objects) (Compiled, error) { return Compiled{}, nil }

// Admit implements Admitter.
func (schedulingGates) Admit(pod *state.Pod, _ Objects) (rejection string) {
	gates := pod.Template.Spec.SchedulingGates
	if len(gates) == 0 {
		return ""
	}
	names := make([]string, len(gates))
	for i, g := range gates {
		names[i] = g.Name
	}
	return fmt.Sprintf("waiting for scheduling gates: %v", names)
}

// Events implements Plugin.
func (schedulingGates) Events() []Event {
	return []Event{{events.KindPod, UpdatePodGatesEliminated}}
}

// Hint implements Plugin.
func (schedulingGates) Hint(pod *state.Pod, c Change) bool { return c.isOf(pod) }

// nodeUnschedulable rejects cordoned nodes for pods that do not tolerate that. Source: plugins/nodeunschedulable.
// It rejects closed nodes (see state.Reduce) for every pod, even in a profile that does not have the plugin.
type nodeUnschedulable struct{ closedOnly bool }

// unschedulableFilter rejects closed nodes, and, unless tolerated, cordoned ones.
type unschedulableFilter struct{ tolerated bool }

// Name implements Plugin.
func (nodeUnschedulable) Name() string { return NodeUnschedulable }

// Compile implements Plugin.
func (p nodeUnschedulable) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	return Compiled{Filter: unschedulableFilter{tolerated: p.closedOnly || toleratesUnschedulable(pod)}}, nil
}

// Check implements Filter.
func (f unschedulableFilter) Check(n *state.NodeInfo) Code {
	if n.Node.Object.Spec.Unschedulable && (!f.tolerated || n.Node.Closed()) {
		return UnschedulableAndUnresolvable
	}
	return Success
}

// Explain implements Filter.
func (unschedulableFilter) Explain(n *state.NodeInfo) []string {
	if n.Node.Closed() {
		return []string{"node(s) were too large for the log"}
	}
	return []string{"node(s) were unschedulable"}
}

// Events implements Plugin.
func (nodeUnschedulable) Events() []Event {
	return []Event{{events.KindNode, Add | UpdateNodeTaint}, {events.KindPod, UpdatePodToleration}}
}

// Hint implements Plugin.
func (nodeUnschedulable) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindPod {
		return c.isOf(pod) && toleratesUnschedulable(c.NewPod)
	}
	if c.OldNode != nil && c.OldNode.Closed() {
		return !c.NewNode.Closed()
	}
	was := c.OldNode == nil || c.OldNode.Object.Spec.Unschedulable
	return was && !c.NewNode.Object.Spec.Unschedulable
}

func toleratesUnschedulable(pod *state.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return tolerates(pod.Template.Spec.Tolerations, &taint)
}

// tolerates calls upstream's own function, without the comparison operators (alpha, disabled). The logger that it
// requires is empty: decisions do not log.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return schedulingcorev1.TolerationsTolerateTaint(klog.Logger{}, tolerations, taint, false)
}

// nodeName enforces spec.nodeName, which a pod that is still to be placed rarely has. Source: plugins/nodename.
type nodeName struct{}

type nodeNameFilter struct {
	reason
	name string
}

// Name implements Plugin.
func (nodeName) Name() string { return NodeName }

// Compile implements Plugin.
func (nodeName) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	if pod.NodeName == "" {
		return Compiled{}, nil
	}
	return Compiled{Filter: nodeNameFilter{"node(s) didn't match the requested node name", pod.NodeName}}, nil
}

// Check implements Filter.
func (f nodeNameFilter) Check(n *state.NodeInfo) Code {
	if n.Node.Name != f.name {
		return UnschedulableAndUnresolvable
	}
	return Success
}

// Events implements Plugin.
func (nodeName) Events() []Event { return []Event{{events.KindNode, Add}} }

// Hint implements Plugin.
func (nodeName) Hint(*state.Pod, Change) bool { return true }

// nodePorts keeps pods with host ports apart. Source: plugins/nodeports.
type nodePorts struct{}

type portsFilter struct {
	reason
	want []state.HostPort
}

// Name implements Plugin.
func (nodePorts) Name() string { return NodePorts }

// Compile implements Plugin.
func (nodePorts) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	if len(pod.Ports) == 0 {
		return Compiled{}, nil
	}
	return Compiled{Filter: portsFilter{"node(s) didn't have free ports for the requested pod ports", pod.Ports}}, nil
}

// Check implements Filter.
func (f portsFilter) Check(n *state.NodeInfo) Code {
	if n.PortConflict(f.want) {
		return Unschedulable
	}
	return Success
}

// Events implements Plugin.
func (nodePorts) Events() []Event {
	return []Event{{events.KindPod, Delete}, {events.KindNode, Add}}
}

// Hint implements Plugin.
func (nodePorts) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindNode {
		return true
	}
	if !heldPlace(c.OldPod) {
		return false
	}
	for _, want := range pod.Ports {
		for _, freed := range c.OldPod.Ports {
			if want.Conflicts(freed) {
				return true
			}
		}
	}
	return false
}

func (nodeUnschedulable) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

func (nodeName) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

func (nodePorts) interest(pod *state.Pod) Interest {
	list := make([]string, len(pod.Ports))
	for i, p := range pod.Ports {
		list[i] = joined(p.IP, p.Protocol, strconv.Itoa(int(p.Port)))
	}
	return Interest{Class: joined(list...), Pods: everything, Nodes: everything}
}

// onlyTraits reports whether the filter reads only traits of a node.
func (unschedulableFilter) onlyTraits() bool { return true }

// onlyTraits reports whether the filter reads only traits of a node.
func (nodeNameFilter) onlyTraits() bool { return false }
