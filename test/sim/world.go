package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/placement"
	queuecore "github.com/berth-scheduler/berth/services/queue/decide"
)

// Options of one run.
type Options struct {
	Seed uint64
	// Mutant is the part of the protocol that is removed; the zero value is none.
	Mutant Mutant
	// Budgets: pods of several priorities compete for few nodes and one budget, with evictions that others request,
	// and only Berth evicts pods.
	Budgets bool
	// Marks: binders write marks on nodes for cluster autoscalers, and in the end none may be left.
	Marks bool
	// Family, if set, is the family of the run; otherwise the seed draws one.
	Family string
	// Trace, if set, receives a line for each event.
	Trace func(line string)
}

// Report is the result of a run.
type Report struct {
	// Hits counts events, by name; see CoverageGoals.
	Hits map[string]int
	// Steps is how many there were, Virtual how long they took in the world's own time.
	Steps   int
	Virtual time.Duration
	// Bound counts the pods that were bound, Requests the evictions that a webhook answered, and Migrated the migrations
	// that followed.
	Bound, Requests, Migrated int
	// Gangs counts the revisions that reserved places for members of a group, separately for each group.
	Gangs int
	// GangPlans counts the plans for members of groups whose victims may be evicted.
	GangPlans int
	// Marks counts writes of marks to nodes, by what they were.
	Marks map[string]int
}

// errBroken is wrapped by every error that reports a broken promise.
var errBroken = errors.New("broken promise")

// world is everything there is in one run.
type world struct {
	ctx    context.Context //nolint:containedctx // the twins' interfaces ask for one, nothing here ever waits
	rng    *rand.Rand
	now    time.Duration
	mutant Mutant
	faults faults
	// budgets and marks: see Options.
	budgets, marks bool

	environment
	network
	bus
	members

	oracle *oracle
	findings
	cluster cluster
	visits
	storeLoss
}

// findings are the results of a run.
type findings struct {
	report Report
	broke  error
	trace  func(string)
	// faultsEnded is when the faults ended.
	faultsEnded time.Duration
	// refused are the documents of nodes as they stood when a bind to one was refused, by
	// binder and node.
	refused map[string]ledger.NodeDoc
}

// environment are the outside worlds.
type environment struct {
	api    *apiServer
	store  *mem.Store
	leases leases
	log    *memlog.Log
	requests
}

// members are the processes.
type members struct {
	queues  []*queueReplica
	shards  []*shard
	binders []*binder
	// deschedulers are those of runs in which pods are moved.
	deschedulers []*descheduler
	profiles     map[string]*placement.Profile
	policy       *policy.Policy
}

// process is a member of the control plane that can be started, stepped and killed.
type process interface {
	base() *proc
	start()
	steps() []func() error
	drain() error
}

const (
	queueReplicas = 2
	shardCount    = 3
	binderCount   = 2
	deschedulers  = 2
	// warmUp bounds the sweeps until the first leader leads and all partitions are held.
	warmUp = 400
	// leastSteps is how many steps there are with faults at least, and moreSteps how many more at
	// most.
	leastSteps, moreSteps = 2000, 2000
	// sweepTime is the duration of a sweep in virtual time.
	sweepTime = 100 * time.Millisecond
	// flushAfter is when a parked pod is tried that nothing has woken.
	flushAfter = 30 * time.Second
	// recoveryTime is how long it may take, without faults, until everything has come true: the
	// longest single wait there is, a flush, several times over.
	recoveryTime = 4 * flushAfter
)

// Run plays one seed. The error is a broken promise, or reports that the simulation itself does not work.
func Run(ctx context.Context, o Options) (Report, error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return Report{}, err
	}
	err = w.play()
	if err != nil {
		w.describe()
	}
	w.report.Virtual = w.now
	if errors.Is(err, errBroken) {
		err = fmt.Errorf("step %d, after %s: %w", w.report.Steps, w.now, err)
	}
	return w.report, err
}

func (w *world) play() error {
	if err := w.settleDown(); err != nil {
		return err
	}
	w.faults.begin(w)
	for n := w.faultySteps(); n > 0 || n > -3*moreSteps && w.restoreUnobserved(); n-- {
		if err := w.stepAny(); err != nil {
			return err
		}
	}
	w.endFaults()
	w.faultsEnded = w.now
	return w.untilTrue("liveness", recoveryTime, w.oracle.unfinished)
}

// faultySteps is how many steps there are with faults.
func (w *world) faultySteps() int {
	n := leastSteps + w.rng.IntN(moreSteps)
	switch {
	case w.cluster.moves():
		n += 2 * moreSteps // there are more processes, too
	case w.cluster.full() || w.cluster.family == massive || w.cluster.family == restarted ||
		w.cluster.family == grouped:
		n += moreSteps // a pod that others go for takes its time
	case w.cluster.family == storeReplaced:
		n += 2 * moreSteps // a generation stays closed for long
	}
	return n
}

// settleDown lets the members find each other before the first fault.
func (w *world) settleDown() error {
	w.cluster.populate(w)
	return w.untilTrue("start", warmUp*sweepTime, func() error {
		if n := w.oracle.unowned(); n > 0 {
			return fmt.Errorf("%d partitions are vacant", n)
		}
		return nil
	})
}

// untilTrue sweeps until nothing is left undone, or too much time has passed.
func (w *world) untilTrue(what string, limit time.Duration, undone func() error) error {
	end := w.now + limit
	for {
		if err := w.sweep(); err != nil {
			return err
		}
		left := undone()
		if left == nil {
			return nil
		}
		if w.now >= end {
			return w.violates(what, "%s without faults was not enough: %v", limit, left)
		}
	}
}

