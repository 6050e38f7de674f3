package decide

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// groupFacts are the PodGroups of a harness, with its pods as their members.
type groupFacts struct {
	rule.NoObjects
	h      *harness
	groups map[string]*state.Object
}

func (g groupFacts) ObjectByName(k events.Kind, _, name string) (*state.Object, bool) {
	o, ok := g.groups[name]
	return o, ok && k == events.KindPodGroup
}

func (g groupFacts) PodsOfGroup(_, name string) iter.Seq[*state.Pod] {
	return func(yield func(*state.Pod) bool) {
		for _, uid := range slices.Sorted(maps.Keys(g.h.pods)) {
			if p := g.h.pods[uid]; p.PodGroup() == name && !yield(p) {
				return
			}
		}
	}
}

func newGroupHarness(t failer) *harness {
	h := newHarness(t)
	h.objects = groupFacts{h: h, groups: map[string]*state.Object{}}
	return h
}

// group sets a PodGroup; minCount 0 is the policy "basic", and a negative one deletes it.
func (h *harness) group(name string, minCount int32) {
	h.t.Helper()
	all := h.objects.(groupFacts).groups
	before := all[name]
	if before == nil && minCount < 0 {
		return
	}
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("group-", name, h.nextVersion())),
	}}
	if minCount > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount}
	} else {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	}
	after := &state.Object{Kind: events.KindPodGroup, UID: string(g.UID), Namespace: "ns", Name: name, API: g}
	all[name] = after
	if minCount < 0 {
		after = nil
		delete(all, name)
	}
	h.facts(state.Changes{Others: []state.ObjectChange{{Kind: events.KindPodGroup, Before: before, After: after}}})
}

func (h *harness) member(name, group string, changes ...func(*corev1.Pod)) {
	h.t.Helper()
	h.put(name, func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		for _, change := range changes {
			change(p)
		}
	})
}

// pools returns the pools of pods, in their order.
func (h *harness) pools(names ...string) (pools []waiting.Pool) {
	for _, name := range names {
		pool, _ := h.core.Where(name)
		pools = append(pools, pool)
	}
	return pools
}

func (h *harness) wantPools(what string, members []string, want ...waiting.Pool) {
	h.t.Helper()
	if got := h.pools(members...); !slices.Equal(got, want) {
		h.t.Fatalf("%s: %v are in %v, want %v\n%s", what, members, got, want, h.core.Describe())
	}
}

// A gang is offered by one of its members, once it is complete.
func TestGangIsOffered(t *testing.T) {
	h := newGroupHarness(t)
	h.lead()
	h.ask("s1", 9)
	abc := []string{"a", "b", "c"}
	h.member("a", "g")
	h.member("b", "g")
	h.wantPools("no object", abc[:2], waiting.PoolParked, waiting.PoolGrouped)
	h.group("g", 3)
	h.wantPools("incomplete", abc[:2], waiting.PoolParked, waiting.PoolGrouped)
	h.member("c", "g")
	h.wantPools("complete", abc, waiting.PoolOffered, waiting.PoolGrouped, waiting.PoolGrouped)

	o := h.offerOf("a")
	h.answer(o, events.DecisionUnplaceable, plugins(names.GangScheduling))
	h.wantPools("the lead waits for others", abc, waiting.PoolParked, waiting.PoolGrouped, waiting.PoolGrouped)
	other := o
	other.Pod.UID, other.Pod.Name, other.Token = "b", "b", "00000000000000ff"
	h.answer(other, events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.wantPools("the member at fault leads", abc, waiting.PoolGrouped, waiting.PoolParked, waiting.PoolGrouped)
	h.sleep(time.Minute)
	h.ask("s1", 9)
	h.node("n", func(*corev1.Node) {})
	h.wantPools("it is woken by what could help it", abc, waiting.PoolGrouped, waiting.PoolOffered, waiting.PoolGrouped)
	if o := h.offerOf("b"); o.Attempt != 2 {
		t.Errorf("attempt %d of the gang, want the second", o.Attempt)
	}
	h.hold(Hold{PodUID: "a", Live: true}, Hold{PodUID: "b", Live: true})
	h.wantPools("the rest goes on", abc, waiting.PoolHeld, waiting.PoolHeld, waiting.PoolOffered)
	h.bind("a")
	h.bind("b")
	h.answer(h.offerOf("c"), events.DecisionPlaced, nil)
	h.bind("c")
}

// When the lead is deleted, another member stands for the gang, and a gang that is too small then waits.
func TestLeadIsDeleted(t *testing.T) {
	h := newGroupHarness(t)
	h.lead()
	h.ask("s1", 9)
	h.group("g", 2)
	for _, name := range []string{"a", "b", "c"} {
		h.member(name, "g")
	}
	h.want("a", waiting.PoolOffered)
	h.remove("a")
	h.wantPools("after one deletion", []string{"b", "c"}, waiting.PoolOffered, waiting.PoolGrouped)
	h.remove("b")
	h.want("c", waiting.PoolParked)
	h.member("d", "g")
	h.wantPools("with another member", []string{"c", "d"}, waiting.PoolOffered, waiting.PoolGrouped)
}

// Members of a group that is no gang are offered one by one, and gathered when the group becomes one.
func TestGroupThatIsNoGang(t *testing.T) {
	h := newGroupHarness(t)
	h.lead()
	h.ask("s1", 9)
	h.member("a", "g")
	h.member("b", "g")
	h.group("g", 0)
	h.wantPools("basic", []string{"a", "b"}, waiting.PoolOffered, waiting.PoolOffered)
	for _, name := range []string{"a", "b"} {
		h.answer(h.offerOf(name), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	}
	h.wantPools("rejected", []string{"a", "b"}, waiting.PoolParked, waiting.PoolParked)
	h.group("g", -1)
	h.group("g", 2)
	h.sleep(time.Minute)
	h.ask("s1", 9)
	h.node("n", func(*corev1.Node) {})
	h.wantPools("made again as a gang", []string{"a", "b"}, waiting.PoolOffered, waiting.PoolGrouped)
}

// TestRandomGangs takes gangs through random lives. After every step, each pod is in one pool, and each gang with a
// member that waits to be tried has one lead; in the end every complete gang has been offered.
func TestRandomGangs(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h, rng := newGroupHarness(t), rand.New(rand.NewPCG(seed, 2))
			h.lead()
			for n := range 400 {
				h.randomGangStep(rng, n)
			}
			h.finishGangs()
		})
	}
}

