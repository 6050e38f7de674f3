package intake

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// reflectorBackoff is client-go's own, with a lower cap: one watcher per cluster is no
// herd, and a reflector that is waiting cannot be stopped.
var reflectorBackoff = wait.Backoff{
	Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 2 * time.Second, Steps: 5,
}

// Round is one life of the watches: from a state of the log on, until something ends it.
type Round struct {
	// Base is the state the log stands for; nothing may have been appended since.
	Base *state.Snapshot
	// Reached are resourceVersions that the API server had reached before the round, by kind. A list at an earlier one
	// ends the round.
	Reached map[events.Kind]uint64
	// Cause names the first lists: CauseList or CauseRepair.
	Cause string
	// Logger of client-go's reflectors.
	Logger klog.Logger
	// Metrics says whether actual use is polled beside.
	Metrics Metrics
	// Whole keeps in facts what no rule reads (state.StripLess), for those who are shown objects.
	Whole bool
}

// Watch lists and watches every kind that is served and sends facts to out until ctx ends,
// when it returns nil, or until something comes in that cannot be told as a fact. The facts
// carry no epoch: the writer stamps it. When every kind has been listed once, OpEpochEnd is
// sent. Reflectors ride out an API server that cannot be reached.
func (c *Cluster) Watch(ctx context.Context, r Round, out chan<- events.Fact) error {
	kinds, err := c.served(ctx, r.Logger)
	if err != nil {
		return endCause(ctx)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group, ctx := errgroup.WithContext(ctx)
	all := make([]events.Kind, len(kinds))
	for i, w := range kinds {
		all[i] = w.kind
	}
	stores := r.stores(all, out, fail, ctx.Done())
	for i, w := range kinds {
		store, backoff := stores[i], reflectorBackoff
		options := cache.ReflectorOptions{Name: "queue/" + w.resource, Logger: &r.Logger, Backoff: &backoff}
		reflector := cache.NewReflectorWithOptions(w.listWatch(c.client, store), w.example, reflected{store}, options)
		group.Go(func() error {
			reflector.RunWithContext(klog.NewContext(ctx, r.Logger))
			return nil
		})
	}
	group.Go(func() error { return c.sample(ctx, r, out) })
	group.Go(func() error {
		c.followRelease(ctx, r.Logger)
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return endCause(ctx)
}

// reflected is a store as a reflector has it. Whatever Replace fails of has ended the round; a reflector
// that hears of it besides forgets to stop the watch that the list came by.
type reflected struct{ *kindStore }

// Replace is called with a whole list.
func (s reflected) Replace(list []any, resourceVersion string) error {
	_ = s.kindStore.Replace(list, resourceVersion)
	return nil
}

// stores are what the reflectors of a round store into, one for each kind. Whichever is the
// last to be listed for the first time tells that the epoch has ended.
func (r Round) stores(
	kinds []events.Kind, out chan<- events.Fact, fail context.CancelCauseFunc, done <-chan struct{},
) []*kindStore {
	unlisted := &atomic.Int32{}
	unlisted.Store(int32(len(kinds)))
	stores := make([]*kindStore, len(kinds))
	for i, kind := range kinds {
		store := &kindStore{
			kind: kind, cause: r.Cause, out: out, known: knownOf(r.Base, kind), fail: fail, done: done,
			strip: state.Strip, reached: r.Reached[kind], logger: r.Logger,
		}
		if r.Whole {
			store.strip = state.StripLess
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

// KindStore is what one kind's lists and watch are told to, as a reflector does.
type KindStore interface {
	cache.ReflectorStore
	UpdateResourceVersion(resourceVersion string)
}

// Stores are the stores of a round of some kinds, for a driver that does the reflectors'
// work by hand. What they tell goes to out, which must have room; an error that ends the
// round goes to fail.
func (r Round) Stores(kinds []events.Kind, out chan<- events.Fact, fail func(error)) map[events.Kind]KindStore {
	stores := make(map[events.Kind]KindStore, len(kinds))
	for _, s := range r.stores(kinds, out, fail, nil) {
		stores[s.kind] = s
	}
	return stores
}

// endCause is the error a round ended with; nil if it was only told to stop.
func endCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}
