package neighbours

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// second is a moment of a script; 0 means never.
func second(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

func onNode(name, group, node string, from, to int) traced {
	return traced{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": group}},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"),
				}},
			}}},
		},
		free: second(1), bound: second(from), ended: second(to),
	}
}

func TestPlacementViolations(t *testing.T) {
	domain := map[string]string{"a1": "a", "a2": "a", "b1": "b"}
	both := func(a, b traced) []traced { return []traced{a, b} }
	for name, test := range map[string]struct {
		pods  []traced
		alone bool
		want  string
	}{
		"one domain":             {both(onNode("p", "g", "a1", 2, 0), onNode("q", "g", "a2", 2, 0)), true, ""},
		"two domains":            {both(onNode("p", "g", "a1", 2, 0), onNode("q", "g", "b1", 2, 0)), false, "in a and in b"},
		"one after the other":    {both(onNode("p", "g", "a1", 2, 3), onNode("q", "g", "b1", 3, 4)), false, ""},
		"two groups":             {both(onNode("p", "g", "a1", 2, 5), onNode("q", "h", "a2", 4, 6)), true, "g and h are in"},
		"two groups, allowed":    {both(onNode("p", "g", "a1", 2, 5), onNode("q", "h", "a2", 4, 6)), false, ""},
		"two groups in sequence": {both(onNode("p", "g", "a1", 2, 4), onNode("q", "h", "a2", 4, 6)), true, ""},
		"no group":               {both(onNode("p", "", "a1", 2, 5), onNode("q", "h", "a2", 4, 6)), true, ""},
		"not bound":              {both(onNode("p", "g", "", 0, 5), onNode("q", "h", "a2", 4, 6)), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := placement{domain: domain, group: func(p *corev1.Pod) string { return p.Labels["group"] }, alone: test.alone}
			got := strings.Join(p.violations(test.pods), "; ")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCrowded(t *testing.T) {
	two := []traced{onNode("p", "g", "a1", 2, 4), onNode("q", "g", "a1", 3, 0)}
	if got := crowded(two, 4000); len(got) != 0 {
		t.Errorf("4 CPUs of 4: %v", got)
	}
	if got := crowded(two, 3000); len(got) != 1 {
		t.Errorf("4 CPUs of 3: %v, want one node", got)
	}
	sequence := []traced{onNode("p", "g", "a1", 2, 4), onNode("q", "g", "a1", 4, 0)}
	if got := crowded(sequence, 2000); len(got) != 0 {
		t.Errorf("one after the other: %v", got)
	}
}

func TestWaits(t *testing.T) {
	pods := []traced{onNode("p", "g", "a1", 2, 4), onNode("q", "g", "", 0, 0), onNode("r", "g", "a1", 5, 0)}
	got := waits(pods, second(11))
	if len(got) != 3 || got[0] != 10 || got[1] != 4 || got[2] != 1 {
		t.Errorf("got %v, want 10, 4, 1", got)
	}
}