func (h *harness) randomGangStep(rng *rand.Rand, n int) {
	h.t.Helper()
	group := fmt.Sprintf("g%d", rng.IntN(3))
	waits := slices.DeleteFunc(slices.Sorted(maps.Keys(h.pods)), func(name string) bool {
		return h.pods[name].NodeName != ""
	})
	pick := func() string {
		if len(waits) == 0 {
			return ""
		}
		return waits[rng.IntN(len(waits))]
	}
	switch name := pick(); {
	case rng.IntN(4) == 0 || name == "":
		h.member(fmt.Sprintf("p%d", n), group, func(p *corev1.Pod) {
			priority := int32(rng.IntN(2))
			p.Spec.Priority = &priority
			if rng.IntN(6) == 0 {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			}
		})
	case rng.IntN(6) == 0:
		h.group(group, int32(rng.IntN(5)-1))
	case rng.IntN(6) == 0:
		h.remove(name)
	case rng.IntN(6) == 0:
		h.put(name, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	case rng.IntN(6) == 0:
		h.hold(Hold{PodUID: name, Live: rng.IntN(2) == 0, Withdrawn: rng.IntN(2) == 0})
	case rng.IntN(8) == 0:
		h.hold(Hold{PodUID: name})
		h.bind(name)
	case rng.IntN(3) == 0:
		h.answerAny(rng)
	case rng.IntN(3) == 0:
		h.ask("s1", int32(rng.IntN(6)))
	case rng.IntN(3) == 0:
		h.node("n", func(o *corev1.Node) { o.Labels = map[string]string{"n": fmt.Sprint(n)} })
	default:
		h.sleep(time.Duration(rng.IntN(12000)) * time.Millisecond)
	}
}

// answerAny answers one offer, old or new.
func (h *harness) answerAny(rng *rand.Rand) {
	h.t.Helper()
	tokens := slices.Sorted(maps.Keys(h.offers))
	if len(tokens) == 0 {
		return
	}
	o := h.offers[tokens[rng.IntN(len(tokens))]]
	if h.pods[o.Pod.UID] == nil || h.pods[o.Pod.UID].NodeName != "" {
		return
	}
	kinds := []events.DecisionKind{events.DecisionUnplaceable, events.DecisionFailed, events.DecisionUnplaceable}
	h.answer(o, kinds[rng.IntN(len(kinds))], plugins([]string{names.GangScheduling, "NodeResourcesFit"}[rng.IntN(2)]))
}

// finishGangs frees all that detains gangs, and checks that each complete one is offered.
func (h *harness) finishGangs() {
	h.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(h.pods)) {
		if h.pods[name].NodeName == "" {
			h.hold(Hold{PodUID: name, Withdrawn: true})
			h.put(name, func(p *corev1.Pod) { // the change ends a quarantine, too
				p.Spec.SchedulingGates, p.Labels = nil, map[string]string{"finish": "yes"}
			})
		}
	}
	for i := range 3 {
		h.group(fmt.Sprintf("g%d", i), 1)
	}
	waits := map[string]bool{}
	for _, p := range h.pods {
		if p.NodeName == "" {
			waits[p.PodGroup()] = true
		}
	}
	for n := range 40 {
		h.ask("s1", 99)
		h.sleep(lease / 2)
		h.node("n", func(o *corev1.Node) { o.Labels = map[string]string{"finish": fmt.Sprint(n)} })
		for name, p := range h.pods {
			if _, why := h.core.Where(name); p.NodeName == "" && strings.Contains(why, "in quarantine") {
				h.put(name, func(p *corev1.Pod) { p.Labels = map[string]string{"mended": fmt.Sprint(n)} })
			}
		}
		for _, token := range slices.Sorted(maps.Keys(h.offers)) {
			o := h.offers[token]
			if pool, _ := h.core.Where(o.Pod.UID); pool == waiting.PoolOffered {
				delete(waits, h.pods[o.Pod.UID].PodGroup())
				h.answer(o, events.DecisionUnplaceable, plugins("NodeResourcesFit"))
			}
		}
	}
	if len(waits) > 0 {
		h.t.Fatalf("groups %v have members that wait, and none was offered\n%s", waits, h.core.Describe())
	}
}

