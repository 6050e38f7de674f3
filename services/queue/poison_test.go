package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue"
)

// put appends a record to a stream, as any client with the permission could.
func (w *world) put(s eventlog.Stream, m eventlog.Message) uint64 {
	w.t.Helper()
	last, err := w.log.Append(w.t.Context(), s, eventlog.AnySequence, []eventlog.Message{m})
	if err != nil {
		w.t.Fatal(err)
	}
	return last
}

// reader is a reader of the facts other than the queues.
type reader struct {
	mu    sync.Mutex
	store *state.Store
}

// read starts a reader, which runs to the end of the test.
func (w *world) read() *reader {
	r := &reader{store: state.New()}
	ctx, cancel := context.WithCancel(context.Background())
	batches, ended := make(chan follow.Batch), make(chan error, 2)
	go func() { ended <- follow.New(w.log, w.log).Run(ctx, batches) }()
	go func() { ended <- r.take(ctx, batches) }()
	w.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			w.t.Errorf("a reader of the facts: %v", err)
		}
	})
	return r
}

func (r *reader) take(ctx context.Context, batches <-chan follow.Batch) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-batches:
			if err := r.apply(b); err != nil {
				return err
			}
		}
	}
}

func (r *reader) apply(b follow.Batch) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Reset {
		r.store, err = b.Store()
		return err
	}
	_, err = r.store.Apply(b.Facts)
	return err
}

// sees reports whether the reader has complete state, with a given pod in it.
func (r *reader) sees(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.store.Position().Progress(events.KindPod)
	_, there := r.store.Snapshot().PodByName("default", name)
	_, poison := r.store.Snapshot().PodByName("default", "poison")
	return known && there && !poison
}

// newPodIsSeen waits until a newly created pod is offered, and seen by readers.
func (w *world) newPodIsSeen(name string, readers ...*reader) {
	w.t.Helper()
	w.api.Set(pod(name, 0))
	w.offered(name)
	for _, r := range readers {
		w.eventually("a reader sees pod "+name, func() bool { return r.sees(name) })
	}
}

// offered waits until a pod is offered.
func (w *world) offered(name string) {
	w.t.Helper()
	w.eventually("pod "+name+" is offered", func() bool {
		w.ask(100)
		for {
			select {
			case b := <-w.offers:
				if slices.Contains(podNames(b.Offers), name) {
					return true
				}
			default:
				return false
			}
		}
	})
}

// An undecodable decision ends no queue, neither one that runs nor one that starts with it in the log.
func TestDecisionsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	w.newPodIsSeen("a")
	for _, m := range eventstest.PoisonDecisions() {
		w.put(eventlog.Decisions, m)
	}
	w.newPodIsSeen("b")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.start("queue-b")
	w.offered("b") // once more
	w.newPodIsSeen("c")
}

// An undecodable fact makes the leading queue republish the facts, whether it runs at that time or starts with the
// fact in the log; and the log stays usable for all readers that start later.
func TestFactsThatCannotBeRead(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		for name, running := range map[string]bool{"running": true, "on restart": false} {
			t.Run(poison.Name+", "+name, func(t *testing.T) {
				t.Parallel()
				poisonsFacts(t, poison.Message, running)
			})
		}
	}
}

func poisonsFacts(t *testing.T, poison eventlog.Message, running bool) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	early := w.read()
	w.newPodIsSeen("a", early)
	end := func() {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if !running {
		end()
	}
	at := w.put(eventlog.Facts, poison)
	if !running {
		_, stop = w.startWith(queue.Config{ID: "queue-b", Profiles: profiles()})
	}
	w.eventually("the facts are told anew", func() bool { return w.republishedBehind(at) })
	late := w.read()
	w.newPodIsSeen("b", early, late)
	end()
	last, err := w.log.Last(t.Context(), eventlog.Facts)
	if err != nil {
		t.Fatal(err)
	}
	w.start("queue-c")
	w.newPodIsSeen("c", early, late, w.read())
	if w.republishedBehind(last) {
		t.Error("who starts later tells everything anew once more")
	}
}

// The log loses its tail, and an undecodable fact takes the place of one that a snapshot stands for: a reader that
// begins from the snapshot has nothing behind it to read.
func TestFactThatCannotBeReadAtTheEndOfASnapshot(t *testing.T) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	w.newPodIsSeen("a")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	store, _ := w.replay()
	data, sequence, err := store.Snapshot().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.log.Put(t.Context(), eventlog.Facts, sequence, data); err != nil {
		t.Fatal(err)
	}
	w.log.LoseTail(eventlog.Facts, sequence-1)
	if at := w.put(eventlog.Facts, statetest.PoisonFacts(1)[0].Message); at != sequence {
		t.Fatalf("the fact that cannot be read is at %d, want %d, where the snapshot ends", at, sequence)
	}
	w.start("queue-b")
	w.newPodIsSeen("b", w.read())
}

// republishedBehind reports whether a fact behind a sequence republishes everything.
func (w *world) republishedBehind(sequence uint64) bool {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context(), eventlog.Facts)
	if err != nil || last <= sequence {
		return false
	}
	reader, err := w.log.Read(w.t.Context(), eventlog.Facts, sequence+1)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	for at := sequence; at < last; {
		records, err := reader.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			if f, err := events.DecodeFact(r); err == nil && f.StartsFromScratch() {
				return true
			}
			at = r.Sequence
		}
	}
	return false
}

// An undecodable record of the ledger's history does not keep a queue from leading.
func TestHistoryOfTheLedgerThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	w.newPodIsSeen("a")
	w.put(eventlog.Ledger, eventlog.Message{Subject: eventlog.SubjectLedgerChanges, Data: []byte("poison")})
	w.newPodIsSeen("b")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.put(eventlog.Ledger, eventlog.Message{Subject: eventlog.SubjectLedgerPicture})
	w.start("queue-b")
	w.offered("b")
	w.newPodIsSeen("c")
}

// Undecodable snapshots count as none.
func TestSnapshotsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	_, stop := w.start("queue-a")
	w.takePartitions()
	w.newPodIsSeen("a")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []eventlog.Stream{eventlog.Facts, eventlog.Decisions} {
		if err := w.log.Put(t.Context(), s, 1, []byte("poison")); err != nil {
			t.Fatal(err)
		}
	}
	w.start("queue-b")
	w.newPodIsSeen("b")
}
