package telemetry

import (
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestResources(t *testing.T) {
	priority := int32(7)
	spec := &corev1.PodSpec{
		SchedulerName: "default-scheduler", Priority: &priority,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				"cpu": resource.MustParse("1500m"), "hugepages-2Mi": resource.MustParse("2Mi"),
				"example.com/gpu": resource.MustParse("2"), "memory": resource.MustParse("0"),
			},
			Limits: corev1.ResourceList{"memory": resource.MustParse("1Ki")},
		}}},
	}
	pods := []PodResources{
		{Namespace: "shop", Name: "waits", Spec: spec, Ended: true}, // it has no node, so it counts
		{Namespace: "shop", Name: "ended", Node: "n1", Spec: spec, Ended: true},
	}
	answer := httptest.NewRecorder()
	ResourcesHandler(func() iter.Seq[PodResources] { return slices.Values(pods) }).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics/resources", nil))
	var got []string
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "# HELP") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	const labels = `{namespace="shop",node="",pod="waits",priority="7",resource="`
	want := []string{
		`# TYPE kube_pod_resource_limit gauge`,
		`kube_pod_resource_limit` + labels + `memory",scheduler="default-scheduler",unit="bytes"} 1024`,
		`# TYPE kube_pod_resource_request gauge`,
		`kube_pod_resource_request` + labels + `cpu",scheduler="default-scheduler",unit="cores"} 1.5`,
		`kube_pod_resource_request` + labels + `example.com/gpu",scheduler="default-scheduler",unit=""} 2`,
		`kube_pod_resource_request` + labels + `hugepages-2Mi",scheduler="default-scheduler",unit="bytes"} 2.097152e+06`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetLevel(t *testing.T) {
	t.Cleanup(func() { _ = SetLevel("info") })
	for text, want := range map[string]string{
		"debug": "debug", "warn\n": "warn", "0": "info", "3": "info", "4": "debug", "10": "debug", "error": "error",
	} {
		if err := SetLevel(text); err != nil || Level() != want {
			t.Errorf("SetLevel(%q): %v, level %s, want %s", text, err, Level(), want)
		}
	}
	for _, text := range []string{"", "-1", "loud", "4.5"} {
		if err := SetLevel(text); err == nil || !strings.Contains(err.Error(), "want debug, info, warn or error") {
			t.Errorf("SetLevel(%q): %v", text, err)
		}
	}
}

// TestTracesPod checks that TracesPod, which callers ask before they prepare spans for a pod, agrees with whether
// the spans are recorded.
func TestTracesPod(t *testing.T) {
	if TracesPod("0f5d0f6e-5b5c-4a0e-9c0e-3b1a52bcbf10") {
		t.Error("a pod is traced though nothing is")
	}
	for _, name := range []string{"traceidratio", "parentbased_traceidratio"} {
		tracer, exporter := record(t, envSampler, name, envSamplerArg, "0.3")
		traced := 0
		for i := range 1000 {
			pod := fmt.Sprintf("0f5d0f6e-5b5c-4a0e-9c0e-%012x", i)
			exporter.Reset()
			_, span := StartPodSpan(t.Context(), tracer, PodSpan{UID: pod, Name: "attempt"})
			span.End()
			if got, want := TracesPod(pod), len(exporter.GetSpans()) == 1; got != want {
				t.Fatalf("%s: TracesPod(%s) is %t, its span was recorded: %t", name, pod, got, want)
			}
			if TracesPod(pod) {
				traced++
			}
		}
		if traced < 250 || traced > 350 {
			t.Errorf("%s: %d of 1000 pods are traced, want about 300", name, traced)
		}
	}
}
