package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// unsupported represents a rule of upstream's that this version does not evaluate. It does not apply to a pod
// without a hard constraint of that kind. A pod with one is rejected on every node, with a reason that names the
// rule. Placing such a pod as if the rule did not exist would be a silent error; rejecting it is a visible one.
type unsupported struct {
	name  string
	needs func(obj *corev1.Pod) bool
}

// unsupportedNames lists the names that newUnsupported accepts.
func unsupportedNames() []string {
	return []string{names.GangScheduling}
}

// newUnsupported accepts any arguments: they belong to rules that are not evaluated.
func newUnsupported(name string) factory {
	return func(runtime.Object) (rule.Plugin, error) {
		return unsupported{name: name, needs: needsGang}, nil
	}
}

// Name implements Plugin.
func (p unsupported) Name() string { return p.name }

// Compile implements Plugin.
func (p unsupported) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	if p.needs(pod.Template) {
		return rule.Compiled{Filter: refuse(p.name)}, nil
	}
	return rule.Compiled{}, nil
}

// Events implements Plugin: the pod's own constraints cannot change.
func (unsupported) Events() []rule.Event { return nil }

// Hint implements Plugin.
func (unsupported) Hint(*state.Pod, rule.Change) bool { return false }

// refuse returns a filter that rejects every node and names the rule.
func refuse(plugin string) rule.Filter {
	return rule.Refuse(fmt.Sprintf("node(s) cannot be checked: this version does not evaluate %s", plugin))
}

// needsGang reports whether a pod belongs to a pod group.
func needsGang(obj *corev1.Pod) bool { return obj.Spec.SchedulingGroup != nil }
