package eventstest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// sameBucket returns a record about another pod whose subject is that of m.
func sameBucket(t *testing.T, m eventlog.Message) []eventlog.Message {
	for i := range 1 << 20 {
		uid := fmt.Sprintf("namesake-%d", i)
		other := events.EncodeDecision(events.Decision{
			Kind: events.DecisionBound, Pod: events.PodRef{UID: uid, Name: "of " + uid},
		})
		if other.Subject == m.Subject {
			return []eventlog.Message{other}
		}
	}
	t.Fatalf("no other pod has the subject %s", m.Subject)
	return nil
}

func testAbout(t *testing.T, target Target) {
	history, ok := target.Log.(eventlog.History)
	if !ok {
		t.Fatalf("%T is no events.History", target.Log)
	}
	decided := func(kind events.DecisionKind, uid string) eventlog.Message {
		return events.EncodeDecision(events.Decision{Kind: kind, Pod: events.PodRef{UID: uid, Name: "of " + uid}})
	}
	msgs := []eventlog.Message{
		decided(events.DecisionUnplaceable, "a"), decided(events.DecisionPlaced, "b"),
		decided(events.DecisionPlaced, "a"), decided(events.DecisionBound, "a"),
		decided(events.DecisionPlaced, "c"), decided(events.DecisionBound, "c"), decided(events.DecisionPlaced, "c"),
		decided(events.DecisionPlaced, "c"), decided(events.DecisionPlaced, "c"),
	}
	if _, err := target.Log.Append(within(t), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Log.Append(within(t), eventlog.Decisions, eventlog.AnySequence,
		sameBucket(t, msgs[3])); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		query eventlog.Query
		limit int
		want  []uint64
	}{
		{events.DecisionsAbout("a"), 0, []uint64{1, 3, 4}},
		{events.DecisionsAbout("a"), 2, []uint64{3, 4}},
		{events.DecisionsAbout("b"), 0, []uint64{2}},
		{events.DecisionsAbout("nobody"), 0, nil},
		{events.DecisionsAbout("c"), 0, []uint64{5, 6, 7, 8, 9}},
		{events.DecisionsAbout("c"), 3, []uint64{7, 8, 9}},
		{events.DecisionsOf(events.DecisionPlaced), 0, []uint64{2, 3, 5, 7, 8, 9}},
	} {
		records, err := history.About(within(t), eventlog.Decisions, test.query, test.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, r := range records {
			got = append(got, r.Sequence)
			d, err := events.DecodeDecision(r)
			if err != nil || d.Pod.Name != "of "+d.Pod.UID || r.Time.IsZero() {
				t.Errorf("record %d is %+v, stored %s: %v", r.Sequence, d, r.Time, err)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("about %+v, at most %d (-want +got):\n%s", test.query, test.limit, diff)
		}
	}
	for _, filter := range []string{"", "decisions", "facts.>", "decisions.>.bound", "decisions..bound"} {
		if _, err := history.About(within(t), eventlog.Decisions, eventlog.Query{Filter: filter}, 0); err == nil {
			t.Errorf("filter %q: no error", filter)
		}
	}
}
