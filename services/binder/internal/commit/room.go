package commit

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

const (
	// ledgerWorkers carry out ledger transactions and reads. Each is one round trip to etcd; marks and releases are
	// rare. sweepWorkers carry out those that may wait, such as hand-overs of idle documents.
	ledgerWorkers = 8
	sweepWorkers  = 2
	// statusWorkers write conditions.
	statusWorkers = 8
	// answerBuffer lets workers continue while the core processes another input.
	answerBuffer = 256
)

// Lane is a group of workers for one kind of effect.
type Lane int

const (
	// LaneBind posts Bindings.
	LaneBind Lane = iota
	// LaneClear makes room: evictions and fences, and what is read and written before them. A more important pod
	// waits for each, so they queue behind nothing else. It has half as many workers as LaneBind, so that binds get
	// the larger share of the API server.
	LaneClear
	// LaneChange writes nominations and removes gates, with a quarter of LaneBind's workers.
	LaneChange
	// LaneStatus writes conditions that nothing waits for. It has few workers (statusWorkers), so that many waiting
	// pods take little of the API server from binds and evictions.
	LaneStatus
	// LaneLedger runs transactions and linearizable reads that something waits for.
	LaneLedger
	// LaneSweep runs transactions that nothing waits for (Amend.Idle).
	LaneSweep
	// LaneLog hands decisions to the log.
	LaneLog
	// Lanes is the number of lanes.
	Lanes
)

// LaneOf returns the lane of an effect. It reports false for effects that Now carries out.
func LaneOf(e decide.Effect) (Lane, bool) {
	switch e := e.(type) {
	case decide.Bind:
		return LaneBind, true
	case decide.ReadPod, decide.FencePod, decide.Evict, decide.ReadBudget:
		return LaneClear, true
	case decide.RemoveGate, decide.Nominate:
		return LaneChange, true
	case decide.PatchCondition:
		return laneOfCondition(e), true
	case decide.Amend:
		if e.Idle {
			return LaneSweep, true
		}
		return LaneLedger, true
	case decide.Transact, decide.ReadDoc:
		return LaneLedger, true
	case decide.Publish:
		return LaneLog, true
	}
	return 0, false
}

// laneOfCondition returns the lane of a condition. An eviction waits for a condition of its pod, and a nomination
// should be written before the evictions that it announces: after them, it would conflict with the bind.
func laneOfCondition(e decide.PatchCondition) Lane {
	switch {
	case e.Condition.Type != corev1.PodScheduled:
		return LaneClear
	case e.NominatedNodeName != "":
		return LaneChange
	}
	return LaneStatus
}

// Deps holds the systems that the room writes to.
type Deps struct {
	// Member is the binder's member id, for metrics.
	Member string
	API    API
	// Extenders holds the extenders by scheduler name; profiles without any may be missing.
	Extenders map[string]*extender.Set
	Ledger    ledger.Store
	Log       events.Log
	Logger    *slog.Logger
	Clock     clock.WithTicker
}

// Room is the commit stage of the binder.
type Room struct {
	deps      Deps
	workers   int
	lanes     [Lanes]chan decide.Effect
	answers   chan decide.Input
	publisher *publisher
	reporter  *reporter
	pace      *pace
}

// New returns a room with the given number of workers for binds. Nothing runs before Run.
func New(workers int, deps Deps) *Room {
	pace := newPace()
	r := &Room{
		deps: deps, workers: workers,
		answers:   make(chan decide.Input, answerBuffer),
		publisher: newPublisher(deps.Log, deps.Logger, deps.Clock),
		reporter:  newReporter(deps, pace),
		pace:      pace,
	}
	for l := range r.lanes {
		// The channels are unbuffered: an effect that was taken has been started.
		r.lanes[l] = make(chan decide.Effect)
	}
	r.lanes[LaneLog] = r.publisher.queue
	return r
}

// Lane returns the channel for the effects of one lane. A send blocks while the lane is busy.
func (r *Room) Lane(l Lane) chan<- decide.Effect { return r.lanes[l] }

// Answers delivers the answer of each effect that has one. It must be read continuously.
func (r *Room) Answers() <-chan decide.Input { return r.answers }

// Now carries out an effect that has no lane, without blocking.
func (r *Room) Now(e decide.Effect) {
	switch e := e.(type) {
	case decide.Report:
		r.reporter.report(e)
	case decide.Rejected:
		telemetry.KubeletRejection(e.Reason)
		r.deps.Logger.Warn("pod rejected by the kubelet", "pod", ref(e.Pod), "node", e.NodeName, "reason", e.Reason)
	case decide.Fault:
		r.deps.Logger.Error("internal fault", "op", e.What, telemetry.KeyError, e.Err)
	}
}

// crews returns how many workers each lane has.
func (r *Room) crews() map[Lane]int {
	return map[Lane]int{
		LaneBind: r.workers, LaneClear: max(1, r.workers/2), LaneChange: max(1, r.workers/4), LaneStatus: statusWorkers,
		LaneLedger: ledgerWorkers, LaneSweep: sweepWorkers,
	}
}

// Run works until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for lane, workers := range r.crews() {
		for range workers {
			g.Go(func() error { return r.work(ctx, lane) })
		}
	}
	g.Go(func() error { return r.publisher.run(ctx) })
	g.Go(func() error { return r.reporter.run(ctx) })
	defer func() {
		for _, set := range r.deps.Extenders {
			set.Close()
		}
	}()
	return g.Wait()
}

// Flush waits until every decision handed over so far is in the log, or ctx ends.
func (r *Room) Flush(ctx context.Context) error { return r.publisher.flush(ctx) }

func (r *Room) work(ctx context.Context, lane Lane) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.lanes[lane]:
			answer, err := r.paced(ctx, lane, e)
			if err != nil {
				return err
			}
			select {
			case r.answers <- answer:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// paced calls carryOut; changes of Kubernetes have priority over events.
func (r *Room) paced(ctx context.Context, lane Lane, e decide.Effect) (decide.Input, error) {
	if lane == LaneBind || lane == LaneClear || lane == LaneChange || lane == LaneStatus {
		defer r.pace.change()()
	}
	return r.carryOut(ctx, e)
}

func (r *Room) carryOut(ctx context.Context, e decide.Effect) (decide.Input, error) {
	switch e := e.(type) {
	case decide.Bind:
		if e.Volumes != nil {
			if answer := r.prepareVolumes(ctx, e); answer.Result != decide.Done {
				return answer, nil
			}
		}
		if e.Devices != nil {
			if answer := r.prepareDevices(ctx, e); answer.Result != decide.Done {
				return answer, nil
			}
			version, answer := r.tellOfClaim(ctx, e)
			if answer.Result != decide.Done {
				return answer, nil
			}
			e.ResourceVersion = version
		}
		return r.bind(ctx, e), nil
	case decide.ReadPod:
		return r.readPod(ctx, e), nil
	case decide.FencePod:
		return r.fencePod(ctx, e), nil
	case decide.RemoveGate:
		return r.removeGateInTime(ctx, e), nil
	case decide.PatchCondition:
		return r.patchCondition(ctx, e), nil
	case decide.Evict:
		return r.evictInTime(ctx, e), nil
	case decide.Nominate:
		return r.nominate(ctx, e), nil
	case decide.ReadBudget:
		return r.readBudget(ctx, e), nil
	case decide.Amend:
		return r.amend(ctx, e), nil
	case decide.Transact:
		return r.transact(ctx, e), nil
	case decide.ReadDoc:
		return r.readDoc(ctx, e), nil
	}
	return nil, fmt.Errorf("binder: effect %T has no worker", e)
}
