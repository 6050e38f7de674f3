//go:build e2e

package neighbours

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

var (
	which     = flag.String("neighbours", "all", `the neighbours: "all", or names separated by spaces`)
	scenarios = flag.String("scenarios", "all", `the scenarios of these: "all", or names separated by spaces`)
	beside    = flag.String("schedulers", "kube-scheduler berth", "the schedulers; one alone is compared with nothing")
	pods      = flag.Int("pods", 500, "how many pods a script of adjustable size has")
	accept    = flag.Bool("accept", false, "write the results into the repository and the page")
	ofBerth   = flag.String("berth-version", "", "Berth's version, for the page")
)

// programs are the binaries under test; TestMain fills them in.
var programs harness.Programs

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "neighbours", &programs, nil)) }

// TestNeighbours plays the scenarios beside both schedulers, one after the other.
func TestNeighbours(t *testing.T) {
	selected, err := Select(strings.Fields(*which))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, n := range selected {
		t.Run(n.Name, func(t *testing.T) {
			build(t, n.Programs)
			for _, s := range n.Scenarios {
				if *scenarios == "all" || slices.Contains(strings.Fields(*scenarios), s.Name) {
					t.Run(s.Name, func(t *testing.T) {
						if record, both := compare(t, n, s); both {
							rows(&all, n.Name+", "+s.Name, record)
						}
					})
				}
			}
		})
	}
	t.Logf("\n| scenario | measured | kube-scheduler | Berth | accepted |\n|---|---|---|---|---|\n%s", &all)
	if *accept {
		if err := WritePage(programs.Root, All()); err != nil {
			t.Error(err)
		}
	}
}

// build builds a neighbour's programs, or finds them up to date.
func build(t *testing.T, names []string) {
	t.Helper()
	if len(names) == 0 {
		return
	}
	cmd := exec.CommandContext(t.Context(), programs.Cluster, append([]string{"build"}, names...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("build %v: %v", names, err)
	}
}

// compare plays a scenario beside each scheduler, and returns false if it was asked for one alone.
func compare(t *testing.T, n Neighbour, s Scenario) (record Record, both bool) {
	t.Helper()
	results := map[Scheduler]Result{}
	for _, scheduler := range Schedulers {
		if !slices.Contains(strings.Fields(*beside), string(scheduler)) {
			continue
		}
		dir := kit.Dir(t, "neighbours")
		r, err := Play(t.Context(), s, scheduler, Options{
			Programs: programs, Pods: *pods, Dir: filepath.Join(dir, string(scheduler)), Logf: t.Logf,
		})
		if err != nil {
			t.Fatalf("%s: %v", scheduler, err)
		}
		results[scheduler] = r
		t.Logf("%s, %s, %s:%s", n.Name, s.Name, scheduler, table(r))
	}
	if len(results) != len(Schedulers) {
		return record, false
	}
	record = Record{
		Version: *ofBerth, Pods: *pods, KubeScheduler: results[KubeScheduler], Berth: results[Berth],
		Differences: Differences(results[KubeScheduler], results[Berth]),
	}
	report(t, s, record)
	if *accept {
		if err := Accept(programs.Root, n.Name, s.Name, record); err != nil {
			t.Error(err)
		}
	}
	return record, true
}

func report(t *testing.T, s Scenario, r Record) {
	t.Helper()
	for _, text := range r.Differences {
		if s.Unmet == "" {
			t.Error(text)
		} else {
			t.Logf("not met (%s): %s", s.Unmet, text)
		}
	}
	if s.Unmet != "" && len(r.Differences) == 0 {
		t.Logf("it is met in this run, although the scenario states what is missing: %s", s.Unmet)
	}
}

// table returns a result for people.
func table(r Result) string {
	var b strings.Builder
	for _, m := range r.Measures {
		fmt.Fprintf(&b, "\n    %-44s %s", m.Name, m)
	}
	for _, text := range r.Wrong {
		fmt.Fprintf(&b, "\n    wrong: %s", text)
	}
	return b.String()
}
