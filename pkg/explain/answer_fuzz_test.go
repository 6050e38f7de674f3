package explain

import (
	"encoding/json"
	"io"
	"testing"
	"time"
)

// FuzzAnswers checks that any answer on the bus is shown or refused, and never causes a panic.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"Member":"queue-0","Known":true,"Pool":"parked","Where":{"UID":"u"},"Wakes":[{"Plugin":"a","Events":["b"]}]}`,
		`{"Status":{"Members":[{"Role":"scheduler","ID":"a"}]},"FactSequence":7}`,
		`{"Member":"s","Pod":{"Classes":[{"Nodes":1,"Failures":[{"Plugin":"p","Reasons":["r"],"Misses":[{}]}]}]}}`,
		`{"Node":{"Name":"n","Amounts":[{"Name":"cpu","Allocatable":-1}],"Pods":[{"UID":"u"}]}}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, fromQueue, fromShard []byte) {
		var queue QueueAnswer
		var shard ShardAnswer
		if json.Unmarshal(fromQueue, &queue) != nil || json.Unmarshal(fromShard, &shard) != nil {
			return
		}
		for _, wide := range []bool{false, true} {
			s := &Story{Queue: &queue, Shard: shard.Pod}
			if err := s.Text(io.Discard, now, wide); err != nil {
				t.Error(err)
			}
			if shard.Node != nil {
				if err := shard.Node.Text(io.Discard, shard.Member, wide); err != nil {
					t.Error(err)
				}
			}
		}
		o := NewOverview(&queue, []ShardAnswer{shard}, 1, "")
		if err := o.Text(io.Discard, now); err != nil {
			t.Error(err)
		}
	})
}
