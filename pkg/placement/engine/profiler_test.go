package engine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// lapRecorder records the laps it receives.
type lapRecorder struct {
	begun  []string
	points []string
	rules  map[string]int
}

func (l *lapRecorder) Begin(profile string) { l.begun = append(l.begun, profile) }

func (l *lapRecorder) Lap(point, plugin string, code rule.Code) {
	if plugin == "" {
		l.points = append(l.points, point+" "+code.String())
		return
	}
	l.rules[point+" "+plugin]++
}

// Each extension point ends once, in order; single rules are reported only if requested; and calls are counted
// where rules are called, which happens again only for nodes that have changed.
func TestEngineReportsItsTimes(t *testing.T) {
	e, profile := engine.New(engine.Config{}), defaultProfile(t)
	var nodes []*state.NodeInfo
	for i := range 3 {
		n := state.NewNodeInfo(state.NewNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("node-", i)), ResourceVersion: "1",
			},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110"),
			}},
		}))
		nodes = append(nodes, n)
		e.SetNode(n)
	}
	pod := func(name, cpu string) *state.Pod {
		return state.NewPod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "2"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
			}}}},
		})
	}
	ask := func(p *state.Pod, rules bool) *lapRecorder {
		t.Helper()
		l := &lapRecorder{rules: map[string]int{}}
		if r := e.Evaluate(profile, engine.Query{Pod: p, Timer: l, TimeRules: rules}); r.Err != nil {
			t.Fatal(r.Err)
		}
		return l
	}
	calls := func() map[string]uint64 {
		all := map[string]uint64{}
		e.VisitRuleCalls(func(a engine.RuleCalls, n uint64) {
			if a.Plugin == "NodeResourcesFit" {
				all[a.Point] += n
			}
		})
		return all
	}
	fits := pod("fits", "1")
	l := ask(fits, true)
	if diff := cmp.Diff([]string{"PreFilter Success", "Filter Success", "Score Success"}, l.points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if l.rules["Filter NodeResourcesFit"] != 3 || l.rules["PreFilter NodeResourcesFit"] != 1 || len(l.begun) != 1 {
		t.Errorf("rules %v, begun %v", l.rules, l.begun)
	}
	if diff := cmp.Diff(map[string]uint64{"PreFilter": 1, "Filter": 3, "PreScore": 1, "Score": 3}, calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if l = ask(fits, false); len(l.rules) != 0 || len(calls()) != 0 {
		t.Errorf("nothing has changed, and rules were asked: %v", l.rules)
	}
	bound := pod("bound", "1")
	nodes[1].AddPod(bound)
	e.ChangePod(nodes[1], nil, bound)
	ask(fits, false)
	if diff := cmp.Diff(map[string]uint64{"Filter": 1, "Score": 1}, calls()); diff != "" {
		t.Errorf("calls after one node has changed (-want +got):\n%s", diff)
	}
	if l = ask(pod("large", "5"), true); !cmp.Equal(l.points, []string{"PreFilter Success", "Filter Unschedulable"}) {
		t.Errorf("points of a pod that fits nowhere: %v", l.points)
	}
}
