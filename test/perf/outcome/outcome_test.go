package outcome

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func bound(x float64) *float64 { return &x }

func TestOutcomeSurvivesItsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "drain")
	want := Outcome{
		Time: time.Unix(1000, 0).UTC(), Command: "bench --x", Machine: Machine{Processors: 2}, Runs: 3,
		Versions: map[string]string{"berth": "v1"}, Values: map[string]float64{"ratio": 2.5},
		Tables: []Table{{Title: "t", Head: []string{"a"}, Rows: [][]string{{"1"}}, Notes: []string{"n"}}},
		Plots:  []Plot{{Name: "p", X: Axis{Label: "s", Log: true}, Lines: []Line{{Name: "l", Points: [][2]float64{{1, 2}}}}}},
	}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	want.Part = "drain"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read after write (-want +got):\n%s", diff)
	}
}

func TestPlotThatShowsNothingIsEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		lines []Line
		want  bool
	}{
		"no line":     {nil, true},
		"one x":       {[]Line{{Points: [][2]float64{{0, 3}}}, {Points: [][2]float64{{0, 8}}}}, true},
		"all zero":    {[]Line{{Points: [][2]float64{{10, 0}, {90, 0}}}}, true},
		"a curve":     {[]Line{{Points: [][2]float64{{10, 0}, {90, 1}}}}, false},
		"two dots":    {[]Line{{Points: [][2]float64{{1, 3}}}, {Points: [][2]float64{{2, 8}}}}, false},
		"below zero":  {[]Line{{Points: [][2]float64{{1, -3}, {2, -3}}}}, false},
		"one of each": {[]Line{{Points: [][2]float64{{1, 0}, {2, 0}}}, {Points: [][2]float64{{1, 4}}}}, false},
	} {
		if got := (Plot{Lines: test.lines}).Empty(); got != test.want {
			t.Errorf("%s: empty %v, want %v", name, got, test.want)
		}
	}
}

