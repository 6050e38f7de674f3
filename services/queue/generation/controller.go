package generation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

const (
	// viewCheck is how often the view of the ledger is checked, and viewWait for how long, until it shows what was read
	// from the store.
	viewCheck = 50 * time.Millisecond
	viewWait  = 5 * time.Second
	// retryPause is the wait before the next attempt after an error.
	retryPause = time.Second
)

// errOvertaken means that another process has changed the generation concurrently.
var errOvertaken = errors.New("queue: the ledger generation changed concurrently")

// Evidence holds a leader's knowledge of the ledger before a round that the Controller cannot read itself.
type Evidence struct {
	// Claimed means that the ledger belonged to the cluster before this leader claimed it.
	Claimed bool
	// Recorded is the end of the ledger's history in the log, as it was before this leader recorded any of it. It is
	// zero for a round that follows another round of the same leader, which has recorded history itself.
	Recorded history.Ending
	// WentBack describes which changes the previous round found Kubernetes to have lost; empty for none.
	WentBack string
}

// Checked is the leader's knowledge once the ledger is consistent with Kubernetes and the log of facts.
type Checked struct {
	// FactsAfter is the FactsAfter of the ledger's generation: only facts of later epochs are to be relied upon.
	FactsAfter uint64
	// Reached holds the resourceVersions that the API server had reached during the check, by kind. It is nil if the
	// check did not need them.
	Reached map[events.Kind]uint64
}

// Observed is this replica's view of the ledger and of the log of facts at one moment.
type Observed struct {
	// Revision is the revision of the ledger that the view has reached; 0 before its first list. Generation and Floor
	// are the revisions at which the generation and the floor in the view were written.
	Revision, Generation, Floor int64
	// Open reports whether the view permits decisions at all: no member has closed the ledger.
	Open bool
	// Facts holds the highest resourceVersions in the facts that were read. They must not be changed.
	Facts feed.Seen
	// Ledger holds the highest resourceVersions that the ledger rests on: its high-waters and reservations, by kind.
	Ledger map[events.Kind]uint64
}

// Observer is the port to the goroutine that owns the view of the ledger.
type Observer interface {
	// Observe returns the view as of now. It fails only if ctx ends first.
	Observe(ctx context.Context) (Observed, error)
}

// APIServer is the part of the Kubernetes client that the check needs.
type APIServer interface {
	// Versions returns the resourceVersions that the API server has reached for the kinds of intake.VersionedKinds that
	// it serves, by consistent reads.
	Versions(ctx context.Context) (map[events.Kind]uint64, error)
}

// Deps holds the external systems and the ports of a Controller. All are required.
type Deps struct {
	Ledger   ledger.Store
	Log      eventlog.Log
	API      APIServer
	Observer Observer
	Clock    clock.Clock
	Logger   *slog.Logger
	// Grace is how long a generation stays closed after it was cleared; see Grace.
	Grace time.Duration
}

// Controller brings the ledger into a generation that members can rely upon. The leader's goroutine uses it; it holds
// no state between calls.
type Controller struct{ Deps }

// New returns a controller.
func New(deps Deps) *Controller { return &Controller{deps} }

// Ensure makes sure that the ledger still holds what members have relied upon, and otherwise begins its next
// generation. It retries until it succeeds, ctx ends, or the store turns out to be another one than this member has
// worked with (*ledger.StoreReplacedError). unused is an epoch of facts that is later than any used before.
func (c *Controller) Ensure(ctx context.Context, known Evidence, unused uint64) (Checked, error) {
	for {
		on, err := c.ensureOnce(ctx, known, unused)
		if err == nil || ctx.Err() != nil {
			return on, err
		}
		var anew *ledger.StoreReplacedError
		if errors.As(err, &anew) {
			return Checked{}, err
		}
		c.Logger.Warn("ledger generation not settled; retrying", telemetry.KeyError, err)
		_ = sleep(ctx, c.Clock, retryPause) // it fails when ctx ends, which ensureOnce notices
	}
}

