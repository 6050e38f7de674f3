package scheduler_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// republish begins an epoch in which all facts are published again, with one node.
func (s *site) republish(node string) {
	s.t.Helper()
	s.epoch++
	s.put(events.EncodeFact(events.Fact{Op: events.OpEpochBegin, Epoch: s.epoch, Progress: s.epoch}))
	s.put(events.EncodeFact(events.Fact{Op: events.OpEpochEnd, Epoch: s.epoch}))
	s.node(node)
}

// A fact that cannot be read ends no shard, neither a running one nor one that starts with it in the log. The shard
// decides nothing until the facts are published again, and then continues.
func TestFactsThatCannotBeRead(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		for name, running := range map[string]bool{"running": true, "on restart": false} {
			t.Run(poison.Name+", "+name, func(t *testing.T) {
				t.Parallel()
				survivesPoison(t, poison.Message, running)
			})
		}
	}
}

func survivesPoison(t *testing.T, poison eventlog.Message, running bool) {
	s := newSite(t)
	shards := []string{"scheduler-0"}
	s.republish("n0")
	first := s.pod("p0", "500m")
	stop := s.start(shards[0])
	s.ready(shards...)
	s.offer(shards, first)
	s.decisions(1)
	if !running {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	s.put(poison)
	s.pod("unseen", "500m")
	if !running {
		stop = s.start(shards[0])
	}
	s.republish("n1")
	second := s.pod("p1", "500m")
	s.ready(shards...)
	s.offer(shards, second)
	placed := s.decisions(2)[1]
	if placed.Kind != events.DecisionPlaced || placed.Pod.Name != "p1" || placed.NodeName != "n1" {
		t.Errorf("%s %s on %q, want p1 placed on n1, the only node that was told anew", placed.Pod.Name, placed.Kind,
			placed.NodeName)
	}
	if err := stop(); err != nil {
		t.Errorf("the shard has ended: %v", err)
	}
}