func TestJudge(t *testing.T) {
	least, most := Limit{Value: "v", AtLeast: bound(2)}, Limit{Value: "v", AtMost: bound(2)}
	of := func(v float64) *Outcome { return &Outcome{Values: map[string]float64{"v": v}} }
	for _, test := range []struct {
		name    string
		limit   Limit
		outcome *Outcome
		want    State
	}{
		{"as much as asked for", least, of(2), Met},
		{"less", least, of(1.9), NotMet},
		{"as little as allowed", most, of(2), Met},
		{"more", most, of(2.1), NotMet},
		{"not run", most, nil, NotRun},
		{"failed", most, &Outcome{Failure: "no"}, Failed},
		{"another value", most, &Outcome{}, Missing},
	} {
		test.limit.Part = "p"
		outcomes := map[string]*Outcome{}
		if test.outcome != nil {
			outcomes["p"] = test.outcome
		}
		if got, _ := test.limit.Judge(outcomes); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestWorseComparesWhatCanBeCompared(t *testing.T) {
	here, there := Machine{Processor: "a"}, Machine{Processor: "b"}
	of := func(m Machine, v float64) Outcome { return Outcome{Machine: m, Values: map[string]float64{"v": v}} }
	rate, ratio := Limit{Value: "v", AtLeast: bound(1)}, Limit{Value: "v", AtLeast: bound(1), Ratio: true}
	latency := Limit{Value: "v", AtMost: bound(1), Ratio: true}
	for _, test := range []struct {
		name          string
		limit         Limit
		accepted, now Outcome
		worse         bool
	}{
		{"a little slower", rate, of(here, 100), of(here, 90), false},
		{"much slower", rate, of(here, 100), of(here, 80), true},
		{"much slower elsewhere", rate, of(here, 100), of(there, 80), false},
		{"a smaller ratio elsewhere", ratio, of(here, 100), of(there, 80), true},
		{"a longer latency", latency, of(here, 0.3), of(here, 0.4), true},
		{"a shorter latency", latency, of(here, 0.3), of(here, 0.1), false},
		{"nothing accepted", rate, Outcome{}, of(here, 1), false},
		{"nothing measured", rate, of(here, 1), Outcome{Machine: here}, true},
	} {
		test.limit.Part = "p"
		err := test.limit.Worse(map[string]*Outcome{"p": &test.accepted}, map[string]*Outcome{"p": &test.now})
		if (err != nil) != test.worse {
			t.Errorf("%s: %v, want an error: %t", test.name, err, test.worse)
		}
	}
}

// A quotient needs both of its parts, on one machine and of one version.
func TestQuotientsCompareWhatCanBeCompared(t *testing.T) {
	here, there := Machine{Processor: "a"}, Machine{Processor: "b"}
	of := func(m Machine, version string, v float64) *Outcome {
		return &Outcome{Machine: m, Versions: map[string]string{"berth": version}, Values: map[string]float64{"v": v}}
	}
	limit := Limit{Part: "fast", Value: "v", By: &Divisor{Part: "slow", Value: "v"}, AtMost: bound(1.5), Ratio: true}
	for _, test := range []struct {
		name       string
		fast, slow *Outcome
		want       State
		seen       float64
	}{
		{"kept", of(here, "1", 6), of(here, "1", 4), Met, 1.5},
		{"not kept", of(here, "1", 10), of(here, "1", 4), NotMet, 2.5},
		{"the other part has not run", of(here, "1", 6), nil, NotRun, 0},
		{"the part has not run", nil, of(here, "1", 4), NotRun, 0},
		{"the other part failed", of(here, "1", 6), &Outcome{Failure: "no"}, Failed, 0},
		{"the other part has no such value", of(here, "1", 6), &Outcome{}, Missing, 0},
		{"nothing to divide by", of(here, "1", 6), of(here, "1", 0), Missing, 0},
		{"on another machine", of(here, "1", 6), of(there, "1", 4), Unlike, 0},
		{"of another version", of(here, "1", 6), of(here, "2", 4), Unlike, 0},
	} {
		outcomes := map[string]*Outcome{}
		for part, one := range map[string]*Outcome{"fast": test.fast, "slow": test.slow} {
			if one != nil {
				outcomes[part] = one
			}
		}
		if got, seen := limit.Judge(outcomes); got != test.want || seen != test.seen {
			t.Errorf("%s: %s, %v, want %s, %v", test.name, got, seen, test.want, test.seen)
		}
	}
	accepted := map[string]*Outcome{"fast": of(here, "1", 6), "slow": of(here, "1", 4)}
	now := map[string]*Outcome{"fast": of(there, "2", 10), "slow": of(there, "2", 4)}
	if err := limit.Worse(accepted, now); err == nil {
		t.Error("2.5 is no worse than an accepted 1.5")
	}
	if err := limit.Worse(now, accepted); err != nil {
		t.Errorf("1.5 is worse than an accepted 2.5: %v", err)
	}
	if err := limit.Worse(accepted, map[string]*Outcome{"fast": of(here, "2", 10), "slow": of(here, "1", 4)}); err != nil {
		t.Errorf("only one of the parts has run anew: %v", err)
	}
	delete(now, "slow")
	if err := limit.Worse(now, accepted); err != nil {
		t.Errorf("half of the quotient was accepted: %v", err)
	}
	limit.By.Part = ""
	if got, seen := limit.Judge(map[string]*Outcome{"fast": of(here, "1", 6)}); got != Met || seen != 1 {
		t.Errorf("a quotient within a part: %s, %v, want 1", got, seen)
	}
}

func TestBadLimitsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	for text, want := range map[string]string{
		"- {part: p, value: v, says: s, evidence: e, atLeast: 1, atMost: 2}": "one of atLeast and atMost",
		"- {part: p, value: v, says: s, atLeast: 1}":                         "want part, value, says, evidence",
		"- {part: p, atleast: 1, colour: red}":                               "colour",
		"- {part: p, value: v, says: s, evidence: e, atLeast: 1, by: {}}":    "by: want a value",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLimits(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 2.5: "2.5", 99.99: "100", 1234.5: "1,234", 1234567: "1,234,567", -1500: "-1,500", 3: "3",
	} {
		if got := Number(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
