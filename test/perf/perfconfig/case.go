package perfconfig

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Case is one entry of a file.
type Case struct {
	Name string `json:"name"`
	// DefaultPodTemplatePath is where createPods finds its pod when it names none; without either
	// it is upstream's base pod.
	DefaultPodTemplatePath string     `json:"defaultPodTemplatePath"`
	WorkloadTemplate       []Op       `json:"workloadTemplate"`
	Workloads              []Workload `json:"workloads"`
	// SchedulerConfigPath is a KubeSchedulerConfiguration that the case wants, empty for none.
	SchedulerConfigPath string `json:"schedulerConfigPath"`

	// dir is the file's directory, to which paths are relative.
	dir string
}

// Workload gives a case its numbers.
type Workload struct {
	Name   string         `json:"name"`
	Params map[string]any `json:"params"`
	// FeatureGates are the feature gates of upstream's own scheduler. A run of a scheduler as it is shipped ignores
	// them.
	FeatureGates map[string]bool `json:"featureGates"`
	Labels       []string        `json:"labels"`
}

// Load reads every performance-config.yaml below dir, in the order of their paths.
func Load(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "performance-config.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no */performance-config.yaml in %s: want upstream's test/integration/scheduler_perf", dir)
	}
	var all []Case
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var cases []Case
		if err := yaml.Unmarshal(raw, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range cases {
			cases[i].dir = filepath.Dir(file)
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Find is the case and workload called "case/workload".
func Find(cases []Case, name string) (Case, Workload, error) {
	caseName, workload, _ := strings.Cut(name, "/")
	i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == caseName })
	if i < 0 {
		return Case{}, Workload{}, fmt.Errorf("case %q: want one of %s", caseName,
			names(cases, func(c Case) string { return c.Name }))
	}
	c := cases[i]
	j := slices.IndexFunc(c.Workloads, func(w Workload) bool { return w.Name == workload })
	if j < 0 {
		return Case{}, Workload{}, fmt.Errorf("workload %q of case %s: want one of %s", workload, caseName,
			names(c.Workloads, func(w Workload) string { return w.Name }))
	}
	return c, c.Workloads[j], nil
}

func names[T any](list []T, name func(T) string) string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, name(one))
	}
	return strings.Join(all, ", ")
}

// Resolve is the workload's operations: parameters are numbers, paths are files, and optional parameters have their
// defaults. Counts are multiplied by scale, so that 0.5 halves them; none becomes 0.
func (c Case) Resolve(w Workload, scale float64) ([]Op, error) {
	if c.SchedulerConfigPath != "" {
		return nil, fmt.Errorf("%s/%s: schedulerConfigPath: %s: schedulers run as they are configured, want none",
			c.Name, w.Name, c.SchedulerConfigPath)
	}
	params := maps.Clone(w.Params)
	ops := slices.Clone(c.WorkloadTemplate)
	for i := range ops {
		if err := ops[i].resolve(c, params, scale, i); err != nil {
			return nil, fmt.Errorf("%s/%s: operation %d, %s: %w", c.Name, w.Name, i, ops[i].Opcode, err)
		}
	}
	return ops, nil
}

// path of a template as the case names it.
func (c Case) path(name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join(c.dir, name)
}
