package follow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// poisoned is a log with a record in the middle that no reader can decode.
type poisoned struct {
	log *memlog.Log
	h   statetest.History
	// at is the sequence of the record.
	at uint64
}

// hold occupies the sequence of a record that is not a fact.
func (p *poisoned) hold(t *testing.T, m eventlog.Message) {
	t.Helper()
	tail := eventlog.Tail{Sequence: uint64(len(p.h.Facts))}
	last, err := p.log.Append(t.Context(), eventlog.Facts, tail, []eventlog.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	p.at = last
	p.h.Facts = append(p.h.Facts, events.SequencedFact{Sequence: last, Fact: events.Fact{Epoch: p.h.Epoch}})
}

// unusable checks that a member waits: it has not ended, and no kind has progress.
func (m *member) unusable(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.problem != nil {
		t.Fatal(m.mu.problem)
	}
	if m.mu.store == nil {
		t.Fatal("no reset came")
	}
	if rv, known := m.mu.store.Position().Progress(events.KindPod); known {
		t.Errorf("progress %d in spite of a fact that is missing", rv)
	}
}

// clean checks that nothing of the record has been applied.
func (m *member) clean(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.mu.store.Snapshot().PodByName("default", "poison"); known {
		t.Error("the poison has come in")
	}
}

// A record that cannot be read is a hole in the facts. Readers wait for an epoch that starts from scratch, whether
// they are running or start before the hole, from a snapshot or without one. When that epoch has come they see all
// of it, and so does a reader that starts later: the record stays in the log.
func TestPoisonIsWaitedOut(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		for _, snapped := range []bool{false, true} {
			name := poison.Name
			if snapped {
				name += ", with a snapshot"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { waitedOut(t, poison.Message, snapped, time.Sleep) })
			})
		}
	}
}

func waitedOut(t *testing.T, poison eventlog.Message, snapped bool, pause func(time.Duration)) {
	p := poisoned{log: memlog.New(memlog.Options{ReadBatch: 2}), h: statetest.History{Epoch: 1}}
	pods(&p.h, "a", "b")
	write(t, p.log, p.h.Facts...)
	if snapped {
		snapshot(t, p.log, p.h.Facts[:3])
	}
	runs := start(p.log)
	defer runs.stop()
	synctest.Wait()
	runs.sees(t, p.h.Facts)
	p.hold(t, poison)
	behind := len(p.h.Facts)
	pods(&p.h, "c")
	write(t, p.log, p.h.Facts[behind:]...)
	restarted := start(p.log)
	defer restarted.stop()
	pause(settle)
	runs.unusable(t)
	restarted.unusable(t)
	runs.clean(t)
	restarted.clean(t)

	published := len(p.h.Facts)
	beginResetEpoch(&p.h)
	pods(&p.h, "a", "c")
	p.h.EndEpoch()
	pods(&p.h, "d")
	write(t, p.log, p.h.Facts[published:]...)
	pause(2 * settle)
	late := start(p.log)
	defer late.stop()
	pause(settle)
	for _, m := range []*member{runs, restarted, late} {
		m.sees(t, p.h.Facts[published:])
	}
	// A snapshot after it does not change that either.
	snapshot(t, p.log, p.h.Facts[published:])
	last := len(p.h.Facts)
	pods(&p.h, "e")
	write(t, p.log, p.h.Facts[last:]...)
	later := start(p.log)
	defer later.stop()
	pause(settle)
	for _, m := range []*member{runs, restarted, late, later} {
		m.sees(t, p.h.Facts[published:])
	}
}

