package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseNamesTheFieldThatIsWrong(t *testing.T) {
	const resources = "  capacity: {cpu: 8, memory: 32Gi, pods: 110}\n"
	for name, test := range map[string]struct{ content, want string }{
		"no groups":      {"groups: []\n", "groups: Required"},
		"unknown field":  {"groups:\n- namePrefx: a\n", `unknown field "namePrefx"`},
		"repeated field": {"groups:\n- count: 1\n  count: 2\n", `key "count" already set`},
		"no name":        {"groups:\n- count: 1\n" + resources, "groups[0].namePrefix: Required"},
		"two names":      {"groups:\n- name: a\n  namePrefix: b\n  count: 1\n" + resources, "groups[0].name: Invalid"},
		"one name, many": {"groups:\n- name: a\n  count: 2\n" + resources, "groups[0].name: Invalid"},
		"no count":       {"groups:\n- namePrefix: a\n" + resources, "groups[0].count: Invalid value: 0"},
		"absurd count":   {"groups:\n- namePrefix: a\n  count: 100000\n" + resources, "want 1 to 10000"},
		"bad name":       {"groups:\n- namePrefix: A_\n  count: 1\n" + resources, "groups[0].namePrefix: Invalid"},
		"same name":      {"groups:\n- name: a\n" + resources + "- name: a\n" + resources, "groups[1]: Duplicate"},
		"no memory": {
			"groups:\n- name: a\n  capacity: {cpu: 8, pods: 110}\n", "groups[0].capacity[memory]: Required",
		},
		"bad quantity": {
			"groups:\n- name: a\n  capacity: {cpu: 8x, memory: 1Gi, pods: 1}\n", `groups[0].capacity[cpu]: Invalid value: "8x"`,
		},
		"negative quantity": {
			"groups:\n- name: a\n  capacity: {cpu: -8, memory: 1Gi, pods: 1}\n", "groups[0].capacity[cpu]: Invalid",
		},
		"more than there is": {
			"groups:\n- name: a\n" + resources + "  allocatable: {cpu: 9}\n", "groups[0].allocatable[cpu]: Invalid",
		},
		"allocatable of nothing": {
			"groups:\n- name: a\n" + resources + "  allocatable: {example.com/gpu: 1}\n",
			"groups[0].allocatable[example.com/gpu]: Invalid",
		},
		"taint effect": {
			"groups:\n- name: a\n" + resources + "  taints: [{key: k, effect: Never}]\n",
			"groups[0].taints[0].effect: Unsupported",
		},
		"zone":  {"groups:\n- name: a\n" + resources + "  zones: [a, 'b c']\n", "groups[0].zones[1]: Invalid"},
		"label": {"groups:\n- name: a\n" + resources + "  labels: {'a b': c}\n", "groups[0].labels: Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*nodes.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example node files: %v", err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
	if _, err := Load("none.yaml"); !os.IsNotExist(err) {
		t.Errorf("the error for a missing file is %v", err)
	}
}

func TestObjects(t *testing.T) {
	description, err := Parse([]byte(`
groups:
- namePrefix: gpu-
  first: 98
  count: 4
  region: north
  zones: [a, b]
  capacity: {cpu: 32, memory: 256Gi, pods: 110, example.com/gpu: 8}
  allocatable: {cpu: 31500m}
  labels: {disktype: ssd}
  taints: [{key: accelerator, value: gpu, effect: NoSchedule}]
- name: plain
  capacity: {cpu: 1, memory: 1Gi, pods: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	all := description.Objects(true, metav1.Now())
	if len(all) != 5 {
		t.Fatalf("there are %d nodes, want 5", len(all))
	}
	var zones []string
	for _, node := range all {
		zones = append(zones, node.Labels[corev1.LabelTopologyZone])
		if !schedulable(node) {
			t.Errorf("%s is not schedulable", node.Name)
		}
	}
	if got := strings.Join(zones, " "); got != "a b a b " {
		t.Errorf("the zones are %q, want a and b in turn and none for the last", got)
	}
	last := all[3]
	if last.Name != "gpu-0101" || last.Labels[corev1.LabelHostname] != "gpu-0101" || last.Labels["disktype"] != "ssd" {
		t.Errorf("the fourth node is %s with labels %v", last.Name, last.Labels)
	}
	cpu, gpu := last.Status.Allocatable.Cpu(), last.Status.Allocatable["example.com/gpu"]
	if cpu.String() != "31500m" || gpu.String() != "8" || last.Status.Capacity.Cpu().String() != "32" {
		t.Errorf("allocatable is %v of %v", last.Status.Allocatable, last.Status.Capacity)
	}
	if bare := description.Objects(false, metav1.Now())[0]; schedulable(bare) {
		t.Error("a node that KWOK is to make ready is ready already")
	}
}
