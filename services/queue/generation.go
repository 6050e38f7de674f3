package queue

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
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

const (
	// graceToNotice gives members time to notice that a generation is closed (5 s, ledger/etcd) and to receive the
	// answer to a slow request (10 s), with some time to spare.
	graceToNotice = 20 * time.Second
	// binderBind is how long a binder's bind may be in flight (the binder's bindTimeout). pluginBind is the same for
	// a plugin's bind: as long as binders wait before they take the place back.
	binderBind = 10 * time.Second
	pluginBind = txns.DelegatedFor + txns.DelegatedFor/2
)

// grace returns how long a generation of the ledger stays closed after it was cleared: until the last bind sent
// before that has either arrived or can no longer arrive. It does not cover a member that is paused for longer
// between deciding on a bind and sending it.
func grace(profiles []placement.ProfileConfig) time.Duration {
	longest := binderBind
	for _, p := range profiles {
		if p.Custom != nil && len(p.Custom.Binding()) > 0 {
			longest = max(longest, pluginBind)
		}
		for _, e := range p.Extenders {
			if e.BindVerb != "" {
				longest = max(longest, e.HTTPTimeout.Duration)
			}
		}
	}
	return graceToNotice + longest
}

// pictureCheck is how often the view of the ledger is checked, and pictureWait for how long, until it shows what was
// read from the store.
const (
	pictureCheck = 50 * time.Millisecond
	pictureWait  = 5 * time.Second
)

// errOvertaken means that another process has changed the generation concurrently.
var errOvertaken = errors.New("queue: the ledger generation changed concurrently")

// checked is the leader's knowledge once the ledger is consistent with Kubernetes and the log of facts.
type checked struct {
	// factsAfter is the FactsAfter of the ledger's generation.
	factsAfter uint64
	// reached holds the resourceVersions that the API server had reached during the check, by kind.
	reached map[events.Kind]uint64
}

// generations makes sure that the ledger's generation is one that members can rely upon.
type generations struct {
	ledger  ledger.Store
	log     eventlog.Log
	cluster *intake.Cluster
	clock   clock.Clock
	logger  *slog.Logger
	// grace is how long a generation stays closed after it was cleared.
	grace time.Duration
	// ask runs a question on the deciding goroutine.
	ask func(ctx context.Context, question func(*loop)) error
}

// ensure makes sure that the ledger still holds what members have relied upon, and otherwise begins its next
// generation. It retries until it succeeds, ctx ends, or the store turns out to be another one than this member has
// worked with (*ledger.StoreReplacedError). unused is an epoch of facts that is later than any used before.
func (g *generations) ensure(ctx context.Context, from beginning, unused uint64) (checked, error) {
	for {
		on, err := g.ensureOnce(ctx, from, unused)
		if err == nil || ctx.Err() != nil {
			return on, err
		}
		var anew *ledger.StoreReplacedError
		if errors.As(err, &anew) {
			return checked{}, err
		}
		g.logger.Warn("ledger generation not settled; retrying", telemetry.KeyError, err)
		_ = sleep(ctx, g.clock, retryPause) // it fails when ctx ends, which ensureOnce notices
	}
}

func (g *generations) ensureOnce(ctx context.Context, from beginning, unused uint64) (checked, error) {
	seen, floor, err := g.evidence(ctx, from)
	if err != nil {
		return checked{}, err
	}
	on := checked{factsAfter: seen.Generation.FactsAfter}
	if seen.WentBack = from.wentBack; seen.WentBack == "" {
		if on.reached, seen.WentBack, err = g.compare(ctx, seen.Generation, floor); err != nil {
			return checked{}, err
		}
	}
	verdict, reason := decide.JudgeGeneration(seen)
	switch verdict {
	case decide.GenerationFirst:
		err = g.begin(ctx, seen)
	case decide.GenerationNext:
		return g.renew(ctx, seen, floor, reason, unused)
	}
	return on, err
}

// evidence gathers the input of decide.JudgeGeneration, except whether Kubernetes went back.
func (g *generations) evidence(
	ctx context.Context, from beginning,
) (seen decide.LedgerSeen, floor ledger.Floor, err error) {
	seen.Claimed, seen.Recorded = from.claimed, from.recorded.Through
	if seen.Store, err = g.ledger.ID(ctx); err != nil {
		return seen, floor, err
	}
	if seen.Generation, floor, seen.Revision, err = g.read(ctx); err != nil {
		return seen, floor, err
	}
	last, err := g.log.Last(ctx, eventlog.Facts)
	if err != nil {
		return seen, floor, fmt.Errorf("queue: last fact: %w", err)
	}
	seen.FactsTold = last > 0
	if last := from.recorded.Last; last.ModRevision > 0 {
		kv, _, err := g.readKey(ctx, last.Key)
		if err != nil {
			return seen, floor, err
		}
		seen.Contradicted = from.recorded.Contradicts(kv)
	}
	return seen, floor, nil
}

// requiredVersions holds the resourceVersions that Kubernetes must have reached: those in the log of facts, and those
// of the ledger's high-waters and reservations.
type requiredVersions struct {
	seen    feed.Seen
	counted map[events.Kind]uint64
}