// Members that come from their gates, and changes while the lead is offered, have the gang tried again: no other event
// would.
func TestGangThatChangesIsTriedAgain(t *testing.T) {
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}} }
	open := func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }
	h := newGroupHarness(t)
	h.lead()
	h.ask("s1", 9)
	h.group("g", 3)
	for _, name := range []string{"a", "b", "c"} {
		h.member(name, "g", gated)
	}
	h.put("a", open)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins(names.GangScheduling))
	h.want("a", waiting.PoolParked)
	h.sleep(lease / 2)
	h.ask("s1", 9)
	h.put("b", open)
	h.wantPools("one more has no gates", []string{"a", "b"}, waiting.PoolOffered, waiting.PoolGrouped)

	h.put("c", open) // while the lead is offered
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, func(d *events.Decision) {
		plugins(names.GangScheduling)(d)
		d.FactSequence--
	})
	h.sleep(lease / 2)
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
}

// A write of the PodGroup that changes no requirement, such as that of its condition, has nothing tried again.
func TestConditionOfAGroupWakesNothing(t *testing.T) {
	h := newGroupHarness(t)
	h.lead()
	h.ask("s1", 9)
	h.group("g", 1)
	h.member("a", "g")
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins(names.GangScheduling))
	h.sleep(lease / 2)
	o := h.objects.(groupFacts).groups["g"]
	h.facts(state.Changes{Others: []state.ObjectChange{{Kind: events.KindPodGroup, Before: o, After: o}}})
	h.want("a", waiting.PoolParked)
}

// A lead in quarantine is tried again when its gang changes.
func TestQuarantinedLead(t *testing.T) {
	h := newGroupHarness(t)
	h.lead()
	h.group("g", 1)
	h.member("a", "g")
	h.member("b", "g")
	for range deliveries {
		h.ask("s1", 9)
		h.sleep(lease)
	}
	h.want("a", waiting.PoolParked)
	h.remove("b")
	h.member("c", "g")
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
}

// A new lead numbers its attempts after those of members that a replica has read from the log.
func TestAttemptsGoOnAfterARestart(t *testing.T) {
	h := newGroupHarness(t)
	h.applyDecision(events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "b", Namespace: "ns", Name: "b"}, Attempt: 7,
		Token: "00000000000000aa", FactSequence: 99, Plugins: []string{names.GangScheduling},
	})
	h.lead()
	h.ask("s1", 9)
	h.group("g", 1)
	h.member("a", "g")
	h.member("b", "g")
	h.answer(h.offerOf("a"), events.DecisionFailed, nil)
	h.sleep(time.Minute)
	h.ask("s1", 9)
	if o := h.offerOf("a"); o.Attempt != 8 {
		t.Errorf("attempt %d, want 8", o.Attempt)
	}
}
