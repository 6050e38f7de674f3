package perfconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const file = `
- name: Spread
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $initNodes
    labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}
  - opcode: churn
    mode: create
    templatePaths: [t/pod.yaml]
  - opcode: createPods
    countParam: $pods
    collectMetrics: true
  - opcode: barrier
  workloads:
  - name: small
    featureGates: {Some: true}
    params: {initNodes: 5, pods: 3}
  - name: without
    params: {initNodes: 5}
- name: Devices
  workloadTemplate:
  - opcode: allocResourceClaims
    driverName: x
  - opcode: barrier
    unheardOf: 1
  workloads:
  - name: small
`

// load writes the file where upstream's would be, and reads it.
func load(t *testing.T, text string) (string, []Case) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "misc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "misc", "performance-config.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, cases
}

func TestResolve(t *testing.T) {
	dir, cases := load(t, file)
	c, w, err := Find(cases, "Spread/small")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Resolve(w, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	pod := filepath.Join(dir, "templates", "pod.yaml")
	zones := Nodes{LabelNodePrepareStrategy: &NodeLabel{LabelKey: "zone", LabelValues: []string{"a", "b"}}}
	churned := []string{filepath.Join(dir, "misc", "t", "pod.yaml")}
	usual := Objects{Interval: 500 * time.Millisecond}
	want := []Op{
		{Opcode: CreateNodes, CountParam: "$initNodes", Count: 3, Nodes: zones, Objects: usual},
		{Opcode: Churn, Namespace: "namespace-1",
			Objects: Objects{Mode: ChurnCreate, Interval: usual.Interval, TemplatePaths: churned}},
		{Opcode: CreatePods, CountParam: "$pods", Count: 2, Namespace: "namespace-2",
			Pods: Pods{CollectMetrics: true, PodTemplatePath: pod}, Objects: usual},
		{Opcode: Barrier, Waits: Waits{StageRequirement: Scheduled}, Objects: usual},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Op{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	again, err := c.Resolve(w, 1)
	if err != nil || again[0].Count != 5 || again[2].Count != 3 {
		t.Errorf("the second time: %v, %d nodes, %d pods: want 5 and 3", err, again[0].Count, again[2].Count)
	}
}

func TestWhatCannotBeRunIsNamed(t *testing.T) {
	_, cases := load(t, file)
	for name, want := range map[string]string{
		"Nothing/small":  `case "Nothing": want one of Spread, Devices`,
		"Spread/large":   `workload "large" of case Spread: want one of small, without`,
		"Spread/without": `operation 2, createPods: countParam $pods: the workload gives <nil>, want a number`,
		"Devices/small":  `operation 0, allocResourceClaims: unknown opcode: want one of createNodes, `,
	} {
		c, w, err := Find(cases, name)
		if err == nil {
			_, err = c.Resolve(w, 1)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want %q", name, err, want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory without files is accepted")
	}
}

func TestUnknownFieldIsNamed(t *testing.T) {
	_, cases := load(t, strings.ReplaceAll(file, "  - opcode: allocResourceClaims\n    driverName: x\n", ""))
	c, w, err := Find(cases, "Devices/small")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(w, 1); err == nil || !strings.Contains(err.Error(), `"unheardOf"`) {
		t.Errorf("%v: want the field's name", err)
	}
}

// TestDriver: upstream's operation that gives nodes devices takes its count from a parameter, and is refused without
// its requirements.
func TestDriver(t *testing.T) {
	op := Op{Opcode: CreateDriver, Driver: Driver{
		DriverName: "d", NodePattern: "with-*", MaxClaimsPerNodeParam: "$each",
	}}
	if err := op.resolve(Case{}, map[string]any{"each": 10.0}, 0.5, 0); err != nil || op.Count != 10 {
		t.Errorf("%d devices (%v), want 10 whatever the scale", op.Count, err)
	}
	for _, broken := range []Driver{
		{NodePattern: "*", MaxClaimsPerNode: 1}, {DriverName: "d", MaxClaimsPerNode: 1},
		{DriverName: "d", NodePattern: "[", MaxClaimsPerNode: 1}, {DriverName: "d", NodePattern: "*"},
	} {
		op := Op{Opcode: CreateDriver, Driver: broken}
		if err := op.resolve(Case{}, nil, 1, 0); err == nil || !strings.Contains(err.Error(), "at least 1") {
			t.Errorf("%+v: %v, want it refused", broken, err)
		}
	}
}
