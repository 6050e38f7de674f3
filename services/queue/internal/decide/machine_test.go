package decide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// machine makes random lives of a queue. The harness checks I5 after every step; the
// machine's twin checks I6 in the dumbest way: it remembers everything that ever happened.
type machine struct {
	*harness
	pods, nodes int
	live        map[string]bool
	told        []events.Decision
	leading     bool
	happened    []happening
	verdicts    map[string]events.Decision
}

type happening struct {
	cause    Cause
	sequence uint64
	revision int64
}

func (m *machine) event(c Cause) {
	m.happened = append(m.happened, happening{cause: c, sequence: m.sequence})
}

// check is I6 by the twin: no parked pod has news after its verdict.
func (m *machine) check(t *rapid.T) {
	for uid, v := range m.verdicts {
		if pool, _ := m.core.Where(uid); pool != PoolParked {
			continue
		}
		for _, e := range m.happened {
			news := e.sequence > v.FactSequence || e.revision > v.LedgerRevision
			if news && interestOf(v.Plugins)&e.cause != 0 {
				t.Fatalf("I6: pod %s waits for %v, which happened at %d/%d, after its verdict at %d/%d\n%s",
					uid, v.Plugins, e.sequence, e.revision, v.FactSequence, v.LedgerRevision, m.core.Describe())
			}
		}
	}
}

func (m *machine) pick(t *rapid.T, of func(*state.Pod) bool) string {
	var names []string
	for _, name := range m.names() {
		if of(m.harness.pods[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Skip("no such pod")
	}
	return rapid.SampledFrom(names).Draw(t, "pod")
}

func unbound(p *state.Pod) bool { return p.NodeName == "" }
func isBound(p *state.Pod) bool { return p.NodeName != "" }

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": m.check, "addPod": m.addPod, "bindPod": m.bindPod, "removePod": m.removePod, "changePod": m.changePod,
		"patchStatus": m.patchStatus, "addNode": m.addNode, "changeNode": m.changeNode, "reserve": m.reserve,
		"release": m.release, "moveOwners": m.moveOwners, "askWork": m.askWork, "decide": m.decide,
		"redeliver": m.redeliver, "condition": m.conditionShown, "pass": m.pass, "change": m.changeLeader,
		"reset": m.reset,
	}
}

func (m *machine) addPod(t *rapid.T) {
	m.pods++
	priority := int32(rapid.IntRange(0, 2).Draw(t, "priority"))
	gated := rapid.IntRange(0, 5).Draw(t, "gated") == 0
	m.put(fmt.Sprintf("p%03d", m.pods), func(p *corev1.Pod) {
		p.Spec.Priority = &priority
		if gated {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		}
	})
}

func (m *machine) bindPod(t *rapid.T) {
	m.bind(m.pick(t, func(p *state.Pod) bool { return unbound(p) && !p.Gated }))
	m.event(CausePodAssigned)
}

func (m *machine) removePod(t *rapid.T) {
	name := m.pick(t, func(*state.Pod) bool { return true })
	was := m.harness.pods[name]
	m.remove(name)
	if isBound(was) {
		m.event(CausePodGone)
	}
}

func (m *machine) changePod(t *rapid.T) {
	name := m.pick(t, unbound)
	m.put(name, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = nil
		p.Labels = map[string]string{"v": strconv.FormatUint(m.version, 10)}
	})
	if v, ok := m.verdicts[name]; ok {
		// Own updates concern this pod alone: the twin drops the verdict if it is old news.
		if pool, _ := m.core.Where(name); pool == PoolParked && interestOf(v.Plugins)&CauseOwnUpdate != 0 {
			t.Fatalf("I6: pod %s changed and stays parked", name)
		}
	}
}

func (m *machine) patchStatus(t *rapid.T) {
	m.put(m.pick(t, unbound), func(p *corev1.Pod) { p.Status.Message = strconv.FormatUint(m.version, 10) })
}

func (m *machine) addNode(*rapid.T) {
	m.nodes++
	m.node("n"+strconv.Itoa(m.nodes), func(*corev1.Node) {})
	m.event(CauseNodeAdded)
}

func (m *machine) changeNode(t *rapid.T) {
	if m.nodes == 0 {
		t.Skip("no node")
	}
	name := "n" + strconv.Itoa(rapid.IntRange(1, m.nodes).Draw(t, "node"))
	if rapid.Bool().Draw(t, "labels") {
		m.node(name, func(n *corev1.Node) { n.Labels = map[string]string{"v": strconv.FormatUint(m.sequence, 10)} })
		m.event(CauseNodeLabels)
		return
	}
	m.node(name, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	m.event(CauseNodeTaints)
}

func (m *machine) reserve(t *rapid.T) {
	name := m.pick(t, func(p *state.Pod) bool { return unbound(p) && !p.Gated })
	m.live[name] = true
	m.hold(Hold{PodUID: name, Live: true})
	m.want(name, PoolHeld)
}

func (m *machine) release(t *rapid.T) {
	names := slices.Sorted(maps.Keys(m.live))
	if len(names) == 0 {
		t.Skip("nothing reserved")
	}
	name := rapid.SampledFrom(names).Draw(t, "reserved")
	delete(m.live, name)
	pod := m.harness.pods[name]
	ahead := uint64(rapid.IntRange(0, 2).Draw(t, "ahead"))
	m.hold(Hold{PodUID: name, HW: m.progress + ahead, Bound: pod != nil && isBound(pod)})
	if pod == nil {
		m.happened = append(m.happened, happening{cause: CauseReservationGone, revision: m.revision})
	}
}

func (m *machine) moveOwners(t *rapid.T) {
	var owners [ledger.Partitions]string
	split := rapid.IntRange(0, ledger.Partitions).Draw(t, "split")
	for p := range owners {
		owners[p] = "s1"
		if p >= split {
			owners[p] = "s2"
		}
	}
	m.own(owners)
}

func (m *machine) askWork(t *rapid.T) {
	shard := rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "shard")
	r := events.WorkRequest{Shard: shard, Window: int32(rapid.IntRange(-1, 6).Draw(t, "window"))}
	for _, token := range slices.Sorted(maps.Keys(m.offers)) {
		switch rapid.IntRange(0, 4).Draw(t, "token") {
		case 0:
			r.Return = append(r.Return, token)
		case 1:
			r.Renew = append(r.Renew, token)
		}
	}
	m.step(WorkAsked{Request: r})
	if s, ok := m.core.leases.shards[shard]; ok && len(m.last) > 0 && s.leased > s.window {
		t.Fatalf("shard %s holds %d, its window is %d", shard, s.leased, s.window)
	}
}