func newWorld(ctx context.Context, o Options) (*world, error) {
	w := &world{
		ctx: ctx, rng: rand.New(rand.NewPCG(o.Seed, 0)), mutant: o.Mutant, budgets: o.Budgets || o.Mutant.budgets,
		marks:   o.Marks,
		cluster: cluster{family: family(cmp.Or(o.Family, string(o.Mutant.family))), strict: o.Budgets || o.Mutant.budgets},
		findings: findings{
			trace: o.Trace, report: Report{Hits: map[string]int{}, Marks: map[string]int{}},
			refused: map[string]ledger.NodeDoc{},
		},
	}
	w.environment = environment{
		api: newAPI(), store: mem.New(), leases: leases{map[int64]time.Duration{}}, requests: requests{},
	}
	// The log of every other seed has frames.
	w.log = memlog.New(memlog.Options{
		Frames: o.Seed%2 == 1, Now: func() time.Time { return base.Add(w.now) },
	})
	var err error
	if w.profiles, err = profiles(); err != nil {
		return nil, err
	}
	if w.oracle, err = newOracle(w); err != nil {
		return nil, err
	}
	for n := range queueReplicas {
		w.queues = append(w.queues, &queueReplica{proc: proc{w: w, role: "queue", n: n}})
	}
	shards := shardCount
	if w.cluster.family = w.drawFamily(); w.cluster.moves() {
		shards = 2
	}
	if w.cluster.family == claimed {
		w.api.serve(claimKinds)
	}
	if w.cluster.family == equipped {
		w.api.serve(deviceKinds)
	}
	if w.cluster.family == grouped {
		w.api.serve(groupKinds)
	}
	for n := range shards {
		w.shards = append(w.shards, &shard{proc: proc{w: w, role: "scheduler", n: n}})
	}
	for n := range binderCount {
		w.binders = append(w.binders, &binder{proc: proc{w: w, role: "binder", n: n}})
	}
	if w.cluster.moves() {
		for n := range deschedulers {
			w.deschedulers = append(w.deschedulers, &descheduler{proc: proc{w: w, role: "descheduler", n: n}})
		}
		if w.policy, err = movesOld(w.cluster.movesOnly() || w.chance(50)); err != nil {
			return nil, err
		}
	}
	for _, p := range w.processes() {
		p.start()
	}
	return w, nil
}

func (w *world) processes() []process {
	var all []process
	for _, q := range w.queues {
		all = append(all, q)
	}
	for _, s := range w.shards {
		all = append(all, s)
	}
	for _, b := range w.binders {
		all = append(all, b)
	}
	for _, d := range w.deschedulers {
		all = append(all, d)
	}
	return all
}

func profiles() (map[string]*placement.Profile, error) {
	p, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		return nil, err
	}
	return map[string]*placement.Profile{corev1.DefaultSchedulerName: p}, nil
}

// queueConfig is production's with times that are shortened as the leases are.
func (w *world) queueConfig(member string) queuecore.Config {
	return queuecore.Config{
		Queue: member, Profiles: w.profiles,
		InitialBackoff: 200 * time.Millisecond, MaxBackoff: 2 * time.Second,
		Lease: 3 * time.Second, DeliveryLimit: 1000, ShardTimeout: 3 * time.Second,
		ConditionWait: time.Second, FlushAfter: flushAfter, MaxOffers: 256,
		TokenSeed: w.rng.Uint64(),
	}
}

// sweep lets every process do everything once, and everything under way arrive.
func (w *world) sweep() error { return w.sweepOnce(true) }

// sweepOnce is a sweep. With restart it starts processes which are down.
func (w *world) sweepOnce(restart bool) error {
	w.advance(sweepTime)
	w.api.rv++ // another client's lease; without it a log that has lost its tail may stay silent
	for _, p := range w.processes() {
		if !p.base().up && restart { // a process that was draining when the faults ended is replaced, as in a rolling update
			p.start()
		}
		if p.base().paused() || !p.base().up {
			continue
		}
		p.base().keep()
		if !p.base().up {
			continue
		}
		for _, step := range p.steps() {
			if err := w.do(step); err != nil {
				return err
			}
		}
	}
	w.landAppends(100)
	for range len(w.calls) + len(w.messages) + 1 {
		if err := w.do(w.stepCall); err != nil {
			return err
		}
		if err := w.do(w.stepBus); err != nil {
			return err
		}
	}
	w.cluster.kubelets(w, 100)
	w.claimController(100)
	w.disruptionController()
	return w.oracle.check()
}

// do counts a step, carries it out and looks at the world afterwards.
func (w *world) do(step func() error) error {
	w.report.Steps++
	if err := step(); err != nil {
		return err
	}
	if w.broke != nil {
		return w.broke
	}
	return w.oracle.check()
}

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	w.now += d
	w.expireLeases()
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%9s ", w.now) + fmt.Sprintf(format, args...))
	}
}

// breaks notes that something has come out that must not.
func (w *world) breaks(format string, args ...any) error { return w.violates("form", format, args...) }

// violates notes a broken promise, and returns the first one.
func (w *world) violates(invariant, format string, args ...any) error {
	w.note(invariant, format, args...)
	return w.broke
}

// note notes a broken promise, if it is the first one.
func (w *world) note(invariant, format string, args ...any) {
	if w.broke == nil && !w.mutant.mutes(invariant) && (!w.doubtful || invariant == "form" || invariant == "liveness") {
		w.broke = fmt.Errorf("%w: %s: %s", errBroken, invariant, fmt.Sprintf(format, args...))
	}
}

func (w *world) broken() error { return w.broke }