// required waits for a view of the ledger that is at least as new as the revisions of generation and floor that were
// read.
func (g *generations) required(ctx context.Context, generation, floor int64) (requiredVersions, error) {
	k := requiredVersions{counted: map[events.Kind]uint64{}}
	err := wait.PollUntilContextTimeout(ctx, pictureCheck, pictureWait, true, func(ctx context.Context) (bool, error) {
		current := false
		err := g.ask(ctx, func(l *loop) {
			view := l.holds.View()
			current = view.Revision() > 0 && view.Generation().Revision >= generation && view.Floor().Revision >= floor
			k.seen = l.facts.Seen()
			for _, kind := range intake.VersionedKinds {
				k.counted[kind] = view.Reached(string(kind))
			}
		})
		return current, err
	})
	if err != nil {
		return requiredVersions{}, fmt.Errorf("queue: wait for the ledger state: %w", err)
	}
	return k, nil
}

// compare reads the resourceVersions that the API server has reached, by kind. wentBack describes a kind for which
// the log of facts or the ledger has a later version, which means that Kubernetes was restored from a backup; it is
// empty if there is none.
func (g *generations) compare(
	ctx context.Context, current identity.Generation, floor ledger.Floor,
) (now map[events.Kind]uint64, wentBack string, err error) {
	been, err := g.required(ctx, current.Revision, floor.Revision)
	if err != nil {
		return nil, "", err
	}
	// The API server is read last: another leader may still publish facts, and a later fact would look like a
	// restore.
	if now, err = g.cluster.Versions(ctx); err != nil {
		return nil, "", err
	}
	// Facts up to FactsAfter were published before a restore that the queue has already noticed.
	ofNow := been.seen.Epoch > current.FactsAfter
	for _, kind := range intake.VersionedKinds {
		at, listed := now[kind]
		told, counted := been.seen.Versions[kind], been.counted[kind]
		switch {
		case !listed:
		case ofNow && at < told:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the log of facts at %d", kind, at, told)
		case at < counted:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the ledger rests on %d",
				kind, at, counted)
		}
	}
	return now, wentBack, nil
}

// read reads the generation and the floor, and the revision at which they were read. A member cannot act on
// a value that it cannot decode, so such a value is returned as one that the next generation replaces.
func (g *generations) read(
	ctx context.Context,
) (current identity.Generation, f ledger.Floor, revision int64, err error) {
	kv, _, err := g.readKey(ctx, identity.KeyGeneration)
	if err != nil {
		return current, f, 0, err
	}
	if kv.ModRevision != 0 {
		if current, err = identity.DecodeGeneration(kv); err != nil {
			current = identity.Generation{Revision: kv.ModRevision, Reason: err.Error()}
		}
	}
	if kv, revision, err = g.readKey(ctx, ledger.KeyFloor); err != nil {
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
func (g *generations) readKey(ctx context.Context, key string) (kv ledger.KV, revision int64, err error) {
	kvs, revision, err := g.ledger.List(ctx, key)
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
func (g *generations) begin(ctx context.Context, seen decide.LedgerSeen) error {
	txn, err := identity.FirstGeneration(seen.Store)
	if err != nil {
		return err
	}
	_, err = g.commit(ctx, txn)
	return err
}

// commit commits a transaction with which no other process should conflict, and returns its revision. If one does,
// it returns errOvertaken.
func (g *generations) commit(ctx context.Context, txn ledger.Txn) (int64, error) {
	r, err := g.ledger.Commit(ctx, txn)
	switch {
	case err != nil:
		return 0, fmt.Errorf("queue: ledger generation: %w", err)
	case !r.Succeeded:
		return 0, errOvertaken
	}
	return r.Revision, nil
}

// renew begins the next generation, by the protocol that identity.Generation describes.
func (g *generations) renew(
	ctx context.Context, seen decide.LedgerSeen, floor ledger.Floor, reason string, factsAfter uint64,
) (on checked, err error) {
	next, txn, err := seen.Generation.Next(seen.Store, reason, floor, factsAfter)
	if err != nil {
		return on, err
	}
	if next.Revision, err = g.commit(ctx, txn); err != nil {
		return on, err
	}
	floor.Revision = next.Revision
	telemetry.LedgerRenewed()
	g.logger.Error("new ledger generation begins: nothing is placed, bound or evicted until it is open",
		"generation", next.Number, "reason", reason, "grace", g.grace)
	if err := g.clear(ctx, next); err != nil {
		return on, err
	}
	if err := sleep(ctx, g.clock, g.grace); err != nil {
		return on, err
	}
	if err := g.clear(ctx, next); err != nil { // what was in flight when it was closed
		return on, err
	}
	if on.reached, err = g.cluster.Versions(ctx); err != nil {
		return on, err
	}
	hw := map[string]uint64{}
	for kind, rv := range on.reached {
		hw[string(kind)] = rv
	}
	if txn, err = next.OpenAt(hw, floor); err != nil {
		return on, err
	}
	if _, err = g.commit(ctx, txn); err != nil {
		return on, err
	}
	g.logger.Info("new ledger generation is open", "generation", next.Number)
	on.factsAfter = next.FactsAfter
	return on, nil
}

// clear deletes all promises of a closed generation.
func (g *generations) clear(ctx context.Context, closed identity.Generation) error {
	kvs, _, err := g.ledger.List(ctx, "")
	if err != nil {
		return fmt.Errorf("queue: list the ledger: %w", err)
	}
	for keys := identity.Promises(kvs); len(keys) > 0; {
		var txn ledger.Txn
		txn, keys = closed.Clear(keys)
		if _, err := g.commit(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}
