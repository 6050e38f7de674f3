package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report is the JSON report.
type report struct {
	Begin, End time.Time
	Machine    machine
	// Berth and Upstream are the versions compared.
	Berth, Upstream string
	Nodes           int
	Box             time.Duration
	Rows            []row
	Memory          []memoryReport
}

// memoryReport is the report of berthbench memory.
type memoryReport struct {
	Nodes, Pods, Apps int
	MemoryLimit       int64
	Loaded, Decided   struct{ Resident, Peak, Live int64 }
	LoadSeconds       float64
	Placed, Refused   int
}

// target is the engine's target on a workload.
type target struct{ rate, ratio float64 }

// targets by workload; one that is missing is shown for comparison only.
var targets = map[string]target{
	"basic":              {30_000, 50},
	"basic-unique":       {1_500, 3},
	"node-affinity":      {20_000, 30},
	"spread":             {5_000, 20},
	"pod-affinity":       {5_000, 30},
	"preferred-affinity": {3_000, 20},
	"mixed":              {5_000, 20},
}

// memoryTargets in bytes, by nodes and pods.
var memoryTargets = map[[2]int]int64{
	{5_000, 150_000}:     700e6,
	{100_000, 1_000_000}: 4e9,
}

func newReport(o options) (*report, error) {
	r := &report{
		Begin: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(),
		Berth: o.version, Upstream: moduleVersion("k8s.io/kubernetes"), Nodes: o.nodes, Box: o.box,
	}
	for _, path := range o.memory {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--memory: %w", err)
		}
		var m memoryReport
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("--memory: %s: %w, want what berthbench memory wrote", path, err)
		}
		r.Memory = append(r.Memory, m)
	}
	return r, nil
}

// moduleVersion is that of a module this program was built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of unknown version"
}

func (r *report) end() {
	r.End = time.Now().UTC().Truncate(time.Second)
	r.Machine.Load = loadAverage()
}

// err is an error if a checked decision differed.
func (r *report) err() error {
	var all []string
	for _, row := range r.Rows {
		for _, w := range row.Differences {
			all = append(all, row.Name+": "+w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("the engine and kube-scheduler disagree:\n%s", strings.Join(all, "\n"))
}

func (r *report) write(o options) error {
	if o.raw != "" {
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(o.raw, append(raw, '\n')); err != nil {
			return err
		}
	}
	text, err := r.markdown()
	if err != nil {
		return err
	}
	if o.markdown == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return writeFile(o.markdown, []byte(text))
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// machine holds the conditions that the numbers depend on, besides the code.
type machine struct {
	Processor, Platform, Go string
	// Processors there are; the measurement used one.
	Processors int
	// MemoryBytes is the machine's.
	MemoryBytes int64
	// Load is the load average at the end.
	Load string
}

func thisMachine() machine {
	return machine{
		Processor: procValue("/proc/cpuinfo", "model name"), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Processors: runtime.NumCPU(), MemoryBytes: memoryTotal(), Load: loadAverage(),
	}
}

// procValue is the value of the first line of a "name: value" file with this name, empty
// where there is none.
func procValue(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is that of the last 1, 5 and 15 minutes, empty where the kernel does not report it.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(content))
	return strings.Join(fields[:min(3, len(fields))], ", ")
}

func memoryTotal() int64 {
	var kilobytes int64
	if _, err := fmt.Sscanf(procValue("/proc/meminfo", "MemTotal"), "%d kB", &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}
