package outcome

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// FileName of the outcome in the directory of a measurement's reports.
const FileName = "outcome.json"

// Outcome is the result of one part.
type Outcome struct {
	// Part is the name it runs by.
	Part string `json:"part"`
	// Time is when it ended, Command what measures it again.
	Time    time.Time `json:"time"`
	Command string    `json:"command"`
	Machine Machine   `json:"machine"`
	// Versions describes the versions of the measured programs, by program.
	Versions map[string]string `json:"versions"`
	// Runs is how many runs each number is the median of.
	Runs int `json:"runs"`
	// Values are the values that limits are about. Which of two is better depends on the limit.
	Values map[string]float64 `json:"values,omitempty"`
	Tables []Table            `json:"tables,omitempty"`
	Plots  []Plot             `json:"plots,omitempty"`
	// Failure is why there are no numbers, empty when there are.
	Failure string `json:"failure,omitempty"`
}

// Table is for readers; cells are formatted already.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
	// Notes are sentences below it, Markdown.
	Notes []string `json:"notes,omitempty"`
}

// Markdown writes the head and the rows, as Markdown has them, and below them the notes.
func (t Table) Markdown(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	for _, note := range t.Notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
}

// Plot is lines over one axis.
type Plot struct {
	// Name is the file it is drawn into, without a suffix; Title is above it.
	Name  string `json:"name"`
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
}

// Empty reports whether the plot would show nothing: its lines have a single x, or lie on the x axis.
func (p Plot) Empty() bool {
	across, above := map[float64]bool{}, false
	for _, line := range p.Lines {
		for _, point := range line.Points {
			across[point[0]] = true
			above = above || point[1] != 0
		}
	}
	return len(across) < 2 || !above
}

// Axis describes an axis.
type Axis struct {
	Label string `json:"label"`
	// Log is a logarithmic scale; points at 0 or below are left out.
	Log bool `json:"log,omitempty"`
}

// Line is a row of points in the order they are connected in.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Machine describes the machine that ran the measurement.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	MemoryMB   int    `json:"memoryMB"`
	Platform   string `json:"platform"`
	Go         string `json:"go"`
	// Load is the load average at the end, for telling a busy machine from a quiet one, in the kernel's format.
	Load string `json:"load"`
}

// LoadAverages are those of the last 1, 5 and 15 minutes: Load without the kernel's count of threads and last id.
func (m Machine) LoadAverages() string {
	fields := strings.Fields(m.Load)
	return strings.Join(fields[:min(3, len(fields))], ", ")
}

// ThisMachine describes the machine as far as Linux reports it; on other systems some fields are empty.
func ThisMachine() Machine {
	m := Machine{Processors: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	m.Processor = field("/proc/cpuinfo", "model name")
	var kilobytes int
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kilobytes); err == nil {
		m.MemoryMB = kilobytes >> 10
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.TrimSpace(string(load))
	}
	return m
}

// Same reports whether absolute numbers of both machines can be compared.
func (m Machine) Same(o Machine) bool {
	return m.Processor == o.Processor && m.Processors == o.Processors && m.Platform == o.Platform
}

// field is the value of the first line `name : value` of a file, empty when there is none.
func field(path, name string) string {
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

// Write writes the outcome as FileName into dir, which it makes. The part is the name of dir.
func (o Outcome) Write(dir string) error {
	if o.Part == "" {
		o.Part = filepath.Base(dir)
	}
	if o.Command == "" {
		o.Command = CommandLine(os.Args)
	}
	raw, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return fmt.Errorf("outcome of %s: %w", o.Part, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, FileName), append(raw, '\n'), 0o644)
}

// Read reads an outcome from a file.
func Read(path string) (Outcome, error) {
	var o Outcome
	raw, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("%s: %w: want what a measurement of bench-full wrote", path, err)
	}
	return o, nil
}
