package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// ViewBatch is one step of Follow, for View.Fold.
type ViewBatch struct {
	// Reset: KVs is the whole ledger as read at Events.Revision; Events.Events is empty.
	Reset bool
	KVs   []KV
	// Events are every change up to and including Events.Revision.
	Events EventBatch
}

// followBackoff spaces the attempts after a broken watch or a failed list: 0.1 s doubling
// to 5 s. followQuiet without a failure starts it anew.
var followBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond,
	Factor:   2,
	Jitter:   0.1,
	Cap:      5 * time.Second,
	Steps:    10,
}

const (
	followQuiet = 30 * time.Second
	// followAttempts is how many attempts in a row may learn nothing, about two minutes in
	// all, before Follow gives up: a member that cannot know what is promised should say so
	// and be restarted rather than look alive.
	followAttempts = 30
)

// Follow sends the whole ledger (Reset), then every change of it in order, to out until
// ctx ends (it returns nil) or the store stays unreachable through followAttempts (it
// returns the last error). A broken watch resumes where it broke; if that revision is
// compacted, a new Reset follows. Out is not closed.
func Follow(ctx context.Context, store Store, out chan<- ViewBatch) error {
	f := follower{store: store, out: out}
	failures := 0
	delay := followBackoff.DelayWithReset(clock.RealClock{}, followQuiet)
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		progress, err := f.run(ctx)
		if errors.Is(err, ErrCompacted) {
			f.revision = 0
		}
		failures++
		if progress {
			failures = 0
		}
		if failures >= followAttempts {
			return false, fmt.Errorf("ledger: follow from revision %d: gave up after %d attempts: %w", f.revision, failures, err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follower remembers up to where out has been told everything; 0 is nothing.
type follower struct {
	store    Store
	out      chan<- ViewBatch
	revision int64
}

// run lists if it must, then watches until the watch breaks. It says whether out was told
// anything.
func (f *follower) run(ctx context.Context) (progress bool, err error) {
	if f.revision == 0 {
		kvs, revision, err := f.store.List(ctx, "")
		if err != nil {
			return false, err
		}
		progress = f.send(ctx, ViewBatch{Reset: true, KVs: kvs, Events: EventBatch{Revision: revision}})
		if !progress {
			return false, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := f.store.Watch(ctx, "", f.revision+1)
	for b := range w.Batches() {
		if !f.send(ctx, ViewBatch{Events: b}) {
			return progress, ctx.Err()
		}
		progress = true
	}
	if err := w.Err(); err != nil {
		return progress, err
	}
	return progress, errors.New("ledger: the watch ended without a reason")
}

func (f *follower) send(ctx context.Context, b ViewBatch) bool {
	select {
	case f.out <- b:
		f.revision = b.Events.Revision
		return true
	case <-ctx.Done():
		return false
	}
}
