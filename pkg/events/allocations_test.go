package events_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// What one record may allocate from its sender to one reader, which is a fifth more than it does. Each service
// reads each record, so every allocation here is multiplied.
const (
	allocationsOfFact     = 6
	allocationsOfDecision = 14
)

func TestAllocationsOfRecords(t *testing.T) {
	fact := events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: "0e0e0e0e-0000-4000-8000-000000000001",
		Namespace: "default", Name: "web-0", Object: make([]byte, 1500), ResourceVersion: 12345,
	}
	decision := events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: fact.UID, Namespace: fact.Namespace, Name: fact.Name},
		SchedulerName: "default-scheduler", Actor: "scheduler-0", Attempt: 1, Token: "0000000000000001", NodeUID: "node-uid",
		NodeName: "node-1", FactSequence: 100,
	}
	for name, c := range map[string]struct {
		budget float64
		pass   func() error
	}{
		"fact": {allocationsOfFact, func() error {
			_, err := events.DecodeFact(eventlog.Record{Message: events.EncodeFact(fact), Sequence: 1})
			return err
		}},
		"decision": {allocationsOfDecision, func() error {
			_, err := events.DecodeOutcome(eventlog.Record{Message: events.EncodeDecision(decision), Sequence: 1})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if err := c.pass(); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.budget {
				t.Errorf("%.0f allocations to write and read it, want at most %.0f", got, c.budget)
			}
		})
	}
}
