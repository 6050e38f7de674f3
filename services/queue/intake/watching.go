package intake

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
)

const (
	// kindsEvery is how often a running queue asks which kinds the API server serves: one that restarts, with other
	// flags or another version, may serve others. It costs up to eight small requests. One queue leads, so that they
	// need no jitter.
	kindsEvery = time.Minute
	// absentAnswers is how many answers in a row must lack a kind before its objects are taken as absent. Behind one
	// address there may be servers with different flags, while they are restarted one by one.
	absentAnswers = 2
)

// watching holds what a round watches: a reflector for each kind that the API server serves.
type watching struct {
	cluster *Cluster
	group   *errgroup.Group
	logger  klog.Logger
	// offered are the kinds that the server may begin or cease to serve.
	offered []*reflection
}

// reflection is one kind of a round. Its store is used by the reflector's goroutine while there is one, and by that of
// watching.follow otherwise.
type reflection struct {
	watched
	store *kindStore
	// end ends the reflector and returns when it has ended; nil while there is none.
	end func()
	// absent counts the last answers of the server that lack the kind.
	absent int
}

// begin begins to list and watch a kind, until the round ends or end is called. What the store has published before is
// not published again.
func (w *watching) begin(ctx context.Context, r *reflection) {
	ctx, cancel := context.WithCancel(ctx)
	backoff := reflectorBackoff
	options := cache.ReflectorOptions{Name: "queue/" + r.resource, Logger: &w.logger, Backoff: &backoff}
	reflector := cache.NewReflectorWithOptions(
		r.listWatch(w.cluster.client, r.store), r.example, reflected{r.store}, options)
	ended := make(chan struct{})
	w.group.Go(func() error {
		defer close(ended)
		reflector.RunWithContext(klog.NewContext(ctx, w.logger))
		return nil
	})
	r.end = func() {
		cancel()
		<-ended
	}
}

// skipUnwatched counts the kinds that the round does not watch as listed. For kinds that are not served, the answer at
// the start of the round is the first that lacks them. An error means that the round has ended.
func (w *watching) skipUnwatched() error {
	for _, r := range w.offered {
		if r.end != nil {
			continue
		}
		if !w.cluster.gates.denied(r.kind) {
			r.absent = 1
		}
		if err := r.store.endFirst(); err != nil {
			return err
		}
	}
	return nil
}

// follow asks periodically which kinds the API server serves, until ctx ends.
func (w *watching) follow(ctx context.Context) {
	if w.skipUnwatched() != nil {
		return
	}
	tick := time.NewTicker(w.cluster.kindsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		has, err := w.cluster.discover(ctx)
		if err != nil {
			continue // the watches report that the server is unreachable
		}
		if w.compare(ctx, has.watched()) != nil {
			return
		}
		w.cluster.gates.log(w.logger)
	}
}

// compare begins to watch kinds that the API server serves now and the queue may list, and withdraws the objects of
// those that it does not serve any more. An error means that the round has ended.
func (w *watching) compare(ctx context.Context, served []watched) error {
	for _, r := range w.offered {
		if slices.ContainsFunc(served, r.is) {
			r.absent = 0
			if err := w.watchIfAllowed(ctx, r); err != nil {
				return err
			}
			continue
		}
		if r.absent++; r.absent != absentAnswers {
			continue
		}
		if r.end != nil {
			w.logger.Info("API server has ceased to serve a kind: its objects are taken as absent", "resource", r.resource)
			r.end()
			r.end = nil
		}
		if err := r.store.withdraw(); err != nil {
			return err
		}
	}
	return nil
}

// watchIfAllowed starts to watch a served kind that the queue's account may list, and stops watching one that it may
// not list. The log keeps the objects of such a kind. An error means that the round has ended.
func (w *watching) watchIfAllowed(ctx context.Context, r *reflection) error {
	switch may := w.cluster.mayList(ctx, r.watched); {
	case may && r.end == nil:
		w.logger.Info("API server has begun to serve a kind, or to allow its list: it is watched", "resource", r.resource)
		w.begin(ctx, r)
	case !may && r.end != nil:
		r.end()
		r.end = nil
		return r.store.endFirst()
	}
	return nil
}

// is reports whether o is the same kind.
func (w watched) is(o watched) bool { return w.kind == o.kind }

// kindsOf returns the kinds of a list.
func kindsOf(list []watched) []events.Kind {
	all := make([]events.Kind, len(list))
	for i, w := range list {
		all[i] = w.kind
	}
	return all
}
