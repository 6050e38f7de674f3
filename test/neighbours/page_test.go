package neighbours

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the generated part of docs/neighbours.md from the accepted results")

const root = "../.."

// The page shows what was accepted, and the scenarios that there are.
func TestThePageIsCurrent(t *testing.T) {
	if *update {
		if err := WritePage(root, All()); err != nil {
			t.Fatal(err)
		}
	}
	old, updated, err := Page(root, All())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old, updated); diff != "" {
		t.Errorf("%s (-has +wants), written by `go test ./test/neighbours -args -update`:\n%s", pagePath, diff)
	}
}

// Names identify records and are typed on command lines; every scenario explains itself.
func TestNeighboursAreDescribed(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, n := range All() {
		seen := map[string]bool{}
		if !form.MatchString(n.Name) || n.Version == "" || len(n.Scenarios) == 0 {
			t.Errorf("neighbour %q: it lacks a name, a version or scenarios", n.Name)
		}
		for _, s := range n.Scenarios {
			if seen[s.Name] || !form.MatchString(s.Name) || !strings.HasSuffix(s.About, ".") || s.Run == nil {
				t.Errorf("%s: scenario %q: want a unique name, a sentence about it and a script", n.Name, s.Name)
			}
			seen[s.Name] = true
		}
	}
}

// A record of a scenario that is gone would never be looked at again.
func TestEveryRecordHasAScenario(t *testing.T) {
	known := map[string]bool{}
	for _, n := range All() {
		for _, s := range n.Scenarios {
			known[recordPath(root, n.Name, s.Name)] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(acceptedDir), "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file] {
			t.Errorf("%s: no scenario has this name", file)
		}
	}
}

func TestResultsShowBothSides(t *testing.T) {
	dir := t.TempDir()
	n := Neighbour{Name: "scaler", Version: "example.com/scaler v1", Scenarios: []Scenario{
		{Name: "grow", About: "It grows.", Unmet: "a name."}, {Name: "shrink", About: "It shrinks."},
	}}
	record := Record{
		KubeScheduler: Result{Measures: []Measure{{Name: "nodes", Value: 4}}, Wrong: []string{"a pod was lost"}},
		Berth:         Result{Measures: []Measure{{Name: "nodes", Value: 7, Margin: Within(1)}}},
	}
	record.Differences = Differences(record.KubeScheduler, record.Berth)
	if err := Accept(dir, "scaler", "grow", record); err != nil {
		t.Fatal(err)
	}
	text, err := Results(dir, []Neighbour{n})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| grow | nodes | 4 | 7 | ± 1 |", "| grow | violations | 1 | 0 | 0 |", "| shrink | not run yet | | | |",
		"- *shrink*: It shrinks.", "- grow, kube-scheduler: a pod was lost",
		"- grow, Berth: nodes: 7, with kube-scheduler 4; accepted is ± 1", "- grow: what is missing: a name.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAPageWithoutItsMarkersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "docs", "neighbours.md")
	if err := os.WriteFile(page, []byte("# Neighbours\n"+begin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Page(dir, nil); err == nil || !strings.Contains(err.Error(), end) {
		t.Errorf("got %v, want an error that names the markers", err)
	}
}
