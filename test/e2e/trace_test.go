//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A pod is parked for want of room, woken, preempts another, is held a place, and bound: its path is one
// trace at a receiver that is not Berth's, whose id is the pod's UID. It and its victim lead to each
// other, and so do the victim and the pod that its controller makes for it.
func TestPathOfAPodIsATrace(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(strings.ReplaceAll(protocol, "/", "-"), func(t *testing.T) { followPath(t, protocol) })
	}
}

// tracingTo is the environment that has spans sent to a receiver, soon after they end.
func tracingTo(endpoint, protocol string) []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol,
		"OTEL_BSP_SCHEDULE_DELAY=200",
	}
}

func followPath(t *testing.T, protocol string) {
	s := newStack(t, "")
	collector, err := programs.Collect(t.Context(), s.dir)
	s.must(err)
	t.Cleanup(func() { collector.Kill() })
	endpoint := collector.HTTP
	if protocol == "grpc" {
		endpoint = collector.GRPC
	}
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	s.up(harness.UpConfig{Env: tracingTo(endpoint, protocol)})
	ns := s.namespace("trace")
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	s.fillers(ns, "3", "low")
	s.bound(ns, 1, placedWithin)
	victim := string(s.pods(ns)[0].UID)

	// More than the node has: parked, and no eviction would help.
	s.create(newPod(ns, "traveller", "5", ofPriority("high")))
	s.unschedulable(ns, "traveller", "1 Insufficient cpu.")
	_, err = s.client.CoreV1().Nodes().Patch(s.Context(), "node-0", types.MergePatchType,
		[]byte(`{"status":{"capacity":{"cpu":"6"},"allocatable":{"cpu":"6"}}}`), metav1.PatchOptions{}, "status")
	s.must(err)
	s.nodeOf(ns, "traveller")
	uid := string(s.pod(ns, "traveller").UID)

	var spans []harness.Span
	s.eventually(placedWithin, "the whole path is received", func(context.Context) (string, error) {
		var err error
		spans, err = collector.Spans()
		return lacks(pathOf(spans, uid)), err
	})
	checkTree(t, pathOf(spans, uid), uid)
	if !linked(pathOf(spans, uid), "attempt", victim) {
		t.Errorf("no attempt links to the victim %s", victim)
	}
	if !linked(pathOf(spans, victim), "evict", uid) {
		t.Errorf("the victim's evict does not link to %s", uid)
	}
	s.addNodes(nodeSpec{name: "node-1", capacity: "4"})
	s.succeeded(collector, ns, victim, uid)
}

// fillers are one pod of a deployment, and its replacements.
func (s *stack) fillers(ns, cpu, class string) {
	s.Helper()
	pod := template("filler", cpu)
	pod.Spec.PriorityClassName = class
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "filler"},
		Spec:       appsv1.DeploymentSpec{Selector: labelled("filler"), Template: pod},
	}, metav1.CreateOptions{})
	s.must(err)
}

// succeeded waits until the paths of a victim and of the pod that replaces it lead to each other. The namespace's
// other pod is its preemptor.
func (s *stack) succeeded(collector *harness.Collector, ns, victim, preemptor string) {
	s.Helper()
	replacement := ""
	for _, p := range s.bound(ns, 2, placedWithin) {
		if uid := string(p.UID); uid != preemptor {
			replacement = uid
		}
	}
	s.eventually(placedWithin, "victim and replacement lead to each other", func(context.Context) (string, error) {
		spans, err := collector.Spans()
		switch {
		case err != nil:
			return "", err
		case !linked(pathOf(spans, replacement), "seen", victim):
			return "the replacement does not link to the victim", nil
		case !linked(pathOf(spans, victim), "replaced", replacement):
			return "the victim does not link to its replacement", nil
		}
		return "", nil
	})
}

// A pod that is descheduled, with a place kept for its replacement, and the replacement: each one's
// path leads to the other's.
func TestReplacementIsLinked(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"})
	collector, err := programs.Collect(t.Context(), s.dir)
	s.must(err)
	t.Cleanup(func() { collector.Kill() })
	s.up(harness.UpConfig{
		Policy: s.file("policy.yaml", taintPolicy), Args: []string{"--descheduling-interval", "1s"},
		Env: tracingTo(collector.HTTP, "http/protobuf"),
	})
	ns := s.namespace("moved")
	s.gatedDeployment(ns, "web", "1")
	moved := string(s.pods(ns)[0].UID)
	s.addNodes(nodeSpec{name: "node-1"})
	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.replaced(ns)
	s.ungate(ns)
	s.bound(ns, 1, placedWithin)
	replacement := string(s.pods(ns)[0].UID)
	s.eventually(placedWithin, "the paths lead to each other", func(context.Context) (string, error) {
		spans, err := collector.Spans()
		switch {
		case err != nil:
			return "", err
		case !linked(pathOf(spans, replacement), "attempt", moved):
			return "no attempt links to the pod that was moved", nil
		case !linked(pathOf(spans, moved), "replaced", replacement):
			return "the pod that was moved does not link to its replacement", nil
		}
		return "", nil
	})
}

func pathOf(spans []harness.Span, uid string) []harness.Span {
	id := telemetry.TraceID(uid).String()
	return slices.DeleteFunc(slices.Clone(spans), func(s harness.Span) bool { return s.TraceID != id })
}

// lacks returns the parts of the path that have not been received.
func lacks(path []harness.Span) string {
	var names []string
	for _, s := range path {
		names = append(names, s.Name)
	}
	for _, want := range []string{
		"pod", "seen", "queued", "parked", "attempt", "filter", "reserve", "hold", "bind", "HTTP POST",
	} {
		if !slices.Contains(names, want) {
			return fmt.Sprintf("no span %s among %v", want, names)
		}
	}
	return ""
}

// checkTree: one root, whose id follows from the UID, and everything hangs on it.
func checkTree(t *testing.T, path []harness.Span, uid string) {
	t.Helper()
	root := telemetry.RootSpanID(uid).String()
	byID, below := map[string]harness.Span{}, map[string]string{
		"seen": "pod", "queued": "pod", "parked": "pod", "attempt": "pod", "hold": "pod", "bind": "pod",
		"filter": "attempt", "score": "attempt", "reserve": "attempt", "HTTP POST": "bind",
	}
	for _, s := range path {
		byID[s.SpanID] = s
	}
	for _, s := range path {
		parent := byID[s.ParentSpanID]
		switch want, known := below[s.Name]; {
		case s.Name == "pod" && (s.SpanID != root || s.ParentSpanID != ""):
			t.Errorf("the root is %s below %q, want %s", s.SpanID, s.ParentSpanID, root)
		case known && parent.Name != want:
			t.Errorf("%s is below %q, want %s", s.Name, parent.Name, want)
		}
		if s.Service != "berth" {
			t.Errorf("%s is of service %q, want berth", s.Name, s.Service)
		}
		if s.Name == "queued" && s.Attribute("berth.cause") == "" {
			t.Errorf("queued has no cause: %+v", s.Attributes)
		}
	}
}

// linked reports whether a span of a name links to the root of another pod's path.
func linked(path []harness.Span, name, uid string) bool {
	id := telemetry.TraceID(uid).String()
	for _, s := range path {
		for _, link := range s.Links {
			if s.Name == name && link.TraceID == id && link.SpanID == telemetry.RootSpanID(uid).String() {
				return true
			}
		}
	}
	return false
}
