package priorities

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(class string, priority int32, node, cpu string) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{
		PriorityClassName: class, Priority: &priority, NodeName: node,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Ki"),
		}}}},
	}}
}

func TestSharesAreOfBoundPods(t *testing.T) {
	ended, gated := pod("high", 100, "n", "8"), pod("high", 100, "", "8")
	ended.Status.Phase = corev1.PodSucceeded
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	got := Of([]corev1.Pod{
		pod("low", 1, "n", "1"), pod("high", 100, "n", "3"), pod("high", 100, "", "7"), pod("", 0, "m", "0"), ended, gated,
	}, nil)
	want := []Band{
		{Priority: 100, Class: "high", Pods: 2, Waiting: 1, MilliCPU: 3000, MemoryBytes: 1024,
			PodShare: 0.5, CPUShare: 0.75, MemoryShare: 1.0 / 3},
		{Priority: 1, Class: "low", Pods: 1, MilliCPU: 1000, MemoryBytes: 1024,
			PodShare: 0.25, CPUShare: 0.25, MemoryShare: 1.0 / 3},
		{Pods: 1, MemoryBytes: 1024, PodShare: 0.25, MemoryShare: 1.0 / 3},
	}
	if diff := cmp.Diff(want, got.Bands); diff != "" {
		t.Errorf("bands (-want +got):\n%s", diff)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings %q, want none", got.Warnings)
	}
}

func TestWarnings(t *testing.T) {
	high := func(node string) corev1.Pod { return pod("high", 1000, node, "1") }
	system := pod("system-node-critical", 2_000_001_000, "n", "1")
	most := append(slices.Repeat([]corev1.Pod{high("n")}, 19), system)
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"nobody uses priorities": {[]corev1.Pod{pod("", 0, "n", "1"), pod("", 0, "n", "1")}, nil},
		"a low one on a node":    {[]corev1.Pod{pod("low", 1, "n", "1"), high("n"), high("")}, nil},
		"a low one that waits too": {[]corev1.Pod{pod("low", 1, "", "1"), high("n"), high("")}, []string{
			"the 1 pending pod(s) of priority 1000 (high)", "the 1 pending pod(s) of priority 1 (low)", "100 %"}},
		"all are important":              {[]corev1.Pod{high("n"), high("n"), system}, nil},
		"all but system pods":            {most, []string{"95 % of the requested CPU"}},
		"all wait for pods as important": {[]corev1.Pod{high("n"), high("")}, []string{"cannot help the 1", "100 %"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(test.pods, nil).Warnings
			if len(got) != len(test.want) {
				t.Fatalf("warnings %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.Contains(got[i], test.want[i]) {
					t.Errorf("warning %q, want one with %q", got[i], test.want[i])
				}
			}
		})
	}
}

func TestQuotasOfPriorityClasses(t *testing.T) {
	quota := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "high"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"pods": resource.MustParse("5"), "requests.cpu": resource.MustParse("8")},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"},
			}}},
		},
		Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{
			"pods": resource.MustParse("5"), "requests.cpu": resource.MustParse("2"),
		}},
	}
	other := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"pods": resource.MustParse("5")},
	}}
	got := Of(nil, []corev1.ResourceQuota{other, quota})
	want := []Quota{
		{"ns", "high", "PriorityClass In [high]", "pods", "5", "5", true},
		{"ns", "high", "PriorityClass In [high]", "requests.cpu", "2", "8", false},
	}
	if diff := cmp.Diff(want, got.Quotas); diff != "" {
		t.Errorf("quotas (-want +got):\n%s", diff)
	}
	const full = "quota ns/high (PriorityClass In [high]) is full: pods 5 of 5"
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], full) {
		t.Errorf("warnings %q", got.Warnings)
	}
}