// ensureOnce is one attempt of Ensure. If the previous round has found that Kubernetes went back, nothing is compared
// again: Kubernetes may have passed its earlier versions since.
func (c *Controller) ensureOnce(ctx context.Context, known Evidence, unused uint64) (Checked, error) {
	seen, floor, err := c.evidence(ctx, known)
	if err != nil {
		return Checked{}, err
	}
	on := Checked{FactsAfter: seen.Generation.FactsAfter}
	if seen.WentBack = known.WentBack; seen.WentBack == "" {
		if on.Reached, seen.WentBack, err = c.compare(ctx, seen.Generation, floor); err != nil {
			return Checked{}, err
		}
	}
	verdict, reason := decide.JudgeGeneration(seen)
	switch verdict {
	case decide.GenerationFirst:
		err = c.begin(ctx, seen)
	case decide.GenerationNext:
		return c.renew(ctx, seen, floor, reason, unused)
	}
	return on, err
}

// evidence gathers the input of decide.JudgeGeneration, except whether Kubernetes went back.
func (c *Controller) evidence(
	ctx context.Context, known Evidence,
) (seen decide.LedgerEvidence, floor ledger.Floor, err error) {
	seen.Claimed, seen.Recorded = known.Claimed, known.Recorded.Through
	if seen.Store, err = c.Ledger.ID(ctx); err != nil {
		return seen, floor, err
	}
	if seen.Generation, floor, seen.Revision, err = c.read(ctx); err != nil {
		return seen, floor, err
	}
	last, err := c.Log.Last(ctx, eventlog.Facts)
	if err != nil {
		return seen, floor, fmt.Errorf("queue: last fact: %w", err)
	}
	seen.FactsPublished = last > 0
	if last := known.Recorded.Last; last.ModRevision > 0 {
		kv, _, err := c.readKey(ctx, last.Key)
		if err != nil {
			return seen, floor, err
		}
		seen.Contradicted = known.Recorded.Contradicts(kv)
	}
	return seen, floor, nil
}

// await waits for a view of the ledger that is at least as new as the revisions of generation and floor that were read.
func (c *Controller) await(ctx context.Context, generation, floor int64) (Observed, error) {
	var view Observed
	err := wait.PollUntilContextTimeout(ctx, viewCheck, viewWait, true, func(ctx context.Context) (bool, error) {
		var err error
		view, err = c.Observer.Observe(ctx)
		return view.Revision > 0 && view.Generation >= generation && view.Floor >= floor, err
	})
	if err != nil {
		return Observed{}, fmt.Errorf("queue: wait for the ledger state: %w", err)
	}
	return view, nil
}

// compare reads the resourceVersions that the API server has reached, by kind. wentBack describes a kind for which
// the log of facts or the ledger has a later version, which means that Kubernetes was restored from a backup; it is
// empty if there is none.
func (c *Controller) compare(
	ctx context.Context, current identity.Generation, floor ledger.Floor,
) (now map[events.Kind]uint64, wentBack string, err error) {
	view, err := c.await(ctx, current.Revision, floor.Revision)
	if err != nil {
		return nil, "", err
	}
	// The API server is read last: another leader may still publish facts, and a later fact would look like a
	// restore.
	if now, err = c.API.Versions(ctx); err != nil {
		return nil, "", err
	}
	// Facts up to FactsAfter were published before a restore that the queue has already noticed.
	ofNow := view.Facts.Epoch > current.FactsAfter
	for _, kind := range intake.VersionedKinds {
		at, listed := now[kind]
		published, counted := view.Facts.Versions[kind], view.Ledger[kind]
		switch {
		case !listed:
		case ofNow && at < published:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the log of facts at %d",
				kind, at, published)
		case at < counted:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the ledger rests on %d",
				kind, at, counted)
		}
	}
	return now, wentBack, nil
}

