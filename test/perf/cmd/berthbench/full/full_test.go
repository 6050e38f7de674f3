package full

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// The table of limits and the table of parts fit each other.
func TestLimitsAreAboutParts(t *testing.T) {
	limits, err := outcome.ReadLimits("../../../limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	with := map[string]bool{}
	for _, l := range limits {
		with[l.Part] = true
		if _, err := find(l.Parts()); err != nil {
			t.Error(err)
		}
	}
	for _, p := range parts {
		if !with[p.name] {
			t.Errorf("part %s has no limit", p.name)
		}
	}
}

func TestSummarySaysWhatWasNotRun(t *testing.T) {
	bound := 2.0
	limits := []outcome.Limit{
		{Part: "a", Value: "v", Says: "fast", Unit: "x", AtLeast: &bound, Wall: "w"},
		{Part: "b", Value: "v", Says: "small", AtMost: &bound},
		{Part: "c", Value: "v", Says: "flat", AtMost: &bound},
	}
	text := summary(limits, map[string]*outcome.Outcome{
		"a": {Values: map[string]float64{"v": 3, "w": 4}}, "b": {Values: map[string]float64{"v": 4}},
	})
	for _, want := range []string{
		"| a | fast | at least 2x | 3x | 1.5x | met | 4x |",
		"| b | small | at most 2 | 4 | 0.5x | **not met** | – |",
		"| c | flat | at most 2 | – | – | not run | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %q in\n%s", want, text)
		}
	}
}

// Values that got worse are reported, and failures; unchanged values are not.
func TestCheckSaysWhatGotWorse(t *testing.T) {
	dir := t.TempDir()
	o := options{out: filepath.Join(dir, "new"), accepted: filepath.Join(dir, "accepted"), parts: parts}
	limits, err := outcome.ReadLimits("../../../limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(part string, ratio float64) {
		t.Helper()
		one := outcome.Outcome{Values: map[string]float64{"drain.berth.ratio": ratio}}
		if err := one.Write(filepath.Join(o.out, part)); err != nil {
			t.Fatal(err)
		}
	}
	write("drain-1000", 3)
	write("drain-5000", 3)
	if err := accept(context.Background(), o, limits); err != nil {
		t.Fatal(err)
	}
	if err := check(context.Background(), o, limits); err != nil {
		t.Errorf("nothing changed, and yet: %v", err)
	}
	write("drain-5000", 2)
	err = check(context.Background(), o, limits)
	if err == nil || !strings.Contains(err.Error(), "drain-5000: drain, 5,000 nodes") ||
		strings.Contains(err.Error(), "drain-1000") {
		t.Errorf("drain-5000 is a third slower, and the check says: %v", err)
	}
	if err := os.Remove(o.acceptedPath("drain-5000")); err != nil {
		t.Fatal(err)
	}
	if err := check(context.Background(), o, limits); err != nil {
		t.Errorf("nothing is accepted of drain-5000, and yet: %v", err)
	}
}

// Parts and measures without an outcome are not left out of the page.
func TestPageSaysWhatWasNotMeasured(t *testing.T) {
	limits, err := outcome.ReadLimits("../../../limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nothing := page(limits, map[string]*outcome.Outcome{})
	if rows := strings.Count(nothing, "| not run |"); rows != len(limits) {
		t.Errorf("%d rows of %d say that nothing was run", rows, len(limits))
	}
	if chapters := strings.Count(nothing, "no accepted outcome yet"); chapters != len(parts) {
		t.Errorf("%d chapters of %d say that nothing was accepted", chapters, len(parts))
	}
	old := page(limits, map[string]*outcome.Outcome{"path": {Values: map[string]float64{"podsPerSecond": 1}}})
	for _, want := range []string{"| not measured by this run |", "This outcome is older than 2 of the part's measures"} {
		if !strings.Contains(old, want) {
			t.Errorf("the page of an outcome that is older than its limits does not say %q", want)
		}
	}
}

// The number of missed targets that the README gives is that of the accepted outcomes.
func TestReadmeCountsMissedTargets(t *testing.T) {
	limits, err := outcome.ReadLimits("../../../limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := readAll(options{accepted: "../../../accepted"}.acceptedPath)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[outcome.State]int{}
	for _, l := range limits {
		state, _ := l.Judge(accepted)
		counts[state]++
	}
	missed := counts[outcome.NotMet]
	want := fmt.Sprintf("%d of %d targets are not met", missed, len(limits))
	if open := len(limits) - missed - counts[outcome.Met]; open > 0 {
		want += fmt.Sprintf(", and %d are not measured yet", open)
	}
	readme, err := os.ReadFile("../../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(string(readme)), " "); !strings.Contains(text, want+".") {
		t.Errorf("the README does not say %q", want)
	}
}

// A measure without an accepted value is neither worse nor an error, also where the part has an accepted outcome.
func TestStandsSaysValueAndTarget(t *testing.T) {
	most := 5.0
	l := outcome.Limit{Part: "log", Value: "v", Unit: "x", AtMost: &most}
	for want, of := range map[string]map[string]*outcome.Outcome{
		"not run":                         {},
		"not measured by this run":        {"log": {}},
		"55x, target at most 5x, not met": {"log": {Values: map[string]float64{"v": 55}}},
		"4.5x, target at most 5x, met":    {"log": {Values: map[string]float64{"v": 4.5}}},
	} {
		if got := stands(l, of); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A part whose program fails leaves a failure behind, not its earlier outcome.
func TestFailedPartIsToldAsFailed(t *testing.T) {
	dir := t.TempDir()
	o := options{out: filepath.Join(dir, "out"), program: filepath.Join(dir, "berthbench"), runs: 1}
	script := "#!/bin/sh\nexit 3\n"
	if err := os.WriteFile(o.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (outcome.Outcome{}).Write(filepath.Join(o.out, "open-50")); err != nil {
		t.Fatal(err)
	}
	found, err := find([]string{"open-50"})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.one(context.Background(), found[0]); err == nil {
		t.Error("a program that fails is fine")
	}
	seen, err := o.measured()
	if err != nil || seen["open-50"] == nil || !strings.Contains(seen["open-50"].Failure, "exit status 3") {
		t.Errorf("after the failure: %+v, %v", seen["open-50"], err)
	}
}

func TestBadCommandLinesNameWhatIsAccepted(t *testing.T) {
	for args, want := range map[string]string{
		"measure":      "want run, table, check",
		"run fast":     "drain-1000, drain-5000",
		"run --runs=0": "at least 1",
	} {
		if err := bench.Parse(&options{}, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}
