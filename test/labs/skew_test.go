//go:build e2e

package labs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// skew follows one hard constraint with maxSkew 1 over zones, pod by pod.
type skew struct {
	// counts are by zone, with every zone of the constraint.
	counts map[string]int
	// where holds the zone of each pod so far, by UID.
	where map[string]string
}

func newSkew(zones ...string) *skew {
	s := &skew{counts: map[string]int{}, where: map[string]string{}}
	for _, zone := range zones {
		s.counts[zone] = 0
	}
	return s
}

// place puts a pod into a zone, removes it from its previous one, and returns the violation now, empty for none.
func (s *skew) place(uid, zone string) string {
	if before, ok := s.where[uid]; ok {
		s.counts[before]--
	}
	s.where[uid] = zone
	s.counts[zone]++
	least := s.counts[zone]
	for _, n := range s.counts {
		least = min(least, n)
	}
	if s.counts[zone]-least <= 1 {
		return ""
	}
	return fmt.Sprintf("pod %s went to %s: %v", uid, zone, s.counts)
}

// The test of the test: one pod too many is found when it comes, and not before.
func TestSkewIsFoundWhenItHappens(t *testing.T) {
	s := newSkew("a", "b", "c")
	for i, step := range []struct {
		uid, zone string
		wrong     bool
	}{
		{uid: "1", zone: "a"}, {uid: "2", zone: "b"}, {uid: "3", zone: "c"}, {uid: "4", zone: "a"},
		{uid: "5", zone: "a", wrong: true}, {uid: "5", zone: "b"},
	} {
		if wrong := s.place(step.uid, step.zone); (wrong != "") != step.wrong {
			t.Errorf("step %d: %q, want something wrong: %v", i, wrong, step.wrong)
		}
	}
}

// reservations are the decisions that gave pods their nodes, in the order in which the ledger
// took them. That is the order which the rules about other pods are kept in; the binds that
// follow are made at the same time and may overtake each other, as kube-scheduler's do.
func (l *lab) reservations() []events.SequencedDecision {
	l.Helper()
	var placed []events.SequencedDecision
	for _, d := range l.decided(events.DecisionPlaced) {
		placed = append(placed, d.SequencedDecision)
	}
	slices.SortStableFunc(placed, func(a, b events.SequencedDecision) int {
		return cmp.Compare(a.LedgerRevision, b.LedgerRevision)
	})
	return placed
}

// decision is one with the time at which the log took it.
type decision struct {
	events.SequencedDecision
	stored time.Time
}

// decided are the decisions of one kind so far, in the order of the log.
func (l *lab) decided(kind events.DecisionKind) []decision {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), within)
	defer cancel()
	log := l.openLog(ctx)
	defer log.Close()
	last, err := log.Last(ctx, eventlog.Decisions)
	l.must(err)
	reader, err := log.Read(ctx, eventlog.Decisions, 1)
	l.must(err)
	defer reader.Close()
	var all []decision
	for read := uint64(0); read < last; {
		records, err := reader.Next(ctx)
		l.must(err)
		for _, record := range records {
			d, err := events.DecodeDecision(record)
			l.must(err)
			if read = record.Sequence; d.Kind == kind {
				all = append(all, decision{d, record.Time})
			}
		}
	}
	return all
}

// openLog connects to the log of the running Berth.
func (l *lab) openLog(ctx context.Context) *jetstream.Log {
	l.Helper()
	raw, err := os.ReadFile(filepath.Join(l.work, "data", "endpoints.json"))
	l.must(err)
	var at struct{ NATS, NATSUser, NATSPass string }
	l.must(json.Unmarshal(raw, &at))
	log, err := jetstream.Open(ctx, jetstream.Config{
		URLs: []string{at.NATS}, User: at.NATSUser, Password: at.NATSPass, Name: "labs", Logger: slog.Default(),
	})
	l.must(err)
	return log
}
