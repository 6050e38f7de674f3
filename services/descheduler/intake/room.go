package intake

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

// batchBuffer lets one batch be decoded while another is applied.
const batchBuffer = 1

// Deps holds the external systems of a Reader.
type Deps struct {
	Log eventlog.Log
	// Facts is the feed of the process.
	Facts *feed.Feed
	// Ledger may be nil: then no View has one.
	Ledger ledger.Store
	Clock  clock.Clock
	Logger *slog.Logger
	// HalfLife returns the half-life of the averages of usage. It is called with every batch of facts; 0, or a nil
	// HalfLife, means that no averages are kept.
	HalfLife func() time.Duration
	// OnOutcome is called with the outcome of every eviction that this process requested, and the profile that picked
	// the pod. It must not block.
	OnOutcome func(profile string, outcome events.Decision)
}

// Reader collects facts, decisions and the content of the ledger. Its methods are safe for concurrent use; Follow,
// Apply, Decisions and Promises must run once each.
type Reader struct {
	deps  Deps
	steps chan feed.Step
	alarm *feed.Alarm
	// unreadable logs decisions that cannot be decoded.
	unreadable *unreadable.Log

	mu struct {
		sync.Mutex
		// facts is the newest snapshot, history what the decisions have shown so far.
		facts   *state.Snapshot
		history *plan.History
		// averages is nil while none are needed.
		averages *decide.Averages
		// ledger is nil until the ledger was first listed. It is changed in place; a View gets a clone.
		ledger *replica.View
		// decisions is the last sequence of that stream that was applied.
		decisions uint64
		// mine holds the profiles behind this process's requests that have no outcome yet.
		mine map[string]ownRequest
		// changed is closed and replaced whenever a View may have become possible.
		changed chan struct{}
	}
}

// ownRequest is a request of this process that has no outcome yet.
type ownRequest struct {
	profile string
	attempt int32
}

// View is the input for one cycle.
type View struct {
	Cluster *state.Snapshot
	History *plan.History
	// Averages holds the averages of usage; nil if none are needed.
	Averages *decide.Averages
	// Ledger is a view of the ledger for the caller's own use; nil if the ledger is not followed.
	Ledger *replica.View
}

// New returns an empty reader. Nothing runs yet.
func New(deps Deps) *Reader {
	r := &Reader{
		deps: deps, steps: make(chan feed.Step, batchBuffer),
		alarm:      feed.NewAlarm(unreadable.New("descheduler", eventlog.Facts, deps.Logger, deps.Clock.Now).Write),
		unreadable: unreadable.New("descheduler", eventlog.Decisions, deps.Logger, deps.Clock.Now),
	}
	r.mu.facts = state.New().Snapshot()
	r.mu.history = plan.NewHistory()
	r.mu.mine = map[string]ownRequest{}
	r.mu.changed = make(chan struct{})
	return r
}

// Follow reads the facts until ctx ends. An error means that they cannot be read.
func (r *Reader) Follow(ctx context.Context) error {
	return r.deps.Facts.Follow(ctx, r.steps)
}

// Apply applies what Follow reads until ctx ends.
func (r *Reader) Apply(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case step := <-r.steps:
			r.apply(step)
		}
	}
}

// apply takes over a new snapshot. A Reset needs no other treatment: nothing here but the averages is derived from
// earlier snapshots.
func (r *Reader) apply(step feed.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.facts = step.Snapshot
	r.alarm.Observe(step)
	r.smooth(step.Changes.Others, step.Reset)
	r.wake()
}

// smooth applies samples of usage if averages are needed: all of them after a Reset or when averages were not kept
// before, and then every change. It is called with the lock held. A policy that stops using averages discards them,
// so that a later one does not continue with old ones.
func (r *Reader) smooth(changed []state.ObjectChange, anew bool) {
	halfLife := time.Duration(0)
	if r.deps.HalfLife != nil {
		halfLife = r.deps.HalfLife()
	}
	if halfLife == 0 {
		r.mu.averages = nil
		return
	}
	if r.mu.averages == nil {
		r.mu.averages, anew = decide.NewAverages(), true
	}
	if anew {
		for _, k := range []events.Kind{events.KindNodeMetrics, events.KindPodMetrics} {
			for o := range r.mu.facts.Objects(k) {
				r.mu.averages.Take(o.API, halfLife)
			}
		}
	}
	for _, c := range changed {
		if c.After != nil {
			r.mu.averages.Take(c.After.API, halfLife)
		}
	}
}

// Promises follows the ledger until ctx ends. An error means that it cannot be read.
func (r *Reader) Promises(ctx context.Context) error {
	if r.deps.Ledger == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan replica.Batch, batchBuffer)
	g.Go(func() error { return replica.Follow(ctx, r.deps.Ledger, batches) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				if err := r.fold(b); err != nil {
					return fmt.Errorf("descheduler: ledger: %w", err)
				}
			}
		}
	})
	return g.Wait()
}