// The hole may be the first record, or the last, or the begin of an epoch, and there may be several.
func TestPoisonAnywhere(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		t.Run(poison.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := poisoned{log: memlog.New(memlog.Options{ReadBatch: 3}), h: statetest.History{Epoch: 1}}
				p.hold(t, poison.Message)
				pods(&p.h, "a")
				write(t, p.log, p.h.Facts[1:]...)
				p.h.BeginEpoch()
				p.h.Facts = p.h.Facts[:len(p.h.Facts)-1]
				p.hold(t, poison.Message) // in place of the begin
				from := len(p.h.Facts)
				pods(&p.h, "b")
				write(t, p.log, p.h.Facts[from:]...)
				p.hold(t, poison.Message)
				m := start(p.log)
				defer m.stop()
				time.Sleep(settle)
				m.unusable(t)
				published := len(p.h.Facts)
				beginResetEpoch(&p.h)
				pods(&p.h, "c")
				p.h.EndEpoch()
				write(t, p.log, p.h.Facts[published:]...)
				time.Sleep(2 * settle)
				m.sees(t, p.h.Facts[published:])
			})
		})
	}
}

// The log loses the record with its tail: then there is no hole, and no epoch that starts from scratch is needed.
func TestPoisonThatIsLost(t *testing.T) {
	for _, poison := range statetest.PoisonFacts(1) {
		t.Run(poison.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := poisoned{log: memlog.New(memlog.Options{}), h: statetest.History{Epoch: 1}}
				pods(&p.h, "a", "b")
				write(t, p.log, p.h.Facts...)
				m := start(p.log)
				defer m.stop()
				synctest.Wait()
				p.hold(t, poison.Message)
				time.Sleep(settle)
				m.unusable(t)
				p.log.LoseTail(eventlog.Facts, 3)
				p.h.Facts = p.h.Facts[:3]
				p.h.BeginEpoch()
				pods(&p.h, "c")
				p.h.EndEpoch()
				write(t, p.log, p.h.Facts[3:]...)
				time.Sleep(2 * settle)
				m.sees(t, p.h.Facts)
			})
		})
	}
}

// A snapshot that cannot be read counts as none: the content of the log is used.
func TestSnapshotThatCannotBeRead(t *testing.T) {
	var h statetest.History
	pods(&h, "a", "b")
	whole, _, err := storeOf(t, h.Facts[:2]).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": {}, "noise": []byte("noise"), "ends early": whole[:len(whole)-2], "a later version": {8, 99},
		"a pod that is none": append(whole[:len(whole):len(whole)], 0x32, 8, 0xa, 3, 'p', 'o', 'd', 0x1a, 1, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Options{})
				write(t, log, h.Facts...)
				if err := log.Put(t.Context(), eventlog.Facts, 2, data); err != nil {
					t.Fatal(err)
				}
				m := start(log)
				defer m.stop()
				time.Sleep(settle)
				m.sees(t, h.Facts)
			})
		})
	}
}

// FuzzRecords: whatever the log contains, applying it leads to a state, with or without a hole, and to nothing
// else.
func FuzzRecords(f *testing.F) {
	for _, p := range statetest.PoisonFacts(1) {
		h := p.Message.Header
		f.Add(h.Get(eventlog.HeaderSchema), h.Get(eventlog.HeaderKind), h.Get(eventlog.HeaderOp), h.Get(eventlog.HeaderUID),
			h.Get(eventlog.HeaderEpoch), p.Message.Data)
	}
	f.Fuzz(func(t *testing.T, schema, kind, op, uid, number string, data []byte) {
		var h follow.History
		store, err := h.Begin(0, nil, 2).Store()
		if err != nil {
			t.Fatal(err)
		}
		header := eventlog.NewHeader(map[string]string{
			eventlog.HeaderSchema: schema, eventlog.HeaderKind: kind, eventlog.HeaderOp: op, eventlog.HeaderUID: uid,
			eventlog.HeaderEpoch: number, eventlog.HeaderProgress: number,
		})
		for n := range uint64(3) {
			r := eventlog.Record{Message: eventlog.Message{Header: header, Data: data}, Sequence: n + 1}
			facts, err := h.Take([]eventlog.Record{r})
			if errors.Is(err, follow.ErrHistory) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Apply(facts); err != nil {
				t.Fatal(err)
			}
		}
	})
}
