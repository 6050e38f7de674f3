package queue_test

import (
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/services/queue"
)

// TestAnIdleShardIsWanted checks that, while one shard has a backlog and another is idle, the ledger requests
// partitions of the first for the second, and that the queue reports this and the reason when asked.
func TestAnIdleShardIsWanted(t *testing.T) {
	w := newWorld(t)
	w.takePartitions()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		w.api.Set(pod(name, 0))
	}
	deps, clock := w.deps(), testingclock.NewFakeClock(time.Now())
	deps.Clock = clock
	q, _ := w.startFor(queue.Config{ID: "queue-a", Profiles: profiles()}, deps)
	wanted := map[int32]bool{}
	w.eventually("partitions are wanted with the idle shard", func() bool {
		w.ask(1)
		other := work.EncodeRequest(work.Request{Shard: "s2", Window: 4})
		if err := w.log.Publish(work.SubjectWork, other); err != nil {
			t.Fatal(err)
		}
		clock.Step(200 * time.Millisecond)
		kvs, _, err := w.ledger.List(t.Context(), roster.PrefixWant)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			owner, err := roster.DecodeOwner(kv.Value)
			p, ok := roster.ParseWant(kv.Key)
			if err != nil || !ok || owner.Member != "s2" {
				t.Fatalf("%s: %+v, %v", kv.Key, owner, err)
			}
			wanted[p] = true
		}
		return len(wanted) > 0
	})
	if n := len(wanted); n > 5 {
		t.Errorf("%d partitions of ten pods are wanted elsewhere, want at most half", n)
	}
	w.eventually("the queue tells", func() bool {
		text, err := q.Explain(t.Context(), "")
		return err == nil && strings.Contains(text, "wanted with s2: partitions ")
	})
}
