package replica

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Batch is one step of Follow, for View.Fold.
type Batch struct {
	// Reset reports that KVs is the whole ledger as read at Events.Revision; Events.Events is then empty.
	Reset bool
	KVs   []ledger.KV
	// Store is the identity of the store, on a Reset.
	Store uint64
	// Restart marks a Reset that does not continue from earlier batches, of a ledger that went back; it occurs in
	// histories only.
	Restart bool
	// Events are every change up to and including Events.Revision that earlier batches do not have.
	Events ledger.EventBatch
}

// followBackoff spaces the attempts after a broken watch or a failed list: 0.1 s doubling to 5 s. After followQuiet
// without a failure the delay starts again at 0.1 s.
var followBackoff = wait.Backoff{
	Duration: 100 * time.Millisecond,
	Factor:   2,
	Jitter:   0.1,
	Cap:      5 * time.Second,
	Steps:    10,
}

const followQuiet = 30 * time.Second

// Follow sends the whole ledger (Reset), then every change of it in order, to out until ctx ends, and then returns
// nil. It retries a store that cannot be reached indefinitely, with growing delays: a member without a ledger
// decides nothing, and loses nothing by waiting. A broken watch resumes where it broke; if that revision is
// compacted, a new Reset follows. If the store is another one or went back, Follow returns *StoreReplacedError. It does
// not close out.
func Follow(ctx context.Context, store ledger.Store, out chan<- Batch) error {
	f := follower{store: store, out: out}
	delay := followBackoff.DelayWithReset(clock.RealClock{}, followQuiet)
	var anew *ledger.StoreReplacedError
	// The only other error Until can return here is that ctx has ended.
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := f.run(ctx)
		if errors.Is(err, ledger.ErrCompacted) {
			f.revision = 0
		}
		return errors.As(err, &anew), nil
	})
	if anew != nil {
		return anew
	}
	return nil
}

// follower remembers the revision up to which everything has been sent to out; 0 if nothing was.
type follower struct {
	store    ledger.Store
	out      chan<- Batch
	revision int64
}

// run lists if it has to, then watches until the watch breaks.
func (f *follower) run(ctx context.Context) error {
	if f.revision == 0 {
		kvs, revision, err := f.store.List(ctx, "")
		if err != nil {
			return err
		}
		id, err := f.store.ID(ctx)
		if err != nil {
			return err
		}
		if !f.send(ctx, Batch{Reset: true, KVs: kvs, Store: id, Events: ledger.EventBatch{Revision: revision}}) {
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := f.store.Watch(ctx, "", f.revision+1)
	for b := range w.Batches() {
		if !f.send(ctx, Batch{Events: b}) {
			return ctx.Err()
		}
	}
	return w.Err()
}

// send passes a batch on, and reports false if ctx ended first. The follower's revision moves only after the receiver
// has the batch, so a retry neither skips nor repeats one.
func (f *follower) send(ctx context.Context, b Batch) bool {
	select {
	case f.out <- b:
		f.revision = b.Events.Revision
		return true
	case <-ctx.Done():
		return false
	}
}
