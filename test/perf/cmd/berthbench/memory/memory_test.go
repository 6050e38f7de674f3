package memory

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole measurement at a small size: the shard gets ready and places what it is offered.
func TestMeasure(t *testing.T) {
	o := options{nodes: 30, pods: 300, podsPerApp: 10, decisions: 120, steady: time.Millisecond}
	r, err := measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed != o.decisions || r.Refused != 0 {
		t.Errorf("%d placed and %d refused, want %d and none", r.Placed, r.Refused, o.decisions)
	}
	for _, m := range []reading{r.Loaded, r.Decided} {
		if m.Live <= 0 || m.Resident <= m.Live || m.Peak < m.Resident {
			t.Errorf("live %d, resident %d, peak %d: want them in rising order", m.Live, m.Resident, m.Peak)
		}
	}
}

// The facts are a history that a store accepts, and leave it with the cluster asked for.
func TestFactsAreAHistory(t *testing.T) {
	o := options{nodes: 6, pods: 60, podsPerApp: 5, decisions: 7}
	log := newFactLog(o)
	reader, err := log.Read(t.Context(), eventlog.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	store := state.New()
	for store.Position().Sequence < log.last {
		records, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var facts []events.SequencedFact
		for _, r := range records {
			f, err := events.DecodeFact(r)
			if err != nil {
				t.Fatal(err)
			}
			facts = append(facts, f)
		}
		if _, err := store.Apply(facts); err != nil {
			t.Fatal(err)
		}
	}
	nodes, bound, pending := 0, 0, 0
	for range store.Snapshot().Nodes() {
		nodes++
	}
	for p := range store.Snapshot().Pods() {
		if p.NodeName != "" {
			bound++
		} else {
			pending++
		}
	}
	if nodes != o.nodes || bound != o.pods || pending != o.decisions {
		t.Errorf("%d nodes, %d bound and %d pending pods, want %d, %d and %d",
			nodes, bound, pending, o.nodes, o.pods, o.decisions)
	}
	for _, k := range state.Kinds() {
		if _, ok := store.Position().Progress(k); !ok {
			t.Errorf("progress of %s is not defined at the end", k)
		}
	}
}

func TestParseRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--pods", "7"}, {"--pods-per-app", "0"}, {"--decisions", "-1"}} {
		if err := bench.Parse(&options{}, args...); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v, want an error that names the flag", args, err)
		}
	}
}
