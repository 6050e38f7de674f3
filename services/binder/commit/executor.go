package commit

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
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
	// LaneBind posts Bindings, and announces those that have to wait.
	LaneBind Lane = iota
	// LaneClear makes room: evictions and fences, and what is read and written before them. A more important pod
	// waits for each, so they queue behind nothing else. It has half as many workers as LaneBind, so that binds get
	// the larger share of the API server.
	LaneClear
	// LaneChange writes nominations and marks on nodes and removes gates, with a quarter of LaneBind's workers.
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
func LaneOf(e effect.Effect) (Lane, bool) {
	switch e := e.(type) {
	case effect.Bind, effect.Announce:
		return LaneBind, true
	case effect.ReadPod, effect.FencePod, effect.Evict, effect.ReadBudget:
		return LaneClear, true
	case effect.RemoveGate, effect.Nominate, effect.MarkNode, effect.PatchGroup:
		return LaneChange, true
	case effect.PatchCondition:
		return laneOfCondition(e), true
	case effect.Amend:
		if e.Idle {
			return LaneSweep, true
		}
		return LaneLedger, true
	case effect.Transact, effect.ReadDoc:
		return LaneLedger, true
	case effect.Publish:
		return LaneLog, true
	}
	return 0, false
}

// laneOfCondition returns the lane of a condition. An eviction waits for a condition of its pod, and a nomination
// should be written before the evictions that it announces: after them, it would conflict with the bind.
func laneOfCondition(e effect.PatchCondition) Lane {
	switch {
	case e.Condition.Type != corev1.PodScheduled:
		return LaneClear
	case e.NominatedNodeName != "":
		return LaneChange
	}
	return LaneStatus
}

// Deps holds the systems that the executor writes to.
type Deps struct {
	// Member is the binder's member id, for metrics.
	Member string
	API    API
	// Scheduled is the policy for events of successful binds; empty means ScheduledAll.
	Scheduled Scheduled
	// Extenders holds the extenders by scheduler name; profiles without any may be missing.
	Extenders map[string]*extender.Set
	Ledger    ledger.Store
	Log       eventlog.Log
	Logger    *slog.Logger
	Clock     clock.WithTicker
}

// Executor is the commit stage of the binder. It hands each kind of effect to the part that carries it out.
type Executor struct {
	deps    Deps
	workers int
	// lanes are unbuffered, except that of LaneLog, so that an effect either waits in the core's loop, where it can still
	// be dropped, or has been started.
	lanes   [Lanes]chan effect.Effect
	answers chan effect.Input
	pace    *pace

	pods         *pods
	bindings     *bindings
	fences       *fences
	evictions    *evictions
	conditions   *conditions
	gates        *gates
	nodes        *nodes
	groups       *podGroups
	transactions *transactions
	publisher    *publisher
	reporter     *reporter
}

// New returns an executor with the given number of workers for binds. Nothing runs before Run.
func New(workers int, deps Deps) *Executor {
	pace := newPace(deps.Clock)
	pods := &pods{deps.API.writes}
	claims := &claims{deps.API.writes, deps.Logger, deps.Clock, newConditionWaits(deps.Clock)}
	x := &Executor{
		deps: deps, workers: workers, answers: make(chan effect.Input, answerBuffer), pace: pace,
		pods: pods,
		bindings: &bindings{
			pods: pods, binder: deps.API.binds, volumes: &volumeBinder{deps.API.writes, deps.Logger}, claims: claims,
			extenders: deps.Extenders, pace: pace, logger: deps.Logger, clock: deps.Clock,
		},
		fences:       &fences{pods, claims, deps.Logger},
		evictions:    &evictions{pods, deps.Logger, deps.Clock},
		conditions:   &conditions{pods, deps.Logger},
		gates:        &gates{pods, deps.Logger, deps.Clock},
		nodes:        &nodes{deps.API.writes, deps.Logger},
		groups:       &podGroups{deps.API.writes, deps.Logger},
		transactions: &transactions{deps.Ledger, deps.Logger, deps.Clock},
		publisher:    newPublisher(deps.Log, deps.Logger, deps.Clock),
		reporter:     newReporter(deps, pace),
	}
	for l := range x.lanes {
		x.lanes[l] = make(chan effect.Effect)
	}
	x.lanes[LaneLog] = x.publisher.queue
	return x
}

// Lane returns the channel for the effects of one lane. A send blocks while the lane is busy.
func (x *Executor) Lane(l Lane) chan<- effect.Effect { return x.lanes[l] }

