package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// actor is a plugin that acts on chosen nodes, and checks that it is called as upstream would call it.
type actor struct {
	*world
	// answer is the result of an act; it may be a refusal.
	answer func(step.PluginRequest) step.PluginResult
	// reserved holds what each cycle of a shard has reserved and not given back: the pod's UID and node. passed are
	// those that the plugin allows to be bound.
	reserved map[string]string
	passed   map[string]bool
	// actCounts counts the acts, and what had ended in an undo or a bind.
	actCounts map[step.PluginAct]int
}

func newActingWorld(t *testing.T, seed uint64, shards int) *actor {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	at := []placement.CustomPlugin{{Name: "Actor", Weight: 1}}
	cfg.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtFilter: at, placement.AtReserve: at,
	}}
	x := &actor{
		world: newWorldOf(t, seed, shards, cfg), reserved: map[string]string{}, passed: map[string]bool{},
		actCounts: map[step.PluginAct]int{},
	}
	x.answer = func(step.PluginRequest) step.PluginResult { return step.PluginResult{} }
	consult := countingPlugin(100)
	x.advise = func(q step.Consult) step.Advice {
		for _, s := range x.shards {
			for _, p := range s.performs {
				if s.id == q.Shard && p.Act == step.ActReserve {
					t.Fatalf("seed %d: question %d of %s before cycle %d has ended", seed, q.ID, q.Shard, p.ID)
				}
			}
		}
		return consult(q)
	}
	x.perform = x.act
	return x
}

func cycleOf(p step.PluginRequest) string { return fmt.Sprint(p.Shard, "/", p.ID) }

func placeOf(p step.PluginRequest) string { return p.Pod.UID + "@" + p.Node }

// act performs an act, after checking that it is allowed.
func (x *actor) act(p step.PluginRequest) step.PluginResult {
	x.t.Helper()
	x.actCounts[p.Act]++
	cycle, a := cycleOf(p), x.answer(p)
	a.ID, a.Act = p.ID, p.Act
	on, open := x.reserved[cycle]
	switch {
	case p.Act == step.ActReserve && open:
		x.t.Fatalf("cycle %s reserves twice", cycle)
	case p.Act != step.ActReserve && open && on != placeOf(p):
		x.t.Fatalf("cycle %s reserved %s, act %d is about %s", cycle, on, p.Act, placeOf(p))
	}
	failed := a.Refusal != nil || a.Err != nil
	switch p.Act {
	case step.ActBind:
		if open {
			return x.bind(p, a)
		}
		return step.PluginResult{ID: p.ID, Act: p.Act, Err: errors.New("taken back")}
	case step.ActReserve:
		if !failed {
			x.reserved[cycle], x.passed[placeOf(p)] = placeOf(p), !a.Later
		}
	case step.ActPrepare:
		if !open {
			return step.PluginResult{ID: p.ID, Act: p.Act, Err: errors.New("taken back")}
		}
		x.passed[placeOf(p)] = !failed
		if failed {
			delete(x.reserved, cycle)
		}
	case step.ActUndo, step.ActBound:
		if !open && p.Act == step.ActBound {
			x.t.Fatalf("pod %s is bound, and cycle %s is over", p.Pod.UID, cycle)
		}
		if p.Act == step.ActBound && x.pods[p.Pod.UID] != nil && x.pods[p.Pod.UID].Spec.NodeName != p.Node {
			x.t.Fatalf("pod %s is said to be bound to %s", p.Pod.UID, p.Node)
		}
		delete(x.reserved, cycle)
		if open && p.Act == step.ActUndo {
			x.passed[placeOf(p)] = false
		}
	}
	return a
}

// auditPassed checks that no reservation can be bound that plugins have not passed. A deleted pod cannot be bound:
// its reservation remains until the document is handed over.
func (x *actor) auditPassed() {
	x.t.Helper()
	for _, d := range x.docs() {
		for _, e := range d.Entries {
			_, exists := x.pods[e.PodUID]
			if exists && e.State == ledger.Committed && !x.passed[e.PodUID+"@"+d.NodeName] {
				x.t.Fatalf("pod %s may be bound to %s, and plugins have not passed it", e.PodUID, d.NodeName)
			}
		}
	}
}

