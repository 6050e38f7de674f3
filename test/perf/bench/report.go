package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// Head is the beginning of a JSON report: when the measurement ended, where, and of which version.
type Head struct {
	Time       time.Time `json:"time"`
	Processors int       `json:"processors"`
	// Go and Platform describe the machine and this program; some reports have only one of them.
	Go       string `json:"go,omitempty"`
	Platform string `json:"platform,omitempty"`
	// Load is the machine's load average at the end, to tell a busy machine from a quiet one.
	Load  string `json:"load"`
	Berth string `json:"berth"`
}

// NewHead asks Berth for its version and describes the machine in its present state.
func NewHead(ctx context.Context, programs harness.Programs) (Head, error) {
	version, err := programs.Command(ctx, "version")
	return Head{
		Time: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Load: harness.LoadAverage(), Berth: strings.TrimSpace(version.Stdout),
	}, err
}

// Where describes the machine in a sentence of a Markdown report.
func (h Head) Where() string {
	return fmt.Sprintf("%s; %d processors, %s, load %s.",
		h.Time.Format(time.RFC3339), h.Processors, cmp.Or(h.Platform, h.Go), h.Load)
}

// Outcome returns an outcome without values, for the summary of all measurements.
func (h Head) Outcome(runs int) outcome.Outcome {
	return outcome.Outcome{
		Time: h.Time, Machine: outcome.ThisMachine(), Runs: runs, Values: map[string]float64{},
		Versions: map[string]string{"berth": h.Berth},
	}
}

// Write writes the outcome and both reports into dir, and prints the one in Markdown. Name is the file name of the
// reports without the suffix.
func Write(dir, name string, report any, text string, o outcome.Outcome) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	fmt.Print(text)
	if err := o.Write(dir); err != nil {
		return err
	}
	base := filepath.Join(dir, name)
	if err := os.WriteFile(base+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base+".md", []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "written: %s.md and %s.json\n", base, base)
	return nil
}