func (m *machine) decide(t *rapid.T) {
	tokens := slices.Sorted(maps.Keys(m.offers))
	if len(tokens) == 0 {
		t.Skip("no offers")
	}
	o := m.offers[rapid.SampledFrom(tokens).Draw(t, "offer")]
	delete(m.offers, o.Token)
	kind := rapid.SampledFrom([]events.DecisionKind{
		events.DecisionPlaced, events.DecisionUnplaceable, events.DecisionUnplaceable, events.DecisionFailed,
		events.DecisionReleased,
	}).Draw(t, "kind")
	d := events.Decision{Kind: kind, Pod: o.Pod, Token: o.Token, FactSequence: m.sequence, LedgerRevision: m.revision}
	d.FactSequence -= min(d.FactSequence, uint64(rapid.IntRange(0, 3).Draw(t, "behind")))
	if kind == events.DecisionPlaced {
		d.LedgerRevision += int64(rapid.IntRange(0, 2).Draw(t, "revision"))
	}
	if kind == events.DecisionUnplaceable {
		d.LedgerRevision -= int64(rapid.IntRange(0, 2).Draw(t, "revision behind"))
		d.Plugins = []string{rapid.SampledFrom(slices.Sorted(maps.Keys(interests))).Draw(t, "plugin")}
	}
	before, _ := m.core.Where(o.Pod.UID)
	m.tell(d)
	if pool, _ := m.core.Where(o.Pod.UID); pool == PoolParked && before != PoolParked {
		m.verdicts[o.Pod.UID] = d
	}
	m.told = append(m.told, d)
}

// redeliver is I7: an answer that comes again moves nothing.
func (m *machine) redeliver(t *rapid.T) {
	if len(m.told) == 0 {
		t.Skip("nothing told")
	}
	d := rapid.SampledFrom(m.told).Draw(t, "decision")
	// Answers to the last offer count until the next, so tell it once more before looking.
	m.tell(d)
	before := m.core.Describe()
	m.tell(d)
	if after := m.core.Describe(); after != before {
		t.Fatalf("I7: redelivery of %+v changed\n%s\ninto\n%s", d, before, after)
	}
	if pool, _ := m.core.Where(d.Pod.UID); pool == PoolParked && m.core.pods[d.Pod.UID].verdict.token == d.Token {
		m.verdicts[d.Pod.UID] = d
	}
}

func (m *machine) conditionShown(t *rapid.T) {
	name := m.pick(t, unbound)
	ahead := uint64(rapid.IntRange(0, 2).Draw(t, "ahead"))
	m.tell(events.Decision{
		Kind: events.DecisionCondition, Pod: events.PodRef{UID: name},
		PodResourceVersion: m.harness.pods[name].ResourceVersion + ahead,
	})
}

func (m *machine) pass(t *rapid.T) {
	m.sleep(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
}

func (m *machine) changeLeader(t *rapid.T) {
	if m.leading = rapid.IntRange(0, 3).Draw(t, "lead") > 0; m.leading {
		m.step(Lead{Term: m.revision})
	} else {
		m.step(StepDown{})
	}
	clear(m.verdicts)
}

func (m *machine) reset(*rapid.T) {
	m.sequence += 5
	m.step(FactsReset{Pods: slices.Collect(maps.Values(m.harness.pods)), Position: m.at()})
	m.event(causeAny &^ CauseReservationGone)
}

// finish demands progress once everything works: every free pod is offered.
func (m *machine) finish(t *rapid.T) {
	m.leading = true
	m.step(Lead{Term: m.revision + 100})
	m.ownAll("s1")
	for uid := range m.live {
		m.hold(Hold{PodUID: uid})
	}
	m.hold() // whatever a message promised is past now
	m.hold()
	m.progress += 100 // and so is every high-water
	m.facts(state.Changes{})
	m.sleep(flushAfter)
	m.ask("s1", 10_000)
	for name, p := range m.harness.pods {
		if unbound(p) && !p.Gated {
			m.want(name, PoolOffered)
		}
	}
}

func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{
			harness: newHarness(t), live: map[string]bool{}, verdicts: map[string]events.Decision{},
		}
		m.lead()
		t.Repeat(m.actions())
		m.finish(t)
	})
}