// Whatever the interleaving of shards, binders, deletions and plugins that refuse, fail, and make pods wait: no pod
// is bound that plugins have not passed, no node is overcommitted, and everything that was reserved is given back in
// the end, or bound, once.
func TestPluginsThatActUnderConcurrency(t *testing.T) {
	total := map[step.PluginAct]int{}
	for seed := range uint64(extendedSeeds) {
		x := newActingWorld(t, seed, 3)
		x.answer = func(p step.PluginRequest) (a step.PluginResult) {
			switch x.rng.IntN(6) {
			case 0:
				a.Refusal = &step.Refusal{Plugin: "Actor", Reasons: []string{"no"}}
			case 1:
				a.Err = errors.New("broken")
			}
			a.Later, a.Binds = x.rng.IntN(2) == 0, x.rng.IntN(2) == 0
			return a
		}
		for i := range 4 {
			x.addNode(fmt.Sprintf("n%d", i), 4)
		}
		for i := range 24 {
			x.addPod(fmt.Sprintf("p%d", i))
		}
		for round := range 8 {
			x.offer()
			x.randomSteps(60)
			if uids := sortedPods(x.pods); round%2 == 0 {
				x.deletePod(uids[x.rng.IntN(len(uids))])
			}
		}
		x.answer = func(step.PluginRequest) step.PluginResult { return step.PluginResult{} }
		for range 12 {
			x.settle()
			x.bindOne()
			x.heartbeat()
		}
		x.settle()
		for cycle, place := range x.reserved {
			uid, node, _ := strings.Cut(place, "@")
			if reserved := x.reservations()[uid]; reserved != node {
				t.Fatalf("seed %d: cycle %s has reserved %s for good", seed, cycle, place)
			}
		}
		for act, n := range x.actCounts {
			total[act] += n
		}
	}
	t.Log(total)
	for act := step.ActReserve; act <= step.ActBind; act++ {
		if total[act] == 0 {
			t.Errorf("the histories are lopsided: act %d never came", act)
		}
	}
}

// randomSteps lets that many random things happen.
func (x *actor) randomSteps(steps int) {
	for range steps {
		x.deliver()
		x.auditPassed()
		if x.rng.IntN(6) == 0 {
			x.bindOne()
		}
	}
}

// heartbeat lets all shards handle the passing of time.
func (w *world) heartbeat() {
	for _, s := range w.shards {
		w.step(s, step.Input{Beat: true})
	}
}

// A pod for which plugins have no work left gets a reservation at once; otherwise its place is held until they have
// finished. Neither is reported before it can be bound.
func TestPluginsAct(t *testing.T) {
	for _, later := range []bool{false, true} {
		x := newActingWorld(t, 1, 1)
		var states []string
		note := func(what string) {
			state := "nothing"
			if _, e, ok := x.hold("pod-p"); ok {
				state = e.State.String()
			}
			states = append(states, what+": "+state)
		}
		x.answer = func(p step.PluginRequest) step.PluginResult {
			note(map[step.PluginAct]string{
				step.ActReserve: "reserve", step.ActPrepare: "prepare", step.ActBound: "bound",
			}[p.Act])
			if len(x.shards[0].decisions) > 0 != (p.Act == step.ActBound) {
				t.Errorf("act %d with decisions %v", p.Act, x.shards[0].decisions)
			}
			return step.PluginResult{Later: later}
		}
		x.addNode("a", 10)
		x.addPod("p")
		x.offer()
		x.settle()
		note("then")
		x.bindOne()
		x.settle()
		want := []string{"reserve: nothing", "then: Committed", "bound: Committed"}
		if later {
			want = []string{"reserve: nothing", "prepare: Held", "then: Committed", "bound: Committed"}
		}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("later %v (-want +got):\n%s", later, diff)
		}
		if d := x.only(); d.Kind != events.DecisionPlaced || d.NodeName != "a" || d.Evidence == nil {
			t.Errorf("%+v, want it placed on a", d)
		}
	}
}

