package plugins_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// listener is a plugin that registers what a test says.
type listener struct {
	probe
	registers []framework.ClusterEventWithHint
	err       error
}

func (l *listener) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return l.registers, l.err
}

func hintsOf(t *testing.T, p framework.Plugin) (placement.Hints, error) {
	t.Helper()
	cfg := plugins.Config{
		Profiles:  profileWith(placement.AtFilter),
		Factories: factory(func(framework.Handle) framework.Plugin { return p }),
	}
	runtime, err := plugins.New(t.Context(), cfg, plugins.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	hints, err := runtime.Hints(t.Context())
	return hints["s"], err
}

func event(r framework.EventResource, a framework.ActionType) framework.ClusterEvent {
	return framework.ClusterEvent{Resource: r, ActionType: a}
}

func TestWhatPluginsRegister(t *testing.T) {
	one := func(e framework.ClusterEvent) framework.Plugin {
		return &listener{registers: []framework.ClusterEventWithHint{{Event: e}}}
	}
	for _, test := range []struct {
		name       string
		plugin     framework.Plugin
		registered bool
		want       []rule.Event
	}{
		{"nothing is registered by it", &probe{}, false, nil},
		{"it registers no event", &listener{}, true, nil},
		{"labels of nodes", one(event(framework.Node, framework.Add|framework.UpdateNodeLabel)), true,
			[]rule.Event{{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel}}},
		{"any update of a claim", one(event(framework.PersistentVolumeClaim, framework.Update)), true,
			[]rule.Event{{Kind: events.KindVolumeClaim, Actions: rule.Update &^
				(rule.UpdateNamespaceLabel | rule.UpdateBudget)}}},
		{"everything", one(event(framework.WildCard, framework.All)), false, nil},
		{"somebody's own resource", one(event("foos.v1.example.com", framework.Add)), false, nil},
	} {
		hints, err := hintsOf(t, test.plugin)
		if err != nil {
			t.Fatal(err)
		}
		got, registered := hints.Events("Probe")
		if registered != test.registered || len(got) != len(test.want) || len(got) > 0 && got[0] != test.want[0] {
			t.Errorf("%s: %v, told %t; want %v, %t", test.name, got, registered, test.want, test.registered)
		}
	}
}

func TestHintsAreAskedWithTheObjects(t *testing.T) {
	var asked []any
	hint := func(says framework.QueueingHint, err error) framework.Plugin {
		return &listener{registers: []framework.ClusterEventWithHint{
			{Event: event(framework.Pod, framework.Delete)}, // nil hint: it always helps
			{Event: event(framework.Node, framework.Add),
				QueueingHintFn: func(_ klog.Logger, p *corev1.Pod, before, after any) (framework.QueueingHint, error) {
					asked = []any{p.Name, before, after}
					if says > framework.Queue {
						panic("out of range")
					}
					return says, err
				}},
		}}
	}
	pod := state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}})
	node := state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}})
	added := rule.NodeChange(state.NodeChange{After: node})
	for _, test := range []struct {
		name   string
		plugin framework.Plugin
		change rule.Change
		want   bool
	}{
		{"it says yes", hint(framework.Queue, nil), added, true},
		{"it says no", hint(framework.QueueSkip, nil), added, false},
		{"it fails", hint(framework.QueueSkip, errors.New("no")), added, true},
		{"it panics", hint(framework.Queue+1, nil), added, true},
		{"there is no hint", hint(framework.QueueSkip, nil),
			rule.PodChange(state.PodChange{Before: pod}), true},
		{"it has not registered for that", hint(framework.Queue, nil),
			rule.NodeChange(state.NodeChange{Before: node}), false},
	} {
		hints, err := hintsOf(t, test.plugin)
		if err != nil {
			t.Fatal(err)
		}
		asked = nil
		if got := hints.Helps("Probe", pod, test.change); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
		if asked != nil && (asked[0] != "p" || asked[1] != nil || asked[2] != any(node.Object)) {
			t.Errorf("%s: asked with %v, want the pod, nothing and the node", test.name, asked)
		}
	}
}

func TestEventsThatCannotBeRegistered(t *testing.T) {
	_, err := hintsOf(t, &listener{err: errors.New("no events today")})
	if err == nil || !strings.Contains(err.Error(), "profile s: plugin Probe: EventsToRegister: no events today") {
		t.Errorf("%v, want an error that names profile and plugin", err)
	}
}
