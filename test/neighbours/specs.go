package neighbours

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// specsWithin bounds the run of all specs.
	specsWithin = 45 * time.Minute
	// specsMore is how much longer all specs may take beside Berth, in seconds.
	specsMore = 120
	// specNodes is how many nodes there are, in two zones.
	specNodes = 4
)

// notHere are specs that need more than simulated kubelets, as patterns of their names.
var notHere = []string{
	`\[Flaky\]`, `\[Feature:.+\]`, `\[FeatureGate:.+\]`,
}

// kubernetesSpecs are Kubernetes' own end-to-end tests of scheduling.
func kubernetesSpecs() Neighbour {
	return Neighbour{
		Name: "kubernetes-e2e", Version: "Kubernetes 1.36.3 (`k8s.io/kubernetes/test/e2e/scheduling`)",
		Programs: []string{"scheduling-e2e"},
		Scenarios: []Scenario{{
			Name: "specs",
			About: "Kubernetes' own end-to-end tests of scheduling, those of behind-a-gate features excepted; " +
				"each that passes beside kube-scheduler passes beside Berth.",
			Run: playSpecs,
		}},
	}
}

// playSpecs runs all specs one after the other.
func playSpecs(ctx context.Context, s *Scene) (Result, error) {
	for i := range specNodes {
		if _, err := s.Client.CoreV1().Nodes().Create(ctx, specNode(i), metav1.CreateOptions{}); err != nil {
			return Result{}, err
		}
	}
	report := filepath.Join(s.Dir, "specs.json")
	began := time.Now()
	p, err := s.Start("specs", "scheduling-e2e", nil, "--kubeconfig="+s.Cluster.Kubeconfig, "--provider=skeleton",
		"--ginkgo.json-report="+report, "--ginkgo.skip="+strings.Join(notHere, "|"), "--ginkgo.no-color", "--ginkgo.seed=1",
		"--ginkgo.timeout="+specsWithin.String(), "--e2e-output-dir="+s.Dir, "--dump-logs-on-failure=false")
	if err != nil {
		return Result{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	specs, err := readSpecs(report)
	if err != nil {
		return Result{}, fmt.Errorf("%w\n%s", err, p.Tail())
	}
	r := Result{Measures: []Measure{
		{Name: "specs that pass", Value: float64(len(specs["passed"])), Margin: AtLeast(0)},
		{Name: "it takes", Unit: "s", Value: time.Since(began).Seconds(), Margin: AtMost(specsMore)},
	}}
	for state, names := range specs {
		if state == "passed" || state == "skipped" || state == "pending" {
			s.Logf("%s: %s", state, strings.Join(names, "\n    "))
			continue
		}
		for _, name := range names {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %s", state, name))
		}
	}
	slices.Sort(r.Wrong)
	return r, nil
}

func specNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(nodeCPU, resource.DecimalSI),
		corev1.ResourceMemory:           resource.MustParse("32Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%2), //nolint:mnd // two zones
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// readSpecs reads ginkgo's report: the names of specs by their states.
func readSpecs(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	specs := map[string][]string{}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeType == "It" {
				name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
				specs[spec.State] = append(specs[spec.State], name)
			}
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("%s: no specs", file)
	}
	return specs, nil
}
