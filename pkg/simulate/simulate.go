package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// maxTries bounds the pods that are tried: each victim is less important than its preemptor, so that the simulation
// would end without the bound, but not always soon.
const maxTries = 1_000_000

// Input is the input of a simulation. Profiles, Changes and Policy are only read.
type Input struct {
	// Facts is owned by Run and changed.
	Facts *state.Store
	// Ledger holds the promises: a reserved pod counts on its node, and the policy leaves claimed victims alone; nil
	// for none.
	Ledger *replica.View
	// Profiles are the profiles by which pods are placed; pods of other schedulers stay unplaced.
	Profiles []placement.ProfileConfig
	Changes  Changes
	// Policy, if not nil, runs for one cycle.
	Policy *policy.Policy
	// Now is the time of the simulation: it matters for the ages of pods.
	Now time.Time
}

// Changes are the changes to simulate. The zero value changes nothing: the run then predicts what becomes of the
// waiting pods.
type Changes struct {
	// Drain and Remove name nodes. A drained node is emptied as by kubectl drain, respecting disruption budgets; a
	// removed node is lost with all its pods.
	Drain, Remove []string
	// Add creates Count nodes like an existing one.
	Add []Addition
	// Nodes and Pods are added to the cluster as they are. A pod without priority gets that of its class.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
}

// Addition is a number of nodes like an existing one.
type Addition struct {
	Count int
	Like  string
}

// simulation is the cluster being simulated, during one run.
type simulation struct {
	Input
	profiles map[string]*placement.Profile
	view     *view.View
	engine   *engine.Engine
	// report collects the outcome as it happens; profiles is by scheduler name; view counts usage for engine, which
	// evaluates placements.
	report Report
	// queue holds the pods that need a place. evicted holds the pods evicted so far, by UID. taken counts the
	// evictions charged to each budget, by the budget's UID; other evictions charge no budget.
	queue   []queuedPod
	evicted map[string]bool
	charged map[string]int32
	// version is larger than any resourceVersion.
	version  uint64
	enqueued int
}

// queuedPod is a pod that needs a place, and the node of the pod that it replaces, if it does. seq is the order in
// which pods joined the queue.
type queuedPod struct {
	pod      *state.Pod
	replaces string
	seq      int
}

// Run runs the simulation. An error means that the input is wrong: a profile or policy that is not valid, or a change
// that cannot be made, such as a drain of an unknown node. What does not fit is a result.
func Run(in Input) (Report, error) {
	w := &simulation{
		Input: in, profiles: map[string]*placement.Profile{}, engine: engine.New(engine.Config{}),
		evicted: map[string]bool{}, charged: map[string]int32{}, version: simulatedVersion,
	}
	// Profiles are compiled first: a mistake in one must not show only when the first pod of it is tried.
	for _, cfg := range in.Profiles {
		p, err := placement.NewProfile(cfg)
		if err != nil {
			return Report{}, fmt.Errorf("profile %q: %w", cfg.SchedulerName, err)
		}
		w.profiles[cfg.SchedulerName] = p
	}
	if w.Ledger == nil {
		w.Ledger = replica.NewView()
	}
	w.report.Facts, w.report.Ledger = in.Facts.Position().Sequence, w.Ledger.Revision()
	w.view = view.New(in.Facts, w.Ledger, w.engine)
	w.engine.SetObjects(w.view.Snapshot())
	// Changes precede the policy, so that a policy can be tried on a changed cluster.
	for _, step := range []func() error{w.change, w.deschedule} {
		if err := step(); err != nil {
			return Report{}, err
		}
	}
	// Nodes whose facts are older than their document in the ledger are excluded, as a shard would.
	if behind := w.view.Settle(); behind > 0 {
		w.note("%d nodes excluded: the facts do not yet show what the ledger has for them", behind)
	}
	w.enqueuePending()
	w.placeAll()
	nodes, pods, _ := w.view.Sizes()
	w.report.Nodes, w.report.Pods = nodes, pods
	return w.report, nil
}

// enqueuePending adds the waiting pods to the replacements, and sorts the queue. A pod with a reservation has its
// place.
func (w *simulation) enqueuePending() {
	for p := range w.view.Snapshot().Pods() {
		_, _, reserved := w.Ledger.Entry(p.UID)
		if p.NodeName == "" && !p.Terminal && !p.Deleting && !reserved {
			w.enqueue(queuedPod{pod: p})
		}
	}
	slices.SortStableFunc(w.queue, compareQueued)
}