// Answers delivers the answer of each effect that has one. It must be read continuously.
func (x *Executor) Answers() <-chan effect.Input { return x.answers }

// Immediate carries out an effect that has no lane, without blocking.
func (x *Executor) Immediate(e effect.Effect) {
	switch e := e.(type) {
	case effect.Report:
		x.reporter.report(e)
	case effect.Rejected:
		telemetry.KubeletRejection(e.Reason)
		x.deps.Logger.Warn("pod rejected by the kubelet", "pod", ref(e.Pod), "node", e.NodeName, "reason", e.Reason)
	case effect.Fault:
		x.deps.Logger.Error("internal fault", "op", e.What, telemetry.KeyError, e.Err)
	}
}

// workersByLane returns how many workers each lane has.
// The lanes that change Kubernetes scale with the workers for binds, so that binds keep their share of the API server
// however many there are. Conditions have a fixed number, because many pods may wait at once.
func (x *Executor) workersByLane() map[Lane]int {
	return map[Lane]int{
		LaneBind: x.workers, LaneClear: max(1, x.workers/2), LaneChange: max(1, x.workers/4), LaneStatus: statusWorkers,
		LaneLedger: ledgerWorkers, LaneSweep: sweepWorkers,
	}
}

// Run works until ctx ends.
// It returns an error if the log is closed, or if the core has requested an effect that has no worker. Calls in flight
// when ctx ends are cancelled, and their answers may be lost, as in a crash.
func (x *Executor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for lane, workers := range x.workersByLane() {
		for range workers {
			g.Go(func() error { return x.work(ctx, lane) })
		}
	}
	g.Go(func() error { return x.publisher.run(ctx) })
	g.Go(func() error { return x.reporter.run(ctx) })
	defer func() {
		for _, set := range x.deps.Extenders {
			set.Close()
		}
	}()
	return g.Wait()
}

// Flush waits until every decision handed over so far is in the log, or ctx ends.
func (x *Executor) Flush(ctx context.Context) error { return x.publisher.flush(ctx) }

// work is one worker of a lane. It answers every effect that it has taken, unless ctx ends first.
func (x *Executor) work(ctx context.Context, lane Lane) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-x.lanes[lane]:
			answer, err := x.paced(ctx, lane, e)
			if err != nil {
				return err
			}
			select {
			case x.answers <- answer:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// paced calls carryOut; changes of Kubernetes have priority over events.
func (x *Executor) paced(ctx context.Context, lane Lane, e effect.Effect) (effect.Input, error) {
	if lane == LaneBind || lane == LaneClear || lane == LaneChange || lane == LaneStatus {
		defer x.pace.change()()
	}
	return x.carryOut(ctx, e)
}

// carryOut hands an effect to its part, and returns the answer. An error means that the core has requested an effect
// that no lane has: a fault of the program, which ends the binder.
func (x *Executor) carryOut(ctx context.Context, e effect.Effect) (effect.Input, error) {
	switch e := e.(type) {
	case effect.Bind:
		return x.bindings.carryOut(ctx, e), nil
	case effect.Announce:
		return x.bindings.announce(ctx, e), nil
	case effect.ReadPod:
		return x.pods.readPod(ctx, e), nil
	case effect.FencePod:
		return x.fences.fencePod(ctx, e), nil
	case effect.RemoveGate:
		return x.gates.removeInTime(ctx, e), nil
	case effect.MarkNode:
		return x.nodes.mark(ctx, e), nil
	case effect.PatchGroup:
		return x.groups.patch(ctx, e), nil
	case effect.PatchCondition:
		return x.statusWrite(func() effect.Answered { return x.conditions.patchCondition(ctx, e) }), nil
	case effect.Nominate:
		return x.statusWrite(func() effect.Answered { return x.conditions.nominate(ctx, e) }), nil
	case effect.Evict:
		return x.evictions.evictInTime(ctx, e), nil
	case effect.ReadBudget:
		return x.evictions.readBudget(ctx, e), nil
	case effect.Amend:
		return x.transactions.amend(ctx, e), nil
	case effect.Transact:
		return x.transactions.transact(ctx, e), nil
	case effect.ReadDoc:
		return x.transactions.readDoc(ctx, e), nil
	}
	return nil, fmt.Errorf("binder: effect %T has no worker", e)
}

// statusWrite measures a write of a pod's status.
func (x *Executor) statusWrite(write func() effect.Answered) effect.Answered {
	begin := x.deps.Clock.Now()
	answer := write()
	alpha.CallSent(alpha.CallStatusPatch, answer.Result == effect.Done, x.deps.Clock.Since(begin))
	return answer
}