// A plugin's refusal ends the attempt with the plugin's message, before and after the place is held, and leaves no
// hold.
func TestPluginsRefuse(t *testing.T) {
	for seed := range uint64(20) {
		for _, broken := range []bool{false, true} {
			at := []step.PluginAct{step.ActReserve, step.ActPrepare}[seed%2]
			x := newActingWorld(t, seed, 1)
			x.answer = func(p step.PluginRequest) (a step.PluginResult) {
				a.Later = true
				switch {
				case p.Act != at:
				case broken:
					a.Err = errors.New("running PreBind plugin \"Actor\": broken")
				default:
					a.Refusal = &step.Refusal{Plugin: "Actor", Reasons: []string{"no", "never"}}
				}
				return a
			}
			x.addNode("a", 10)
			x.addPod("p")
			x.settle() // an offer that arrives before the partition is given back
			x.offer()
			x.settle()
			d := x.only()
			want := events.Decision{Kind: events.DecisionUnplaceable, Message: "0/1 nodes are available: 1 never, 1 no."}
			if broken {
				want = events.Decision{Kind: events.DecisionFailed, Message: "running PreBind plugin \"Actor\": broken"}
			}
			if d.Kind != want.Kind || d.Message != want.Message {
				t.Errorf("%s %q, want %s %q", d.Kind, d.Message, want.Kind, want.Message)
			}
			if !broken && (len(d.Plugins) != 1 || d.Plugins[0] != "Actor") {
				t.Errorf("plugins %v, want the one that said no", d.Plugins)
			}
			if left := x.reservations(); len(left) > 0 || x.actCounts[step.ActUndo] > 0 {
				t.Errorf("left %v, %d undone: want the plugins to have done that", left, x.actCounts[step.ActUndo])
			}
		}
	}
}

// A place that is held for plugins and whose shard is gone is given up by the next shard with the partition. The
// plugins of a shard that only lost the partition take back what they have reserved.
func TestSuccessorGivesPreparedPlaceUp(t *testing.T) {
	x := newActingWorld(t, 2, 2)
	x.answer = func(p step.PluginRequest) step.PluginResult { return step.PluginResult{Later: true} }
	x.addNode("a", 10)
	x.addPod("p")
	x.offer()
	owner := x.ownerOf(ledger.PartitionOf("pod-p"))
	var successor *shard
	for _, s := range x.shards {
		if s != owner {
			successor = s
		}
	}
	for x.actCounts[step.ActReserve] == 0 || owner.commit != nil || x.reservations()["pod-p"] == "" {
		x.deliver()
	}
	x.perform = func(p step.PluginRequest) step.PluginResult {
		if p.Act == step.ActPrepare && x.reserved[cycleOf(p)] != "" {
			t.Error("prepared after all")
		}
		return x.act(p)
	}
	x.takeOver("pod-p", successor)
	owner.performs, x.actCounts = nil, map[step.PluginAct]int{} // it is at ActPrepare for a long time
	x.settle()
	if left := x.reservations(); len(left) > 0 {
		t.Errorf("%v, want the place given up", left)
	}
	if x.actCounts[step.ActUndo] != 1 || len(x.reserved) > 0 {
		t.Errorf("undone %d times, %v is reserved: want it taken back once", x.actCounts[step.ActUndo], x.reserved)
	}
	if n := len(successor.decisions); n != 1 || successor.decisions[0].Kind != events.DecisionWithdrawn {
		t.Errorf("%+v, want one that tells that the place was given up", successor.decisions)
	}
}

// preparing delivers until the plugins of the first shard, which it returns, are asked to prepare a bind.
func (x *actor) preparing() *shard {
	s := x.shards[0]
	for len(s.performs) == 0 || s.performs[0].Act != step.ActPrepare {
		x.deliver()
	}
	return s
}

