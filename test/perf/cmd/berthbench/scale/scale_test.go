package scale

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

// report is a report of berthbench path, of a run on two processors a quarter of which other processes used.
const report = `{"pods": 600, "nodes": 300, "workload": "plain", "binders": 2, "results": [
{"shards": 1, "full": 0, "podsPerSecond": 900, "spareProcessors": 0.1, "txns": 100, "conflicts": 1, "microsPerPod":
 {"scheduler": 200, "queue": 200, "binder": 480, "etcd": 130, "nats": 130, "generator and sink": 175}},
{"shards": 2, "full": 0, "podsPerSecond": RATE, "spareProcessors": SPARE, "txns": 100, "conflicts": LOST,
 "microsPerPod":
 {"scheduler": 300, "queue": 200, "binder": 480, "etcd": 130, "nats": 130, "generator and sink": 175}}]}`

func write(t *testing.T, rate, spare, lost string) options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench-path.json")
	content := strings.NewReplacer("RATE", rate, "SPARE", spare, "LOST", lost).Replace(report)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return options{real: []string{path}, cores: 2, seed: 1, rows: "none"}
}

func TestTheComparisonFailsWhereTheTwoAreApart(t *testing.T) {
	costs, err := scale.Measured()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rate, spare, lost, want string }{
		{"850", "0.1", "1", ""},
		{"400", "1.4", "1", "2 shards: the model has"},
		{"850", "0.1", "40", "of real ones 40.0%"},
	} {
		to := outcome.Outcome{Values: map[string]float64{}, Versions: map[string]string{}}
		err := compareReal(t.Context(), write(t, c.rate, c.spare, c.lost), costs, &to)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
		}
		for _, row := range to.Tables[0].Rows {
			t.Log(row)
		}
	}
}

func TestBadCommandLinesAndReportsSayWhatIsAccepted(t *testing.T) {
	for args, want := range map[string]string{
		"--cores=0":                     "at least 1",
		"--rows=most":                   "all, some or none",
		"--docs=x.md":                   "a comparison",
		"--docs=x --real=y --rows=none": "wants all rows",
	} {
		if err := bench.Parse(&options{}, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
	if _, err := readReal("/nowhere.json"); err == nil {
		t.Error("a report that is not there is no error")
	}
	empty := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readReal(empty); err == nil || !strings.Contains(err.Error(), "with 0 results") {
		t.Errorf("an empty report: %v", err)
	}
}
