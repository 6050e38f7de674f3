package eventstest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
)

func testAbout(t *testing.T, target Target) {
	history, ok := target.Log.(events.History)
	if !ok {
		t.Fatalf("%T is no events.History", target.Log)
	}
	decided := func(kind events.DecisionKind, uid string) events.Message {
		return events.EncodeDecision(events.Decision{Kind: kind, Pod: events.PodRef{UID: uid, Name: "of " + uid}})
	}
	msgs := []events.Message{
		decided(events.DecisionUnplaceable, "a"), decided(events.DecisionPlaced, "b"),
		decided(events.DecisionPlaced, "a"), decided(events.DecisionBound, "a"),
		decided(events.DecisionPlaced, "c"), decided(events.DecisionBound, "c"), decided(events.DecisionPlaced, "c"),
		decided(events.DecisionPlaced, "c"), decided(events.DecisionPlaced, "c"),
	}
	if _, err := target.Log.Append(within(t), events.Decisions, events.AnySequence, msgs); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter string
		limit  int
		want   []uint64
	}{
		{events.DecisionsAbout("a"), 0, []uint64{1, 3, 4}},
		{events.DecisionsAbout("a"), 2, []uint64{3, 4}},
		{events.DecisionsAbout("b"), 0, []uint64{2}},
		{events.DecisionsAbout("nobody"), 0, nil},
		{events.DecisionsAbout("c"), 0, []uint64{5, 6, 7, 8, 9}},
		{events.DecisionsAbout("c"), 3, []uint64{7, 8, 9}},
		{events.DecisionsOf(events.DecisionPlaced), 0, []uint64{2, 3, 5, 7, 8, 9}},
	} {
		records, err := history.About(within(t), events.Decisions, test.filter, test.limit)
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
			t.Errorf("about %s, at most %d (-want +got):\n%s", test.filter, test.limit, diff)
		}
	}
	for _, filter := range []string{"", "decisions", "facts.>", "decisions.>.bound", "decisions..bound"} {
		if _, err := history.About(within(t), events.Decisions, filter, 0); err == nil {
			t.Errorf("filter %q: no error", filter)
		}
	}
}
