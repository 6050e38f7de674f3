package events_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// TestNoTextMakesADecisionTooLarge: the log accepts a decision whatever its texts are, such as the UID of an owner,
// which a pod's author writes. Only the pod's name, whose length the API server limits, is never cut.
func TestNoTextMakesADecisionTooLarge(t *testing.T) {
	long := strings.Repeat("x", 2*eventlog.MaxMessage)
	d := events.Decision{
		Kind:    events.DecisionEvict,
		Pod:     events.PodRef{UID: "uid", Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 253)},
		Plugins: []string{"first", long, long}, Reasons: map[string]int32{long: 1},
		Evidence: &evidence.Evidence{Cause: long, ScoredBy: []string{long}},
	}
	pod := d.Pod
	for v, i := reflect.ValueOf(&d).Elem(), 0; i < v.NumField(); i++ {
		if f := v.Field(i); f.Kind() == reflect.String && v.Type().Field(i).Name != "Kind" {
			f.SetString(long)
		}
	}
	m := events.EncodeDecision(d)
	if err := events.CheckAppend(eventlog.Decisions, []eventlog.Message{m}); err != nil {
		t.Fatal(err)
	}
	got, err := events.DecodeDecision(eventlog.Record{Message: m, Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got.Pod != pod || len(got.Plugins) == 0 || got.Plugins[0] != "first" || !strings.HasPrefix(got.Owner, "xxx") {
		t.Errorf("pod %v, plugins %d, owner of %d bytes", got.Pod, len(got.Plugins), len(got.Owner))
	}
}

// TestBatches: together the batches are the messages, and an Append accepts each batch.
func TestBatches(t *testing.T) {
	var msgs []eventlog.Message
	for i := range 2*eventlog.MaxBatch + 7 {
		msgs = append(msgs, eventlog.Message{Subject: "decisions.a.b", Data: make([]byte, i%11*1000)})
	}
	left := len(msgs)
	for some := range eventlog.Batches(msgs) {
		size := 0
		for i := range some {
			if &some[i] != &msgs[len(msgs)-left+i] {
				t.Fatal("a message is not where it was")
			}
			size += len(some[i].Data)
		}
		left -= len(some)
		if err := events.CheckAppend(eventlog.Decisions, some); err != nil || size > eventlog.BatchBytes {
			t.Errorf("%d bytes, %v", size, err)
		}
	}
	if left != 0 {
		t.Errorf("%d messages are missing", left)
	}
	for range eventlog.Batches(nil) {
		t.Error("a batch of nothing")
	}
}
