package eventstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

func checkSnapshot(t *testing.T, snapshots eventlog.Snapshots, s eventlog.Stream, sequence uint64, data []byte) {
	t.Helper()
	gotSequence, gotData, ok, err := snapshots.Latest(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if !ok || gotSequence != sequence || !bytes.Equal(gotData, data) {
		t.Errorf("snapshot of %s: ok %t, sequence %d, %d bytes; want sequence %d, %d bytes",
			s, ok, gotSequence, len(gotData), sequence, len(data))
	}
}

func testSnapshots(t *testing.T, target Target) {
	for _, s := range eventlog.Streams() {
		if _, _, ok, err := target.Snapshots.Latest(within(t), s); ok || err != nil {
			t.Fatalf("snapshot of %s before the first put: ok %t, error %v", s, ok, err)
		}
	}
	for _, put := range []struct {
		sequence uint64
		data     string
	}{{3, "first"}, {9, "second"}, {9, ""}, {4, "older: the log lost its tail"}} {
		if err := target.Snapshots.Put(within(t), eventlog.Facts, put.sequence, []byte(put.data)); err != nil {
			t.Fatal(err)
		}
		checkSnapshot(t, target.Snapshots, eventlog.Facts, put.sequence, []byte(put.data))
	}
	if _, _, ok, err := target.Snapshots.Latest(within(t), eventlog.Decisions); ok || err != nil {
		t.Fatalf("snapshot of the other stream: ok %t, error %v", ok, err)
	}
	if err := target.Snapshots.Put(within(t), "NONSENSE", 1, nil); err == nil {
		t.Error("put for a stream that does not exist: no error")
	}
}

// largeSnapshot is several times the size that one message may have.
const largeSnapshot = 5<<20 + 17

func testLargeSnapshot(t *testing.T, target Target) {
	source := rand.NewChaCha8([32]byte{'b', 'e', 'r', 't', 'h'})
	for sequence := range uint64(3) {
		data := make([]byte, largeSnapshot)
		_, _ = source.Read(data) // never fails
		if err := target.Snapshots.Put(within(t), eventlog.Facts, sequence, data); err != nil {
			t.Fatal(err)
		}
		checkSnapshot(t, target.Snapshots, eventlog.Facts, sequence, data)
	}
}

func subscribe(t *testing.T, bus eventlog.Bus, subject string, handle func([]byte)) (stop func()) {
	t.Helper()
	stop, err := bus.Subscribe(subject, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}

// testBus: every subscriber of exactly that subject gets the messages of one publisher in order and once.
func testBus(t *testing.T, target Target) {
	const count = 200
	first, second := make(chan string, 2*count), make(chan string, 2*count)
	subscribe(t, target.Bus, "work.offers.a", func(data []byte) { first <- string(data) })
	stop := subscribe(t, target.Bus, "work.offers.a", func(data []byte) { second <- string(data) })
	subscribe(t, target.Bus, "work.offers.b", func(data []byte) { t.Errorf("message %q on another subject", data) })
	publish := func(text string) {
		if err := target.Bus.Publish("work.offers.a", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range count {
		publish(fmt.Sprint(n))
	}
	for n := range count {
		if got := [2]string{<-first, <-second}; got[0] != fmt.Sprint(n) || got[1] != got[0] {
			t.Fatalf("message %d arrived as %q", n, got)
		}
	}
	stop()
	stop()
	publish("only the first")
	if got := <-first; got != "only the first" {
		t.Fatalf("got %q after the other subscriber stopped", got)
	}
	if len(first)+len(second) > 0 {
		t.Errorf("%d and %d messages too many", len(first), len(second))
	}
}

// testBusNotStored: a subscriber receives no earlier messages.
func testBusNotStored(t *testing.T, target Target) {
	if err := target.Bus.Publish("work.request", []byte("before")); err != nil {
		t.Fatal(err)
	}
	// Another subscription proves that the message has passed before the subscription under test.
	received := make(chan string, 10)
	subscribe(t, target.Bus, "work.request", func(data []byte) { received <- string(data) })
	if err := target.Bus.Publish("work.request", []byte("after")); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "after" {
		t.Errorf("heard %q", got)
	}
}

// testBusAnswers: a handler may publish, also to the publisher of the message it handles.
func testBusAnswers(t *testing.T, target Target) {
	const rounds = 50
	done := make(chan struct{})
	publish := func(subject string, data []byte) {
		if err := target.Bus.Publish(subject, data); err != nil {
			t.Error(err)
		}
	}
	subscribe(t, target.Bus, "ping", func(data []byte) { publish("pong", append(data, 'x')) })
	subscribe(t, target.Bus, "pong", func(data []byte) {
		if len(data) == rounds {
			close(done)
			return
		}
		publish("ping", data)
	})
	publish("ping", nil)
	<-done
}

func testBusRefusals(t *testing.T, target Target) {
	for _, subject := range []string{"", "a..b", "a.*", "a.>", "a b", ".a", "a."} {
		if err := target.Bus.Publish(subject, nil); err == nil {
			t.Errorf("publish to %q: no error", subject)
		}
		if _, err := target.Bus.Subscribe(subject, func([]byte) {}); err == nil {
			t.Errorf("subscribe to %q: no error", subject)
		}
	}
}
