package log

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

func TestBadCommandLinesNameWhatIsAccepted(t *testing.T) {
	for _, bad := range []string{"--runs=0", "--rounds=0", "--together=1", "--facts=63"} {
		if err := bench.Parse(&options{}, bad); err == nil || !strings.Contains(err.Error(), strings.Split(bad, "=")[0]) {
			t.Errorf("%s: %v, want an error that names the flag", bad, err)
		}
	}
}

// Everything that is appended can be read, whatever the log stores it as.
func TestFactsAreReadAsTheyWereAppended(t *testing.T) {
	log := memlog.New(memlog.Options{})
	defer log.Close()
	w, facts := writer{log: log}, someFacts(1300)
	if err := w.appendAll(t.Context(), facts, 64); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := w.append(t.Context(), facts[:1]); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := log.Last(t.Context(), eventlog.Facts); err != nil || last != w.tail.Sequence {
		t.Errorf("the log ends at %d, %v, the writer expects %d", last, err, w.tail.Sequence)
	}
	if err := readAll(t.Context(), log, 1, len(facts)+3); err != nil {
		t.Error(err)
	}
}

// The values that limits are about are those of a server that syncs at intervals, and ratios of the same run.
func TestOutcomeComparesWithinARun(t *testing.T) {
	run := func(sync string, slow, many float64) result {
		return result{Sync: sync, FactMicros: 14 * slow, BareMicros: 2 * slow,
			One:  appended{MedianMicros: 100 * slow, CPUMicros: 50 * slow},
			Many: appended{MedianMicros: many * slow, CPUMicros: 500}}
	}
	r := report{Facts: 640, Together: 64, Results: []result{
		run(interval, 1, 400), run(always, 1, 300), run(interval, 3, 500), run(always, 1, 300), run(interval, 2, 9000),
	}}
	values := r.outcome(3).Values
	for name, want := range map[string]float64{
		"appendRatio": 5, "deliveryRatio": 7, "factMicros": 28, "always.appendRatio": 3, "always.appendCPURatio": 10,
	} {
		if got := values[name]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if text := r.markdown(); !strings.Contains(text, "| every write | 100 | 300 | 3 | 50 | 500 | 10 |") {
		t.Errorf("no row of a server that syncs every write:\n%s", text)
	}
}

func TestServerSyncsAsTheSettingSays(t *testing.T) {
	for sync, want := range map[string]string{interval: "sync_interval: 2m ", always: "sync_interval: always "} {
		if got := configOf("127.0.0.1:4222", "/tmp/x", sync); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %s", sync, want, got)
		}
	}
}
