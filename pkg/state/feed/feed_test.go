package feed_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settle is longer than any wait of a follower, in the bubble's time.
const settle = time.Minute

// process is a feed with its readers.
type process struct {
	t    *testing.T
	log  *memlog.Log
	h    statetest.History
	feed *feed.Feed
	ctx  context.Context
	stop func()
	done sync.WaitGroup
}

// reader keeps what one Follow has delivered: the last step, and the pods by UID that the changes alone lead to.
type reader struct {
	// gate holds the reader up while its one token is taken. (Waiting for a mutex would hold up the bubble's time.)
	gate chan struct{}
	mu   struct {
		sync.Mutex
		last    feed.Step
		resets  int
		steps   int
		pods    map[string]*state.Pod
		problem string
		// unreadable is that of the last Reset.
		unreadable error
	}
}

// begin returns a feed of an empty log. Call end before the bubble ends.
func begin(t *testing.T) *process {
	t.Helper()
	log := memlog.New(memlog.Options{ReadBatch: 2})
	ctx, cancel := context.WithCancel(t.Context())
	return &process{t: t, log: log, h: statetest.History{Epoch: 1}, feed: feed.New(log, log), ctx: ctx, stop: cancel}
}

func (p *process) end() {
	p.stop()
	p.done.Wait()
}

func (p *process) read() *reader { return p.readUntil(p.ctx) }

// readUntil starts a reader that leaves when ctx ends.
func (p *process) readUntil(ctx context.Context) *reader {
	r := &reader{gate: make(chan struct{}, 1)}
	out := make(chan feed.Step)
	p.done.Go(func() {
		defer close(out)
		if err := p.feed.Follow(ctx, out); err != nil {
			p.t.Error(err)
		}
	})
	p.done.Go(func() {
		for step := range out {
			r.gate <- struct{}{}
			r.take(step)
			<-r.gate
		}
	})
	return r
}

func (r *reader) take(step feed.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case step.Reset:
		r.mu.resets++
		r.mu.unreadable = step.Unreadable
		r.mu.pods = map[string]*state.Pod{}
		for pod := range step.Snapshot.Pods() {
			r.mu.pods[pod.UID] = pod
		}
	case r.mu.pods == nil:
		r.mu.problem = "a step before the first reset"
		return
	}
	for _, c := range step.Changes.Pods {
		uid := ""
		if c.Before != nil {
			uid = c.Before.UID
		}
		if r.mu.pods[uid] != c.Before {
			r.mu.problem = fmt.Sprintf("the change of pod %q does not begin where the reader is", uid)
		}
		delete(r.mu.pods, uid)
		if c.After != nil {
			r.mu.pods[c.After.UID] = c.After
		}
	}
	r.mu.steps++
	r.mu.last = step
}

// unreadable returns what the last Reset said about the stored snapshot.
func (r *reader) unreadable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.unreadable
}

func (r *reader) last() feed.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.last
}

func (r *reader) steps() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.steps
}

func (r *reader) pods() map[string]*state.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mu.pods)
}

// sees checks that a reader has the state to which the facts of the log lead.
func (p *process) sees(r *reader) (resets int) {
	p.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.problem != "" {
		p.t.Fatal(r.mu.problem)
	}
	if r.mu.last.Snapshot == nil {
		p.t.Fatal("no step came")
	}
	store := state.New()
	if _, err := store.Apply(p.h.Facts); err != nil {
		p.t.Fatal(err)
	}
	got, want := content(r.mu.last.Snapshot), content(store.Snapshot())
	if got != want {
		p.t.Fatalf("the reader has\n%s\nwant\n%s", got, want)
	}
	for uid, pod := range r.mu.pods {
		if has, ok := r.mu.last.Snapshot.Pod(uid); !ok || has != pod {
			p.t.Fatalf("pod %s: the changes do not lead to the snapshot", uid)
		}
	}
	return r.mu.resets
}

func content(s *state.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sequence %d epoch %d", s.Position().Sequence, s.Position().Epoch)
	for pod := range s.Pods() {
		fmt.Fprintf(&b, "\n%s/%s %s %d", pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion)
	}
	return b.String()
}

// pods writes a fact about each pod to the log.
func (p *process) pods(names ...string) {
	p.t.Helper()
	from := len(p.h.Facts)
	for _, name := range names {
		p.h.Upsert(events.KindPod, pod(name))
	}
	p.write(p.h.Facts[from:])
}

func (p *process) write(facts []events.SequencedFact) {
	p.t.Helper()
	for _, f := range facts {
		messages := []eventlog.Message{events.EncodeFact(f.Fact)}
		if _, err := p.log.Append(p.ctx, eventlog.Facts, eventlog.Tail{Sequence: f.Sequence - 1}, messages); err != nil {
			p.t.Fatal(err)
		}
	}
}

func pod(name string) *corev1.Pod { return statetest.Pod("default", name, "cpu", "1") }

// TestReadersShareObjects: the same pod is one object for all readers.
func TestReadersShareObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		a, b := p.read(), p.read()
		p.pods("x", "y")
		time.Sleep(settle)
		p.sees(a)
		p.sees(b)
		mine := a.pods()
		other := b.pods()
		for uid, pod := range mine {
			if other[uid] != pod {
				t.Errorf("pod %s is two objects", uid)
			}
		}
	})
}

