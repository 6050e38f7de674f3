package rerun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// A record that was cut when it was written counts as the same as the remade decision, unless it differs in the part
// that was kept.
func TestCompareWithARecordThatWasCut(t *testing.T) {
	made := events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "a"}, Evidence: &evidence.Evidence{},
		Message: "0/3 nodes are available: " + strings.Repeat("x", 2*events.MaxText) + ".", Reasons: map[string]int32{},
	}
	for i := range 10_000 {
		made.Reasons[fmt.Sprint("Insufficient a.b/", i)] = 3
	}
	whole := made
	whole.Message += " preemption: no victims"
	recorded, err := events.DecodeDecision(eventlog.Record{Message: events.EncodeDecision(whole), Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, was := range map[string]events.Decision{"cut": recorded.Decision, "whole": whole} {
		if diff := compare(was, made); len(diff) > 0 {
			t.Errorf("%s: %d differences, such as %s", name, len(diff), diff[0].What)
		}
	}
	made.Message = strings.Replace(made.Message, "0/3", "0/4", 1)
	made.Reasons["another"] = 1
	if diff := compare(recorded.Decision, made); len(diff) != 2 {
		t.Errorf("%d differences, want those of the message and of the reasons", len(diff))
	}
}