// A place whose plugins never finish is given up.
func TestPluginsThatNeverEnd(t *testing.T) {
	x := newActingWorld(t, 1, 1)
	x.answer = func(p step.PluginRequest) step.PluginResult { return step.PluginResult{Later: true} }
	x.addNode("a", 10)
	x.addPod("p")
	x.offer()
	s := x.preparing()
	s.performs = nil
	x.heartbeat()
	x.settle()
	if len(x.reservations()) != 1 {
		t.Fatal("the place is gone at once")
	}
	x.now = x.now.Add(txns.PreparedFor)
	x.heartbeat()
	x.settle()
	if len(x.reservations()) != 0 || x.actCounts[step.ActUndo] != 1 {
		t.Errorf("left %v, undone %d times: want it given up and undone", x.reservations(), x.actCounts[step.ActUndo])
	}
}

// A shard that stops makes its plugins take back what they have reserved, and waits for that.
func TestPluginsOfAShardThatEnds(t *testing.T) {
	x := newActingWorld(t, 1, 1)
	x.answer = func(p step.PluginRequest) step.PluginResult { return step.PluginResult{Later: true} }
	x.addNode("a", 10)
	x.addPod("p")
	x.addPod("q")
	x.offer()
	s := x.preparing()
	x.step(s, step.Input{Drain: true, Beat: true})
	x.settle()
	if len(x.reserved) > 0 {
		t.Errorf("%v is reserved still", x.reserved)
	}
	if out, err := checked(s.core.Step(step.Input{}, x.now)); err != nil || !out.Idle {
		t.Errorf("idle %v, %v: want it to have come to an end", out.Idle, err)
	}
}

// A more important pod may take over a place that is held for plugins, and the plugins take back what they have
// reserved.
func TestPreparedPlaceIsTaken(t *testing.T) {
	x := newActingWorld(t, 1, 1)
	x.answer = func(p step.PluginRequest) step.PluginResult { return step.PluginResult{Later: true} }
	x.addNode("a", 1)
	x.addPod("p")
	x.offer()
	s := x.preparing()
	doc, hold, _ := x.hold("pod-p")
	change, err := txns.Displace(txns.Displacement{
		Authority: txns.Authority{Epochs: x.epochs("pod-p")}, Target: doc, PodUID: "pod-p", Token: hold.Token,
		Entry: ledger.Entry{PodUID: "pod-p2", Namespace: "d", Name: "p2", Token: 99, PodRV: 1, Priority: 10,
			GroupPartition: ledger.PartitionOf("pod-p") + 1, Shard: s.id},
		Facts: progress(x.rv),
	})
	if err != nil {
		t.Fatal(err)
	}
	txn, err := change.Txn()
	if err != nil || !x.commit(txn).Succeeded {
		t.Fatalf("not taken: %v", err)
	}
	_, newHold, _ := x.hold("pod-p2")
	if newHold.Plan != ledger.PlanID(99, false) || newHold.State != ledger.Held {
		t.Errorf("%+v, want it held under a plan of its own", newHold)
	}
	x.step(s, step.Input{Ledger: x.unreadLedger(s)})
	for len(s.performs) > 0 {
		x.step(s, step.Input{Performed: []step.PluginResult{x.performNext(s)}})
	}
	if len(x.reserved) > 0 || x.actCounts[step.ActUndo] != 1 {
		t.Errorf("%v is reserved, undone %d times: want it undone", x.reserved, x.actCounts[step.ActUndo])
	}
}

// progress implements txns.PodFacts.
type progress uint64

func (p progress) PodProgress() uint64                 { return uint64(p) }
func (p progress) PodFact(string) (uint64, bool, bool) { return 0, false, false }

func (w *world) epochs(pod string) map[int32]int64 {
	partition := ledger.PartitionOf(pod)
	kvs, _, err := w.store.List(w.t.Context(), roster.KeyOwn(partition))
	if err != nil || len(kvs) == 0 {
		w.t.Fatalf("partition %d: %v, %d keys", partition, err, len(kvs))
	}
	return map[int32]int64{partition: kvs[0].CreateRevision}
}