// fold applies a batch of the ledger's changes; the first batch lists all of it.
func (r *Reader) fold(b replica.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.ledger == nil {
		r.mu.ledger = replica.NewView()
	}
	if _, err := r.mu.ledger.Fold(b); err != nil {
		return err
	}
	r.wake()
	return nil
}

// wake is called with the lock held.
func (r *Reader) wake() {
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// Least is the minimum that a View must contain: progress of some kinds of facts, the decisions up to a sequence,
// and the ledger, if it is followed, up to a revision. The zero value requires only the first listing of the
// ledger.
type Least struct {
	Kinds     []events.Kind
	Decisions uint64
	Ledger    int64
}

// View waits until everything that it must contain has been applied. An error is that of ctx, with what was missing.
func (r *Reader) View(ctx context.Context, least Least) (View, error) {
	for {
		view, missing, changed := r.view(least)
		if missing == "" {
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return View{}, fmt.Errorf("descheduler: wait for %s: %w", missing, ctx.Err())
		}
	}
}

// view returns a View if all of least is there, or else what is missing and the channel that is closed when that
// may have changed. Both are read under one lock, so that no change is missed in between.
func (r *Reader) view(least Least) (v View, missing string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	snapshot := r.mu.facts
	for _, k := range least.Kinds {
		if _, ok := snapshot.Position().Progress(k); !ok {
			return View{}, fmt.Sprintf("the facts of kind %s", k), r.mu.changed
		}
	}
	if r.mu.decisions < least.Decisions {
		return View{}, fmt.Sprintf("decision %d (at %d)", least.Decisions, r.mu.decisions), r.mu.changed
	}
	v = View{Cluster: snapshot}
	if r.deps.Ledger != nil {
		if r.mu.ledger == nil || r.mu.ledger.Revision() < least.Ledger {
			return View{}, fmt.Sprintf("the ledger's revision %d", least.Ledger), r.mu.changed
		}
		v.Ledger = r.mu.ledger.Clone()
	}
	v.History = r.mu.history.Clone()
	if r.mu.averages != nil {
		v.Averages = r.mu.averages.Clone()
	}
	return v, "", r.mu.changed
}

// Ready returns nil when the facts of all kinds are known, and the ledger has been listed if it is followed; else
// an error that names what is missing. Unlike View it does not wait.
func (r *Reader) Ready(kinds []events.Kind) error {
	if _, missing, _ := r.view(Least{Kinds: kinds}); missing != "" {
		return fmt.Errorf("descheduler: still reading %s", missing)
	}
	return nil
}

// RecordRequest records that an eviction is about to be requested. It is called before the request is appended, so
// that a request whose outcome is unknown counts as made. When the request comes back with the decisions, it is a
// redelivery and changes nothing.
func (r *Reader) RecordRequest(e decide.Eviction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history.Observe(e.Decision, r.deps.Clock.Now())
	r.mu.mine[e.Decision.Pod.UID] = ownRequest{profile: e.Profile, attempt: e.Decision.Attempt}
}

// RecordUnkept records that the ledger has no room for the place of an eviction, which was therefore not requested.
func (r *Reader) RecordUnkept(e decide.Eviction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history.RecordUnkept(e.Decision.Pod.UID, r.deps.Clock.Now())
}

// Forget drops the data about pods that are gone from the cluster. It is called after each cycle, so the data of a
// process is bounded by the pods that exist and by the evictions of a day.
func (r *Reader) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	cluster := r.mu.facts
	r.mu.history.Forget(func(uid string) bool {
		_, exists := cluster.Pod(uid)
		return exists
	}, r.deps.Clock.Now())
	if r.mu.averages != nil {
		r.mu.averages.Forget(r.deps.Clock.Now())
	}
	for uid := range r.mu.mine {
		if !r.mu.history.HasRequest(uid) {
			delete(r.mu.mine, uid)
		}
	}
}

const (
	// retryInitial and retryCap bound the pauses while the decisions cannot be read; retryFactor is their growth,
	// retryJitter their spread.
	retryInitial = 50 * time.Millisecond
	retryCap     = 5 * time.Second
	retryFactor  = 2.0
	retryJitter  = 0.2
	// retrySteps only has to exceed the number of steps to reach retryCap.
	retrySteps = 20
)

// newBackoff returns the pauses from the beginning; it is renewed after every success.
func newBackoff() wait.Backoff {
	return wait.Backoff{
		Duration: retryInitial, Factor: retryFactor, Jitter: retryJitter, Steps: retrySteps, Cap: retryCap,
	}
}