// enqueue appends a pod to the queue.
func (w *simulation) enqueue(p queuedPod) {
	w.enqueued++
	p.seq = w.enqueued
	w.queue = append(w.queue, p)
}

// compareQueued is the order of the queue: by priority, then age (a replacement was created now), then UID.
func compareQueued(a, b queuedPod) int {
	return cmp.Or(
		cmp.Compare(b.pod.Priority, a.pod.Priority),
		a.pod.Created().Compare(b.pod.Created().Time),
		cmp.Compare(a.pod.UID, b.pod.UID),
		cmp.Compare(a.seq, b.seq),
	)
}

// placeAll tries every pod of the queue; the replacement of a victim joins the queue. It ends because a victim has a
// lower priority than its preemptor, and after maxTries in any case.
func (w *simulation) placeAll() {
	for n := 0; len(w.queue) > 0; n++ {
		next := w.queue[0]
		w.queue = w.queue[1:]
		if n >= maxTries {
			w.pending(next, fmt.Sprintf("not tried: limit of %d pods reached", maxTries))
			continue
		}
		w.try(next)
	}
}

// pending reports a pod that gets no place.
func (w *simulation) pending(p queuedPod, why string) {
	w.report.Pending = append(w.report.Pending, Pending{Pod: p.pod.Key(), Replaces: p.replaces, Why: why})
}

// try places one pod, with preemption if nothing else helps. It evaluates all nodes, not a sample: a simulation should
// not miss the one that fits.
func (w *simulation) try(p queuedPod) {
	// The queue holds gated pods, and pods of other schedulers, so that the report can say why they stay pending.
	profile, ok := w.profiles[p.pod.SchedulerName]
	switch {
	case p.pod.Gated:
		w.pending(p, "has scheduling gates")
		return
	case !ok:
		w.pending(p, fmt.Sprintf("no profile places pods of scheduler %q", p.pod.SchedulerName))
		return
	}
	if profile.Extended(p.pod) || profile.AdvisedOnVictims(p.pod) {
		w.report.Unasked++
	}
	w.view.Settle()
	result := w.engine.Evaluate(profile, engine.Query{Pod: p.pod})
	switch {
	case result.Err != nil:
		w.pending(p, result.Err.Error())
	case len(result.Feasible) > 0:
		w.place(p, result.Feasible[0].Node.Node.Name, result.FeasibleCount)
	default:
		w.preempt(p, profile, result.Diagnosis.Message())
	}
}

// place counts a pod on its node from now on, as a shard's staged decision does. feasible is 0 for a place that
// preemption made.
func (w *simulation) place(p queuedPod, node string, feasible int) {
	w.view.Stage(p.pod, node)
	w.report.Placed = append(w.report.Placed, Placed{
		Pod: p.pod.Key(), Node: node, Replaces: p.replaces, Feasible: feasible,
	})
}

// preempt looks for less important pods that could be evicted, and evicts them. The pod gets the place at once, since
// a simulated pod is gone at once; the queue is sorted again for the replacements.
func (w *simulation) preempt(p queuedPod, profile *placement.Profile, why string) {
	plan := w.engine.Preempt(profile, engine.PreemptQuery{Pod: p.pod, Budgets: w.budgets()})
	switch {
	case plan.Err != nil:
		w.pending(p, why+" preemption: "+plan.Err.Error())
		return
	case plan.Node == nil:
		if plan.Message != "" {
			why += " " + plan.Message
		}
		for _, sentence := range plan.Advice {
			why += " " + sentence
		}
		w.pending(p, why)
		return
	}
	node := plan.Node.Node.Name
	for _, v := range plan.Victims {
		for _, b := range v.Budgets {
			w.charged[b.UID]++
		}
		w.evict(v.Pod, v.Node.Node.Name, Eviction{By: "preemption", Why: "for pod " + p.pod.Key()})
	}
	w.place(p, node, 0)
	slices.SortStableFunc(w.queue, compareQueued)
}

// budgets returns the budgets with the evictions so far deducted.
func (w *simulation) budgets() *preempt.Budgets {
	return preempt.NewBudgets(w.view.Snapshot(), func(uid string) int32 { return w.charged[uid] })
}
