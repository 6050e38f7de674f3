package perf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

func TestReportComparesMedians(t *testing.T) {
	r := report{Head: bench.Head{Berth: "berth x"}, Scale: 0.5, Results: []result{
		{Workload: "A/1", Contender: "kube-scheduler", Pods: 10, WallSeconds: 1, PodsPerSecond: 10},
		{Workload: "A/1", Contender: "berth", Pods: 10, WallSeconds: 0.25, PodsPerSecond: 40},
		{Workload: "A/1", Contender: "kube-scheduler", Pods: 10, WallSeconds: 0.5, PodsPerSecond: 20},
		{Workload: "A/1", Contender: "kube-scheduler", Pods: 10, WallSeconds: 0.1, PodsPerSecond: 100},
		{Workload: "B/1", Contender: "berth", Pods: 3, WallSeconds: 1, PodsPerSecond: 3},
	}}
	text := r.markdown()
	for _, line := range []string{
		"| A/1 | kube-scheduler | 3 | 10 | 0.5 | 20 | 1.00 | 0 | 0 | 0.0 |\n",
		"| A/1 | berth | 1 | 10 | 0.2 | 40 | 2.00 | 0 | 0 | 0.0 |\n",
		"| B/1 | berth | 1 | 3 | 1.0 | 3 | – | 0 | 0 | 0.0 |\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestTemplateCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	const text = "metadata: {name: 'pod-{{AddInt .Index 1}}-of-{{.Count}}'}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := readTemplate(file, map[string]any{"Index": 1, "Count": 4}, &pod); err != nil || pod.Name != "pod-2-of-4" {
		t.Errorf("%q, %v: want pod-2-of-4", pod.Name, err)
	}
	if err := readTemplate(file, map[string]any{"Index": 1}, &pod); err == nil {
		t.Error("a value that is missing is accepted")
	}
}

func TestNodesGetTheirLabels(t *testing.T) {
	op := &perfconfig.Op{Nodes: perfconfig.Nodes{
		LabelNodePrepareStrategy: &perfconfig.NodeLabel{LabelKey: "zone", LabelValues: []string{"a", "b"}},
		UniqueNodeLabelStrategy:  &perfconfig.NodeLabel{LabelKey: "own"},
	}}
	node := defaultNode()
	labelNode(node, op, 3)
	if node.Labels["zone"] != "b" || node.Labels["own"] != "unique-3" {
		t.Errorf("labels are %v", node.Labels)
	}
}

func TestParamsAreNumbers(t *testing.T) {
	o := &options{}
	err := bench.Parse(o, "--param", "measurePods=500", "--param", "initPods=20")
	if err != nil || o.params["measurePods"] != 500.0 || o.params["initPods"] != 20.0 {
		t.Errorf("%v, %v", o.params, err)
	}
	for _, bad := range []string{"measurePods", "=3", "measurePods=few", "measurePods=0"} {
		if err := bench.Parse(&options{}, "--param", bad); err == nil {
			t.Errorf("--param %s is accepted", bad)
		}
	}
}

func TestOutcomeIsTheLeastRatio(t *testing.T) {
	r := report{Results: []result{
		{Workload: "a", Contender: "kube-scheduler", Pods: 1, PodsPerSecond: 10},
		{Workload: "a", Contender: "berth", Pods: 1, PodsPerSecond: 50},
		{Workload: "b", Contender: "kube-scheduler", Pods: 1, PodsPerSecond: 10},
		{Workload: "b", Contender: "berth", Pods: 1, PodsPerSecond: 30},
	}}
	if got := r.outcome(1).Values["berth.ratio"]; got != 3 {
		t.Errorf("ratio %v, want that of b, 3", got)
	}
}
