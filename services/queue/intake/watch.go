package intake

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// reflectorBackoff is client-go's own backoff with a lower cap: one watcher per cluster causes no thundering herd,
// and a reflector that is waiting cannot be stopped.
var reflectorBackoff = wait.Backoff{
	Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 2 * time.Second, Steps: 5,
}

// Round is one life of the watches: from a state of the log until something ends it. All kinds end together, and the
// next round compares all of them with the log again.
type Round struct {
	// Base is the state of the log; nothing may have been appended since.
	Base *state.Snapshot
	// Reached holds resourceVersions that the API server had reached before the round, by kind. A list at an earlier
	// one ends the round.
	Reached map[events.Kind]uint64
	// Cause names the first lists: CauseList or CauseRepair.
	Cause string
	// Logger is the logger of client-go's reflectors.
	Logger klog.Logger
	// Metrics configures the polling of actual usage, which runs next to the watches.
	Metrics Metrics
	// Whole keeps in facts the fields that no rule reads (strip.KeepSpec), for plugins that are shown whole objects.
	Whole bool
}

// Watch lists and watches every served kind and sends facts to out until ctx ends, when it returns nil, or until
// something arrives that cannot become a fact. It returns the error of the first store that has ended the round,
// *WentBackError for a restored API server. Facts of different kinds are in no order; those of one kind are in the
// order of its watch. The facts carry no epoch: the writer sets it. When every kind has been listed once, OpEpochEnd is
// sent; kinds that are not served count as listed. Which kinds are served is asked again periodically
// (watching.follow), and objects in the log of a kind that several answers in a row lack are deleted there. Reflectors
// keep retrying while the API server cannot be reached.
func (c *Cluster) Watch(ctx context.Context, r Round, out chan<- events.Fact) error {
	served, err := c.served(ctx, r.Logger)
	if err != nil {
		return endCause(ctx)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group, ctx := errgroup.WithContext(ctx)
	all := slices.Clone(kinds)
	for _, o := range offerings {
		all = append(all, o.kinds...)
	}
	stores := r.stores(kindsOf(all), out, fail, ctx.Done())
	w := &watching{cluster: c, group: group, logger: r.Logger}
	for i, kind := range all {
		one := &reflection{watched: kind, store: stores[i]}
		one.store.notice = func(o object) { c.gates.notice(o, r.Logger) }
		if i >= len(kinds) {
			w.offered = append(w.offered, one)
		}
		if slices.ContainsFunc(served, kind.is) {
			w.begin(ctx, one)
		}
	}
	group.Go(func() error { return c.sample(ctx, r, out) })
	for _, follow := range []func(){
		func() { w.follow(ctx) },
		func() { c.followRelease(ctx, r.Logger) },
		func() { c.followGates(ctx, r.Logger) },
	} {
		group.Go(func() error {
			follow()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return endCause(ctx)
}

// reflected is a kindStore as a reflector sees it. An error of Replace has already ended the round; a reflector that
// receives it as well would not stop the watch that delivered the list.
type reflected struct{ *kindStore }

// Replace is called with a whole list.
func (s reflected) Replace(list []any, resourceVersion string) error {
	_ = s.kindStore.Replace(list, resourceVersion)
	return nil
}

// stores returns the stores of the round's reflectors, one for each kind. The store that is the last to be listed for
// the first time sends the end of the epoch.
func (r Round) stores(
	kinds []events.Kind, out chan<- events.Fact, fail context.CancelCauseFunc, done <-chan struct{},
) []*kindStore {
	unlisted := &atomic.Int32{}
	unlisted.Store(int32(len(kinds)))
	stores := make([]*kindStore, len(kinds))
	for i, kind := range kinds {
		store := &kindStore{
			kind: kind, cause: r.Cause, out: out, logged: loggedObjects(r.Base, kind), fail: fail, done: done,
			strip: strip.Strip, reached: r.Reached[kind], logger: r.Logger,
		}
		if r.Whole {
			store.strip = strip.KeepSpec
		}
		store.onListed = func() error {
			if unlisted.Add(-1) > 0 {
				return nil
			}
			return store.sendMarker(events.Fact{Op: events.OpEpochEnd, Cause: r.Cause})
		}
		stores[i] = store
	}
	return stores
}

// KindStore is the store of one kind for a reflector, which passes it the lists and the watch. It is the part of
// kindStore that the simulation drives, so that it tests the same comparisons without an API server.
type KindStore interface {
	cache.ReflectorStore
	UpdateResourceVersion(resourceVersion string)
}

// Stores returns the stores of a round for some kinds, for a driver that does the reflectors' work itself. Their
// facts go to out, which must have room; an error that ends the round goes to fail.
func (r Round) Stores(kinds []events.Kind, out chan<- events.Fact, fail func(error)) map[events.Kind]KindStore {
	stores := make(map[events.Kind]KindStore, len(kinds))
	for _, s := range r.stores(kinds, out, fail, nil) {
		stores[s.kind] = s
	}
	return stores
}

// endCause returns the error that ended a round; nil if the round was only asked to stop.
func endCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}
