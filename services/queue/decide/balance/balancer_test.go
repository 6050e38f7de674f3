package balance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// TestABacklogMovesToAnIdleShard checks that nothing moves before both shards have been so for busyAfter, and that the
// pinned partition stays. The whole queue's tests of the balance are in package decide.
func TestABacklogMovesToAnIdleShard(t *testing.T) {
	var b Balancer
	start := time.Unix(0, 0)
	b.Begin(start)
	b.Alive([]string{"busy", "idle"})
	owners := [ledger.Partitions]string{0: "busy", 1: "busy", 2: "idle"}
	var records [2]Record
	load := Load{
		Owners:  &owners,
		Waiting: func(p int32) int { return map[int32]int{0: 9, 1: 3}[p] },
		Shards: []Shard{
			{
				ID: "busy", Window: 4, Leased: 4, Pods: 12, Responsive: true, Partitions: []int32{0, 1}, Pinned: 0,
				Record: &records[0],
			},
			{ID: "idle", Window: 4, Responsive: true, Partitions: []int32{2}, Pinned: -1, Record: &records[1]},
		},
	}
	at := b.NextCheck(start)
	if at.Sub(start) != checkEvery {
		t.Fatalf("the first check is after %s", at.Sub(start))
	}
	for first := at; at.Before(first.Add(busyAfter)); at = b.NextCheck(at.Add(checkEvery)) {
		if moves := b.Moves(load, at); len(moves) > 0 {
			t.Fatalf("after %s: %v", at.Sub(start), moves)
		}
	}
	want := []Move{{Partition: 1, From: "busy", To: "idle", Reason: ReasonBacklog, Pods: 3}}
	if diff := cmp.Diff(want, b.Moves(load, at)); diff != "" {
		t.Error(diff)
	}
}