// A pod that a plugin holds back is not tried, whether it would fit or not, and nodes are not mentioned.
func TestPluginsHoldBack(t *testing.T) {
	for _, room := range []int64{10, 0} {
		for _, hold := range []bool{true, false} {
			x := newActingWorld(t, 1, 1)
			advise := x.advise
			x.advise = func(q step.Consult) step.Advice {
				if q.GateOnly != (room == 0) {
					t.Errorf("asked about the gate only %v, with room for %d", q.GateOnly, room)
				}
				if hold {
					return step.Advice{ID: q.ID, HeldBack: &step.Refusal{Plugin: "Actor", Reasons: []string{"not yet"}}}
				}
				return advise(q)
			}
			x.addNode("a", room)
			x.addPod("p")
			x.settle()
			x.offer()
			x.settle()
			d, want := x.only(), events.DecisionHeldBack
			switch {
			case !hold && room > 0:
				want = events.DecisionPlaced
			case !hold:
				want = events.DecisionUnplaceable
			case d.Message != "not yet" || len(d.Plugins) != 1 || d.Plugins[0] != "Actor":
				t.Errorf("%q by %v, want the plugin's word", d.Message, d.Plugins)
			}
			if d.Kind != want {
				t.Errorf("room for %d, held back %v: %s, want %s", room, hold, d.Kind, want)
			}
		}
	}
}

// evenly makes a pod one of the pods that are spread evenly over zones.
func evenly(p *corev1.Pod) {
	p.Labels = map[string]string{"app": "web"}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
}

// A pod whose plugins have not answered yet may be withdrawn. A pod whose rules count it is not placed before that
// is settled.
//
//  1. The shard chooses n1, in zone b, for first, and asks plugins to reserve.
//  2. It decides second, of a profile without plugins, for n0, in zone a. One pod runs there; first evens that out.
//  3. The plugins refuse first.
//  4. second must not be placed in zone a: there would be two pods, and none in zone b.
func TestWhoCountsAPodThatPluginsRefuse(t *testing.T) {
	custom := placement.DefaultProfile("custom")
	at := []placement.CustomPlugin{{Name: "Actor", Weight: 1}}
	custom.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtFilter: at, placement.AtReserve: at,
	}}
	profile, err := placement.NewProfile(custom)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, 1, 1, placement.DefaultProfile(corev1.DefaultSchedulerName), func(c *decide.Config) {
		c.Profiles["custom"], c.Acts["custom"], c.Gates["custom"] = profile, true, true
	})
	w.advise, w.perform = countingPlugin(100), func(p step.PluginRequest) step.PluginResult {
		return step.PluginResult{ID: p.ID, Act: p.Act, Refusal: &step.Refusal{Plugin: "Actor", Reasons: []string{"no"}}}
	}
	st := &scenario{world: w, s: w.shards[0]}
	st.addNodeIn("n0", "a", 10)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly)
	st.deliverAll()
	first := st.pod("first", evenly, func(p *corev1.Pod) { p.Spec.SchedulerName = "custom" })
	st.drive(func() bool { return len(st.s.performs) > 0 })
	if p := st.s.performs[0]; p.Act != step.ActReserve || p.Node != "n1" {
		t.Fatalf("plugins are to %d on %s, want them to reserve %s on n1", p.Act, p.Node, first)
	}
	second := st.pod("second", evenly)
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q while plugins may refuse the pod that it has counted", at)
	}
	for len(st.s.performs) > 0 {
		st.step(st.s, step.Input{Performed: []step.PluginResult{st.performNext(st.s)}})
	}
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	if at := st.reservedAt(second); !slices.Equal(at, []string{"n1"}) {
		t.Errorf("reserved on %q when the plugins have refused, want n1", at)
	}
}

// drive answers transactions and questions until so returns true.
func (st *scenario) drive(so func() bool) {
	st.t.Helper()
	for range 50 {
		if so() {
			return
		}
		switch {
		case st.s.commit != nil:
			st.answer()
		case len(st.s.consults) > 0:
			q := st.s.consults[0]
			st.s.consults = st.s.consults[1:]
			st.step(st.s, step.Input{Advice: []step.Advice{st.advise(q)}})
		}
		st.now = st.now.Add(step.SoonAfter)
		st.deliverAll()
	}
	st.t.Fatal("it does not come to that")
}
