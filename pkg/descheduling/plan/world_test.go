package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// noOwnerLimits disables the limits on owners, as upstream has none.
const noOwnerLimits = "{cooldown: 0s, maxPerOwner: 100%, pauseDuringRollout: false, waitForReady: false}"

// policyOf returns a policy with one profile; strategies are "point/Name: {args}".
func policyOf(t statetest.Fataler, top, evictor string, strategies ...string) *policy.Policy {
	t.Helper()
	var configs []string
	enabled := map[string][]string{}
	for _, s := range strategies {
		point, rest, _ := strings.Cut(s, "/")
		name, args, _ := strings.Cut(rest, ": ")
		configs = append(configs, fmt.Sprintf("{name: %s, args: %s}", name, args))
		enabled[point] = append(enabled[point], name)
	}
	text := fmt.Sprintf(`{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, %s profiles: [{name: p,
pluginConfig: [{name: DefaultEvictor, args: {%s}}, %s],
plugins: {deschedule: {enabled: [%s]}, balance: {enabled: [%s]}}}]}`, top, evictor, strings.Join(configs, ", "),
		strings.Join(enabled["deschedule"], ", "), strings.Join(enabled["balance"], ", "))
	p, err := policy.ParseStrict("test", []byte(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func input(t statetest.Fataler, p *policy.Policy, objects ...state.APIObject) Input {
	t.Helper()
	profile, err := placement.NewProfile(placement.DefaultProfile("default-scheduler"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Input{
		Cluster: statetest.Snapshot(t, objects...), Policy: p, History: NewHistory(), Now: now,
		Placement: func(string) *placement.Profile { return profile },
	}
}

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := statetest.Node(name, "cpu", "10", "memory", "10Gi", "pods", "20")
	for _, c := range change {
		c(n)
	}
	return n
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "old", Effect: effect}} }
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func sized(cpu string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable = statetest.Node("x", "cpu", cpu, "memory", "10Gi", "pods", "20").Status.Allocatable
	}
}

// pod returns a pod that runs on a node and is ready; its owner is the ReplicaSet app of its namespace.
func pod(name, on, app string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := statetest.Pod("default", name, "cpu", "1", "memory", "1Gi")
	p.UID = types.UID("uid-" + name)
	p.Spec.NodeName = on
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, UID: types.UID("uid-" + app),
		Controller: new(true)}}
	p.Labels = map[string]string{"app": app}
	p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Hour)}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(p)
	}
	return p
}

// summary prints a plan, one item a line, in order.
func summary(p Plan) string {
	var b strings.Builder
	for _, m := range p.Moves {
		to := "anywhere"
		if m.To != nil {
			to = m.To.Name
		}
		fmt.Fprintf(&b, "%s from %s to %s\n", m.Pod.Name, m.Pod.NodeName, to)
	}
	byReason := map[descheduling.Refusal]int{}
	for r, n := range p.Refused {
		byReason[r.Reason] += n
	}
	for r, n := range byReason {
		fmt.Fprintf(&b, "kept %d: %s\n", n, r)
	}
	for _, f := range p.Failed {
		fmt.Fprintf(&b, "%s failed: %v\n", f.Strategy, f.Err)
	}
	return b.String()
}

func expect(t statetest.Fataler, in Input, want string) {
	t.Helper()
	if got := summary(Make(in)); got != want {
		t.Fatalf("got:\n%swant:\n%s", got, want)
	}
}