// TestLateReaderHasItsOwnBarrier: a reader that comes late has no progress until it has all that was in the log when it
// came, although the feed has.
func TestLateReaderHasItsOwnBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		early := p.read()
		p.pods("x")
		p.h.Bookmark(events.KindPod)
		p.write(p.h.Facts[1:])
		time.Sleep(settle)
		if _, ok := early.last().Snapshot.Position().Progress(events.KindPod); !ok {
			t.Fatal("the early reader has no progress")
		}
		p.pods("y", "z") // the feed has not read these when the late reader comes
		late := p.read()
		time.Sleep(settle)
		p.sees(early)
		if resets := p.sees(late); resets != 1 {
			t.Errorf("%d resets, want 1", resets)
		}
		step := late.last()
		if _, ok := step.Snapshot.Position().Progress(events.KindPod); !ok || step.Barrier != 4 {
			t.Errorf("at the end: progress %v, barrier %d", ok, step.Barrier)
		}
		if before := step.Snapshot.Behind(5).Position(); before.String() == step.Snapshot.Position().String() {
			t.Error("a barrier ahead of the position shows nowhere")
		}
	})
}

// TestSlowReader: a reader that is held up holds up no other, and then catches up in large steps.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		slow, fast := p.read(), p.read()
		p.pods("first")
		time.Sleep(settle)
		slow.gate <- struct{}{}
		const pods = 3000
		for i := range pods {
			p.pods(fmt.Sprint("p", i))
			synctest.Wait()
		}
		time.Sleep(settle)
		if resets := p.sees(fast); resets != 1 {
			t.Errorf("fast reader: %d resets, want 1", resets)
		}
		<-slow.gate
		time.Sleep(settle)
		if resets, steps := p.sees(slow), slow.steps(); resets != 1 || steps > 10 {
			t.Errorf("slow reader: %d resets and %d steps, want 1, and a few for %d pods", resets, steps, pods)
		}
		p.pods("last")
		time.Sleep(settle)
		p.sees(slow)
		p.sees(fast)
	})
}

// TestLostTail: all readers start again when the log has lost what they have read.
func TestLostTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		a, b := p.read(), p.read()
		p.pods("x", "lost")
		time.Sleep(settle)
		p.log.LoseTail(eventlog.Facts, 1)
		p.h.Facts = p.h.Facts[:1]
		p.h.BeginEpoch()
		p.h.Upsert(events.KindPod, pod("x"))
		p.h.EndEpoch()
		p.write(p.h.Facts[1:])
		time.Sleep(settle)
		for _, r := range []*reader{a, b} {
			if resets := p.sees(r); resets != 2 {
				t.Errorf("%d resets, want 2", resets)
			}
		}
		if got := a.last().Barrier; got > a.last().Snapshot.Position().Sequence {
			t.Errorf("the barrier %d is one of the log before its loss", got)
		}
	})
}

// TestLateReaderOfALostHistory: a reader that comes between a loss and its discovery gets nothing of what is lost.
func TestLateReaderOfALostHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		early := p.read()
		p.pods("x", "lost", "too")
		time.Sleep(settle)
		p.sees(early)
		p.log.LoseTail(eventlog.Facts, 1)
		late := p.read()
		synctest.Wait()
		if n := late.steps(); n != 0 {
			t.Fatalf("the late reader has got %d steps of what is lost", n)
		}
		p.h.Facts = p.h.Facts[:1]
		p.h.BeginEpoch()
		p.h.Upsert(events.KindPod, pod("x"))
		p.h.EndEpoch()
		p.write(p.h.Facts[1:])
		time.Sleep(settle)
		p.sees(early)
		p.sees(late)
	})
}

// TestReadersComeAndGo: the feed goes on while one reader is left, and begins again after the last has left.
func TestReadersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		first, leave := context.WithCancel(p.ctx)
		p.readUntil(first)
		second, leaveToo := context.WithCancel(p.ctx)
		r := p.readUntil(second)
		p.pods("x")
		time.Sleep(settle)
		leave()
		p.pods("y")
		time.Sleep(settle)
		if resets := p.sees(r); resets != 1 {
			t.Errorf("%d resets, want 1", resets)
		}
		leaveToo()
		synctest.Wait()
		p.pods("z")
		again := p.read()
		time.Sleep(settle)
		p.sees(again)
	})
}

// TestUnreadableSnapshot: each reader gets to know that the facts are read without the snapshot that is stored.
func TestUnreadableSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(t)
		defer p.end()
		p.pods("x")
		if err := p.log.Put(p.ctx, eventlog.Facts, 1, []byte("no snapshot")); err != nil {
			t.Fatal(err)
		}
		early := p.read()
		time.Sleep(settle)
		late := p.read()
		time.Sleep(settle)
		for _, r := range []*reader{early, late} {
			p.sees(r)
			if r.unreadable() == nil {
				t.Error("the reset says nothing about the snapshot")
			}
		}
	})
}

// TestFold: steps lead where the facts alone lead, and the steps of a folder share what did not change.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := statetest.Draw(t, 60)
		folder, twin := feed.NewFolder(), state.New()
		for len(h.Facts) > 0 {
			n := rapid.IntRange(1, len(h.Facts)).Draw(t, "facts of a batch")
			step, err := folder.Fold(follow.Batch{Facts: h.Facts[:n]})
			changes, want := twin.Apply(h.Facts[:n])
			if (err == nil) != (want == nil) {
				t.Fatalf("error %v, want %v", err, want)
			}
			if err != nil {
				return
			}
			if len(step.Changes.Pods) != len(changes.Pods) || content(step.Snapshot) != content(twin.Snapshot()) {
				t.Fatalf("the step leads to\n%s\nwant\n%s", content(step.Snapshot), content(twin.Snapshot()))
			}
			h.Facts = h.Facts[n:]
		}
	})
}
