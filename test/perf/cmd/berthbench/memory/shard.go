package memory

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler"
)

const (
	shardID = "scheduler-0"
	// readyPoll is how often readiness is looked at.
	readyPoll = 100 * time.Millisecond
	// window is how many pods are offered at once.
	window = scheduler.DefaultWindow
)

// shard is a scheduler with a stand-in for the queue.
type shard struct {
	log     *factLog
	bus     *memlog.Log
	service *scheduler.Scheduler
	// returned are the tokens of offers that the shard gave back untried.
	returned chan []string
	stop     func()
}

func startShard(ctx context.Context, log *factLog) (*shard, error) {
	bus := memlog.New(memlog.Options{})
	profile := placement.DefaultProfile("default-scheduler")
	service, err := scheduler.New(
		scheduler.Config{ID: shardID, Profiles: []placement.ProfileConfig{profile}},
		scheduler.Deps{
			Log: log, Facts: feed.New(log, bus), Bus: bus, Ledger: mem.New(),
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Clock:  clock.RealClock{},
		})
	if err != nil {
		return nil, err
	}
	s := &shard{log: log, bus: bus, service: service, returned: make(chan []string, window)}
	unsubscribe, err := bus.Subscribe(work.SubjectWork, s.request)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return service.Run(running) })
	s.stop = func() {
		cancel()
		unsubscribe()
		if err := g.Wait(); err != nil {
			fmt.Fprintln(os.Stderr, "berthbench memory: the shard ended:", err)
		}
		bus.Close()
	}
	return s, nil
}

// request handles a shard's request; only the offers that it returns matter.
func (s *shard) request(data []byte) {
	r, err := work.DecodeRequest(data)
	if err != nil || len(r.Return) == 0 {
		return
	}
	select {
	case s.returned <- r.Return:
	default: // no reader waits for decisions
	}
}

// awaitReady waits until the shard has applied all facts and can decide.
func (s *shard) awaitReady(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, readyPoll, true, func(context.Context) (bool, error) {
		return s.service.Ready() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the shard did not become ready: %w", s.service.Ready())
	}
	return nil
}

// decide offers all pending pods, a window at a time, and counts the decisions.
func (s *shard) decide(ctx context.Context) (placed, refused int, err error) {
	waiting := s.log.offers()
	out := map[string]work.Offer{}
	for len(waiting) > 0 || len(out) > 0 {
		if n := min(window-len(out), len(waiting)); n > 0 {
			for _, o := range waiting[:n] {
				out[o.Token] = o
			}
			if err := s.offer(waiting[:n]); err != nil {
				return placed, refused, err
			}
			waiting = waiting[n:]
		}
		select {
		case d := <-s.log.decided:
			if d.Kind == events.DecisionLost && d.Message == events.LostAbandoned {
				continue // the pod is still in the shard's hand
			}
			delete(out, d.Token)
			if d.Kind == events.DecisionPlaced {
				placed++
			} else {
				refused++
			}
		case tokens := <-s.returned:
			for _, token := range tokens {
				waiting = append(waiting, out[token])
				delete(out, token)
			}
		case <-ctx.Done():
			return placed, refused, fmt.Errorf("%d pods not decided: %w", len(waiting)+len(out), ctx.Err())
		}
	}
	return placed, refused, nil
}

func (s *shard) offer(offers []work.Offer) error {
	batch := work.OfferBatch{Queue: "queue", Term: 1, Offers: offers}
	return s.bus.Publish(work.SubjectOffers+shardID, work.EncodeOffers(batch))
}
