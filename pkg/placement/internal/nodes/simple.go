package nodes

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Idle is a plugin of the default profile that takes no part in placement: PrioritySort (see Less) orders the
// queue, DefaultBinder is the binder service, DefaultPreemption is package preempt. It exists so that a
// configuration may name and disable them.
type Idle struct{ Plugin string }

// Name implements Plugin.
func (p Idle) Name() string { return p.Plugin }

// Compile implements Plugin.
func (Idle) Compile(*state.Pod, rule.Objects) (rule.Compiled, error) { return rule.Compiled{}, nil }

// Events implements Plugin.
func (Idle) Events() []rule.Event { return nil }

// Hint implements Plugin.
func (Idle) Hint(*state.Pod, rule.Change) bool { return false }

// Gates rejects gated pods (KEP-3521). The queue does not offer them; if one is evaluated nevertheless, it is
// rejected. Source: plugins/schedulinggates.
type Gates struct{}

// Name implements Plugin.
func (Gates) Name() string { return names.SchedulingGates }

// Compile implements Plugin. Admit does everything.
func (Gates) Compile(*state.Pod, rule.Objects) (rule.Compiled, error) { return rule.Compiled{}, nil }

// Admit implements Admitter.
func (Gates) Admit(pod *state.Pod, _ rule.Objects) (rejection string) {
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
func (Gates) Events() []rule.Event {
	return []rule.Event{{Kind: events.KindPod, Actions: rule.UpdatePodGatesEliminated}}
}

// Hint implements Plugin.
func (Gates) Hint(pod *state.Pod, c rule.Change) bool { return c.IsOf(pod) }

// Unschedulable rejects cordoned nodes for pods that do not tolerate that. Source: plugins/nodeunschedulable.
// It rejects closed nodes (see reduce.Reduce) for every pod, even in a profile that does not have the plugin.
type Unschedulable struct{ ClosedOnly bool }

// unschedulableFilter rejects closed nodes, and, unless tolerated, cordoned ones.
type unschedulableFilter struct{ tolerated bool }

// Name implements Plugin.
func (Unschedulable) Name() string { return names.NodeUnschedulable }

// Compile implements Plugin.
func (p Unschedulable) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	return rule.Compiled{Filter: unschedulableFilter{tolerated: p.ClosedOnly || toleratesUnschedulable(pod)}}, nil
}

// Check implements Filter.
func (f unschedulableFilter) Check(n *state.NodeInfo) rule.Code {
	if n.Node.Object.Spec.Unschedulable && (!f.tolerated || n.Node.Closed()) {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Explain implements Filter.
func (unschedulableFilter) Explain(n *state.NodeInfo) []string {
	if n.Node.Closed() {
		return []string{"node(s) were too large for the log"}
	}
	return []string{"node(s) were unschedulable"}
}

// Events implements Plugin.
func (Unschedulable) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeTaint},
		{Kind: events.KindPod, Actions: rule.UpdatePodToleration},
	}
}

// Hint implements Plugin. A node helps if its cordon ends or it becomes known in full; the pod itself if it now
// tolerates cordons.
func (Unschedulable) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindPod {
		return c.IsOf(pod) && toleratesUnschedulable(c.NewPod)
	}
	if c.OldNode != nil && c.OldNode.Closed() {
		return !c.NewNode.Closed()
	}
	was := c.OldNode == nil || c.OldNode.Object.Spec.Unschedulable
	return was && !c.NewNode.Object.Spec.Unschedulable
}

// toleratesUnschedulable reports whether a pod tolerates the taint that stands for a cordon.
func toleratesUnschedulable(pod *state.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return tolerates(pod.Template.Spec.Tolerations, &taint)
}

// tolerates calls upstream's own function, with the comparison operators Gt and Lt (KEP-5471): an API server where
// they are off accepts no pod that has them. The logger that it requires is empty: decisions do not log.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return schedulingcorev1.TolerationsTolerateTaint(klog.Logger{}, tolerations, taint, true)
}

// Name enforces spec.Name, which a pod that is still to be placed rarely has. Source: plugins/nodename.
type Name struct{}

// nodeNameFilter passes the one node that the pod names.
type nodeNameFilter struct {
	rule.Reason
	name string
}

// Name implements Plugin.
func (Name) Name() string { return names.NodeName }

// Compile implements Plugin.
func (Name) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	if pod.NodeName == "" {
		return rule.Compiled{}, nil
	}
	return rule.Compiled{Filter: nodeNameFilter{"node(s) didn't match the requested node name", pod.NodeName}}, nil
}

// Check implements Filter.
func (f nodeNameFilter) Check(n *state.NodeInfo) rule.Code {
	if n.Node.Name != f.name {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Events implements Plugin.
func (Name) Events() []rule.Event { return []rule.Event{{Kind: events.KindNode, Actions: rule.Add}} }

// Hint implements Plugin.
func (Name) Hint(*state.Pod, rule.Change) bool { return true }

// Ports keeps pods with host ports apart. Two ports conflict if number and protocol are equal and the addresses
// are equal or one of them is 0.0.0.0 (state.HostPort). Source: plugins/nodeports.
type Ports struct{}

// portsFilter is the rule for one pod. It has no OnlyTraits: its result depends on the pods on the node.
type portsFilter struct {
	rule.Reason
	want []state.HostPort
}

// Name implements Plugin.
func (Ports) Name() string { return names.NodePorts }

// Compile implements Plugin.
func (Ports) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	if len(pod.Ports) == 0 {
		return rule.Compiled{}, nil
	}
	return rule.Compiled{Filter: portsFilter{"node(s) didn't have free ports for the requested pod ports", pod.Ports}}, nil
}

// Check implements Filter.
func (f portsFilter) Check(n *state.NodeInfo) rule.Code {
	if n.PortConflict(f.want) {
		return rule.Unschedulable
	}
	return rule.Success
}

// Events implements Plugin.
func (Ports) Events() []rule.Event {
	return []rule.Event{{Kind: events.KindPod, Actions: rule.Delete}, {Kind: events.KindNode, Actions: rule.Add}}
}

// Hint implements Plugin. A deleted pod helps if it had one of the ports and was on a node.
func (Ports) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindNode {
		return true
	}
	if !rule.HeldPlace(c.OldPod) {
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

// Interest implements rule.Classifier.
func (Unschedulable) Interest(*state.Pod) rule.Interest { return rule.Interest{Nodes: rule.Everything} }

// Interest implements rule.Classifier.
func (Name) Interest(*state.Pod) rule.Interest { return rule.Interest{Nodes: rule.Everything} }

// Interest implements rule.Classifier.
func (Ports) Interest(pod *state.Pod) rule.Interest {
	list := make([]string, len(pod.Ports))
	for i, p := range pod.Ports {
		list[i] = rule.Joined(p.IP, p.Protocol, strconv.Itoa(int(p.Port)))
	}
	return rule.Interest{Class: rule.Joined(list...), Pods: rule.Everything, Nodes: rule.Everything}
}

// OnlyTraits reports whether the filter reads only traits of a node.
func (unschedulableFilter) OnlyTraits() bool { return true }

// OnlyTraits reports whether the filter reads only traits of a node.
func (nodeNameFilter) OnlyTraits() bool { return false }