// read reads the generation and the floor, and the revision at which they were read. A member cannot act on
// a value that it cannot decode, so such a value is returned as one that the next generation replaces.
func (c *Controller) read(
	ctx context.Context,
) (current identity.Generation, f ledger.Floor, revision int64, err error) {
	kv, _, err := c.readKey(ctx, identity.KeyGeneration)
	if err != nil {
		return current, f, 0, err
	}
	if kv.ModRevision != 0 {
		if current, err = identity.DecodeGeneration(kv); err != nil {
			current = identity.Generation{Revision: kv.ModRevision, Reason: err.Error()}
		}
	}
	if kv, revision, err = c.readKey(ctx, ledger.KeyFloor); err != nil {
		return current, f, 0, err
	}
	if kv.ModRevision != 0 {
		if f, err = codec.DecodeFloor(kv); err != nil {
			f = ledger.Floor{Revision: kv.ModRevision}
		}
	}
	return current, f, revision, nil
}

// readKey reads one key and the revision it was read at. The key's ModRevision is 0 if it does not exist.
func (c *Controller) readKey(ctx context.Context, key string) (kv ledger.KV, revision int64, err error) {
	kvs, revision, err := c.Ledger.List(ctx, key)
	if err != nil {
		return kv, 0, fmt.Errorf("queue: read %s: %w", key, err)
	}
	for _, kv := range kvs {
		if kv.Key == key {
			return kv, revision, nil
		}
	}
	return kv, revision, nil
}

// begin writes the first generation of a ledger that is new or predates generations.
func (c *Controller) begin(ctx context.Context, seen decide.LedgerEvidence) error {
	txn, err := identity.FirstGeneration(seen.Store)
	if err != nil {
		return err
	}
	_, err = c.commit(ctx, txn)
	return err
}

// commit commits a transaction with which no other process should conflict, and returns its revision. If one does,
// it returns errOvertaken.
func (c *Controller) commit(ctx context.Context, txn ledger.Txn) (int64, error) {
	r, err := c.Ledger.Commit(ctx, txn)
	switch {
	case err != nil:
		return 0, fmt.Errorf("queue: ledger generation: %w", err)
	case !r.Succeeded:
		return 0, errOvertaken
	}
	return r.Revision, nil
}

// renew begins the next generation, by the protocol that identity.Generation describes: close, clear, wait, clear
// again, read how far Kubernetes has come, open. factsAfter is the epoch up to which facts are void in the next
// generation.
//
// The second clearing deletes what members had in flight when the generation was closed and has arrived since.
func (c *Controller) renew(
	ctx context.Context, seen decide.LedgerEvidence, floor ledger.Floor, reason string, factsAfter uint64,
) (on Checked, err error) {
	next, txn, err := seen.Generation.Next(seen.Store, reason, floor, factsAfter)
	if err != nil {
		return on, err
	}
	if next.Revision, err = c.commit(ctx, txn); err != nil {
		return on, err
	}
	floor.Revision = next.Revision
	telemetry.LedgerRenewed()
	c.Logger.Error("new ledger generation begins: nothing is placed, bound or evicted until it is open",
		"generation", next.Number, "reason", reason, "grace", c.Grace)
	if err := c.clear(ctx, next); err != nil {
		return on, err
	}
	if err := sleep(ctx, c.Clock, c.Grace); err != nil {
		return on, err
	}
	if err := c.clear(ctx, next); err != nil { // what was in flight when it was closed
		return on, err
	}
	if on.Reached, err = c.API.Versions(ctx); err != nil {
		return on, err
	}
	hw := map[string]uint64{}
	for kind, rv := range on.Reached {
		hw[string(kind)] = rv
	}
	if txn, err = next.OpenAt(hw, floor); err != nil {
		return on, err
	}
	if _, err = c.commit(ctx, txn); err != nil {
		return on, err
	}
	c.Logger.Info("new ledger generation is open", "generation", next.Number)
	on.FactsAfter = next.FactsAfter
	return on, nil
}

// clear deletes all promises of a closed generation, in as many transactions as necessary. Each of them fails if the
// generation is no longer the one that was closed.
func (c *Controller) clear(ctx context.Context, closed identity.Generation) error {
	kvs, _, err := c.Ledger.List(ctx, "")
	if err != nil {
		return fmt.Errorf("queue: list the ledger: %w", err)
	}
	for keys := identity.Promises(kvs); len(keys) > 0; {
		var txn ledger.Txn
		txn, keys = closed.Clear(keys)
		if _, err := c.commit(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits. It fails if ctx ends first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
