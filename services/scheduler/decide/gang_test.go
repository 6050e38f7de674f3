package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// memberOf makes a pod a member of a group.
func memberOf(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

// addGroup adds a PodGroup; minCount 0 is the policy "basic".
func (w *world) addGroup(name string, minCount int32, topology ...string) {
	w.rv++
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, UID: types.UID("group-" + name), ResourceVersion: fmt.Sprint(w.rv),
	}}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	if minCount > 0 {
		g.Spec.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount},
		}
	}
	for _, key := range topology {
		g.Spec.SchedulingConstraints = ptr.To(ptr.Deref(g.Spec.SchedulingConstraints,
			schedulingv1alpha2.PodGroupSchedulingConstraints{}))
		g.Spec.SchedulingConstraints.Topology = append(g.Spec.SchedulingConstraints.Topology,
			schedulingv1alpha2.TopologyConstraint{Key: key})
	}
	raw, err := g.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{
		Kind: events.KindPodGroup, Op: events.OpUpsert, UID: string(g.UID), Namespace: "d", Name: name, Object: raw,
	})
}

// gangOffer is the offer of a pod that stands for its group.
func (w *world) gangOffer(uid, group string) (*shard, work.Offer) {
	w.tokens++
	w.offered[uid]++
	p := ledger.PartitionOf(strings.Join([]string{"gang", "d", group}, "\n"))
	return w.ownerOf(p), work.Offer{
		Pod: events.PodRef{UID: uid, Namespace: "d", Name: w.pods[uid].Name}, Partition: p,
		Token: ledger.Token(w.tokens).String(), Attempt: w.offered[uid], FactSequence: uint64(len(w.facts)),
	}
}

// gang adds a group with members, shows all to the shard, and offers the first member.
func (st *scenario) gang(group string, members int, minCount int32, topology ...string) {
	st.addGroup(group, minCount, topology...)
	for i := range members {
		st.addPod(fmt.Sprintf("%s-%d", group, i), memberOf(group))
	}
	st.deliverAll()
	st.offerGang("pod-"+group+"-0", group)
}

func (st *scenario) offerGang(uid, group string) {
	_, o := st.gangOffer(uid, group)
	st.step(st.s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: []work.Offer{o}}}})
}

// answerAll commits what is in flight until nothing is.
func (st *scenario) answerAll() {
	for st.s.commit != nil {
		st.answer()
		st.deliverLedger()
	}
}

// verdicts returns the messages of the verdicts on pods, by name.
func (st *scenario) verdicts() map[string]string {
	all := map[string]string{}
	for _, d := range st.s.decisions {
		all[d.Pod.Name] = string(d.Kind)
		if d.Message != "" {
			all[d.Pod.Name] += ": " + d.Message
		}
	}
	return all
}

func TestGangIsOneTransaction(t *testing.T) {
	st := newScenario(t, 1, 3, 2)
	st.gang("g", 6, 6)
	if st.s.commit == nil || st.s.commit.Pods != 6 {
		t.Fatalf("in flight %+v, want six pods", st.s.commit)
	}
	st.answer()
	if got := st.reservations(); len(got) != 6 {
		t.Errorf("reserved %v, want six", got)
	}
	for name, verdict := range st.verdicts() {
		if verdict != "placed" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
	if len(st.s.decisions) != 6 {
		t.Errorf("%d decisions, want one for each member", len(st.s.decisions))
	}
}

// A gang of which too few fit holds no room, and each member learns why.
func TestGangWithoutRoom(t *testing.T) {
	st := newScenario(t, 1, 2, 2)
	st.gang("g", 5, 5)
	if st.s.commit != nil {
		t.Fatalf("in flight: %+v", st.s.commit)
	}
	verdicts := st.verdicts()
	const waits = "unplaceable: pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"
	for i := range 4 {
		want := waits
		if i == 0 {
			want += ": 4 of 5 members can be placed"
		}
		if got := verdicts[fmt.Sprintf("g-%d", i)]; got != want {
			t.Errorf("g-%d: %q, want %q", i, got, want)
		}
	}
	if got := verdicts["g-4"]; !strings.HasPrefix(got, "unplaceable: 0/2 nodes are available: 2 Insufficient cpu.") {
		t.Errorf("g-4: %q", got)
	}
	st.s.decisions = nil
	st.pod("alone") // the room is not taken
	st.answerAll()
	if got := st.verdicts(); len(got) != 1 {
		t.Errorf("verdicts %v, want one pod placed", got)
	}
}

// With minCount members placed, the others are left to the next attempt, which joins them.
func TestGangAboveItsMinimum(t *testing.T) {
	st := newScenario(t, 1, 2, 2)
	st.gang("g", 5, 3)
	st.answerAll()
	if got := st.reservations(); len(got) != 4 {
		t.Fatalf("reserved %v, want four", got)
	}
	st.s.decisions = nil
	st.addNode("n9", 1)
	st.deliverAll()
	st.offerGang("pod-g-4", "g")
	st.answerAll()
	if got := st.reservations()["pod-g-4"]; got != "n9" {
		t.Errorf("the last member is on %q, want n9: %v", got, st.verdicts())
	}
}

func TestGangWaitsForItsObjectAndItsMembers(t *testing.T) {
	st := newScenario(t, 1, 3, 9)
	st.addPod("g-0", memberOf("g"))
	st.deliverAll()
	st.offerGang("pod-g-0", "g")
	if got := st.verdicts()["g-0"]; got != `unplaceable: waiting for pods's pod group "g" to appear in scheduling queue` {
		t.Errorf("without an object: %q", got)
	}
	st.addGroup("g", 2)
	st.deliverAll()
	st.offerGang("pod-g-0", "g")
	const tooFew = "unplaceable: waiting for minCount pods from a gang to appear in scheduling queue"
	if got := st.verdicts()["g-0"]; got != tooFew {
		t.Errorf("without members: %q", got)
	}
	st.addPod("g-1", memberOf("g"))
	st.deliverAll()
	st.offerGang("pod-g-0", "g")
	st.answerAll()
	if got := st.reservations(); len(got) != 2 {
		t.Errorf("complete: %v", got)
	}
}

// Pods of a group without conditions are placed one by one.
func TestBasicGroup(t *testing.T) {
	st := newScenario(t, 1, 1, 2)
	st.gang("g", 3, 0)
	st.answerAll()
	if got := st.reservations(); len(got) != 1 || got["pod-g-0"] == "" {
		t.Errorf("reserved %v, want the pod that was offered", got)
	}
}

// A gang goes into the domain that has the least room that is enough, and into no other.
func TestGangInOneDomain(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	for zone, room := range map[string]int64{"a": 2, "b": 3, "c": 5} {
		st.addNodeIn("n"+zone+"0", zone, room)
		st.addNodeIn("n"+zone+"1", zone, 1)
	}
	st.addNode("elsewhere", 50)
	st.deliverAll()
	st.gang("g", 4, 4, corev1.LabelTopologyZone)
	st.answerAll()
	for uid, node := range st.reservations() {
		if !strings.HasPrefix(node, "nb") {
			t.Errorf("%s is on %s, want zone b: %v", uid, node, st.reservations())
		}
	}
	if len(st.reservations()) != 4 {
		t.Errorf("reserved %v: %v", st.reservations(), st.verdicts())
	}
	st.s.decisions = nil
	st.gang("large", 9, 9, corev1.LabelTopologyZone)
	const want = "unplaceable: 0/3 placements are available: 6 of 9 members fit in the best one, c"
	if got := st.verdicts()["large-0"]; got != want {
		t.Errorf("a gang that fits in no zone: %q, want %q", got, want)
	}
}

// A gang goes where all of it fits, although a smaller domain has room for the minimum; if none has room for all, where
// most of it fits.
func TestGangGoesWhereMostOfItFits(t *testing.T) {
	for name, test := range map[string]struct {
		room map[string]int64
		want string
	}{
		"all":  {map[string]int64{"a": 2, "b": 4, "c": 5}, "nb"},
		"most": {map[string]int64{"a": 1, "b": 2, "c": 3}, "nc"},
	} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 0, 0)
			for zone, room := range test.room {
				st.addNodeIn("n"+zone, zone, room)
			}
			st.deliverAll()
			st.gang("g", 4, 2, corev1.LabelTopologyZone)
			st.answerAll()
			got := st.reservations()
			for uid, node := range got {
				if node != test.want {
					t.Errorf("%s is on %s, want %s", uid, node, test.want)
				}
			}
			if want := int(min(test.room[strings.TrimPrefix(test.want, "n")], 4)); len(got) != want {
				t.Errorf("reserved %v, want %d", got, want)
			}
		})
	}
}

// The resources of nodes that the pods cannot use make a domain look larger than it is.
func TestGangGoesWhereMostOfItIsPlaced(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	for name, room := range map[string]int64{"na-open": 4, "na-closed": 2, "nb-open": 2, "nb-closed": 3} {
		st.addNodeIn(name, name[1:2], room)
		if n := st.nodeObjects[name]; strings.HasSuffix(name, "closed") {
			st.rv++
			n.Spec.Unschedulable, n.ResourceVersion = true, fmt.Sprint(st.rv)
			st.publishNode(n)
		}
	}
	st.deliverAll()
	st.gang("g", 6, 2, corev1.LabelTopologyZone)
	st.answerAll()
	got := st.reservations()
	for uid, node := range got {
		if node != "na-open" {
			t.Errorf("%s is on %s, want na-open", uid, node)
		}
	}
	if len(got) != 4 {
		t.Errorf("reserved %v, want four", got)
	}
}

// While a member's reservation is on a node that has just been deleted, its domain is not known yet: the reservation
// will be taken back, or bound to another node of the name.
func TestGangWaitsForAReservationWithoutANode(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNodeIn("na", "a", 1)
	st.addNodeIn("nb", "b", 2)
	st.deliverAll()
	st.gang("g", 1, 1, corev1.LabelTopologyZone)
	st.answerAll()
	st.rv++
	st.fact(events.Fact{Kind: events.KindNode, Op: events.OpDelete, UID: "node-na", Name: "na"})
	st.addPod("g-1", memberOf("g"))
	st.deliverAll()
	st.s.decisions = nil
	st.offerGang("pod-g-1", "g")
	if st.s.commit != nil || len(st.s.decisions) > 0 {
		t.Errorf("decided beside a reservation without a node: %+v, %v", st.s.commit, st.verdicts())
	}
}

// A gang that needs a domain is retried when nodes or room come: its verdict names the rules that listen to these.
func TestGangWithoutDomainWaitsForRoom(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNodeIn("na", "a", 2)
	st.deliverAll()
	st.gang("g", 3, 3, corev1.LabelTopologyZone)
	d := st.s.decisions[0]
	if want := []string{"GangScheduling", "NodeAffinity", "NodeResourcesFit"}; !slices.Equal(d.Plugins, want) {
		t.Errorf("waits for %v, want %v", d.Plugins, want)
	}
}

// A gang with more pods for one node than its document holds is decided again when something changes, and fails in the
// end. It does not keep the shard busy.
func TestGangThatCrowdsADocument(t *testing.T) {
	st := newScenario(t, 1, 1, 2000)
	st.rv++
	st.nodeObjects["n0"].ResourceVersion = fmt.Sprint(st.rv)
	st.nodeObjects["n0"].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2000")
	st.publishNode(st.nodeObjects["n0"])
	st.gang("g", 400, 400)
	for i := range attempt.MaxLosses - 1 {
		if st.s.more || len(st.s.decisions) > 0 {
			t.Fatalf("after %d changes: %v, and another step is wanted: %t", i, st.verdicts(), st.s.more)
		}
		st.touch("n0", raised)
		st.deliverLedger()
	}
	if got := st.verdicts()["g-0"]; !strings.HasPrefix(got, "failed: ") {
		t.Errorf("verdict %q", got)
	}
}

// A gang whose lead has no node itself is placed by the others, and the lead learns why.
func TestLeadWithoutANode(t *testing.T) {
	st := newScenario(t, 1, 1, 3)
	huge := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	}
	st.addGroup("g", 3)
	st.addPod("g-0", memberOf("g"), huge)
	for i := range 3 {
		st.addPod(fmt.Sprintf("g-%d", i+1), memberOf("g"))
	}
	st.deliverAll()
	st.offerGang("pod-g-0", "g")
	st.answerAll()
	if got := st.reservations(); len(got) != 3 {
		t.Errorf("reserved %v, want three", got)
	}
	if got := st.verdicts()["g-0"]; got != "unplaceable: 0/1 nodes are available: 1 Insufficient example.com/gpu." {
		t.Errorf("the lead: %q", got)
	}
	if len(st.s.gangs) != 1 || st.s.gangs[0].Outcome != step.Scheduled {
		t.Errorf("reported %+v, want one gang that is scheduled", st.s.gangs)
	}
}

// Pods of an earlier gang of the same name that are being deleted do not count for the minimum.
func TestGangThatIsStartedAgain(t *testing.T) {
	st := newScenario(t, 1, 1, 4)
	for i := range 3 {
		uid := fmt.Sprintf("pod-old-%d", i)
		st.addPod(fmt.Sprintf("old-%d", i), memberOf("g"), func(p *corev1.Pod) {
			p.Spec.NodeName = "n0"
			p.DeletionTimestamp = &metav1.Time{}
		})
		st.boundAt(uid, uint64(len(st.facts)))
	}
	st.gang("g", 3, 3)
	if st.s.commit != nil {
		t.Errorf("in flight beside pods that leave: %+v", st.s.commit)
	}
}

// A gang that loses a race loses all of it, and is decided again as a whole.
func TestGangLosesARace(t *testing.T) {
	st := newScenario(t, 2, 3, 2)
	for st.ownerOf(ledger.PartitionOf("gang\nd\ng")) != st.s {
		st.s = st.shards[1]
		st.deliverAll()
	}
	st.gang("g", 6, 6)
	st.touch("n1", raised)
	st.answer()
	if got := st.reservations(); len(got) != 0 {
		t.Fatalf("reserved %v after a lost race", got)
	}
	st.deliverLedger()
	st.answerAll()
	if got := st.reservations(); len(got) != 6 {
		t.Errorf("reserved %v, want all six", got)
	}
}

// A gang on more nodes than one transaction of the ledger holds fails with a message, and nothing else suffers.
func TestGangThatIsTooLarge(t *testing.T) {
	st := newScenario(t, 1, 150, 1)
	st.gang("g", 150, 150)
	for name, got := range st.verdicts() {
		if !strings.HasPrefix(got, "failed: the gang needs ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if n := len(st.s.decisions); n != 150 {
		t.Errorf("%d decisions, want one for each pod", n)
	}
	st.pod("alone")
	st.answerAll()
	if got := st.reservations(); len(got) != 1 {
		t.Errorf("reserved %v", got)
	}
}

// A reservation that is being taken back does not count for the minimum.
func TestGangBesideAFence(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	st.gang("g", 3, 1)
	st.answerAll()
	if got := st.reservations(); len(got) != 1 {
		t.Fatalf("reserved %v, want one", got)
	}
	st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
		d.Entries = slices.Clone(d.Entries)
		d.Entries[0].State = ledger.Fencing
		return d
	})
	st.addGroup("g", 3)
	st.addNode("n1", 2)
	st.deliverAll()
	st.s.decisions = nil
	st.offerGang("pod-g-1", "g")
	if st.s.commit != nil {
		t.Fatalf("two of three are reserved beside a fence: %+v", st.s.commit)
	}
}

// bindMember shows a member as bound to its node, and its reservation as handed over. The shard has not read either.
func (st *scenario) bindMember(uid, node string) {
	st.bind(uid, node)
	st.touch(node, func(d ledger.NodeDoc) ledger.NodeDoc {
		d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), func(e ledger.Entry) bool { return e.PodUID == uid })
		return d.Cover(ledger.KindPod, st.rv)
	})
}

// A member whose reservation is being taken back may be bound: the domain of the gang is not known until that ends.
func TestGangInADomainWaitsForAFence(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNodeIn("na", "a", 1)
	st.addNodeIn("nb", "b", 2)
	st.deliverAll()
	st.gang("g", 1, 1, corev1.LabelTopologyZone)
	st.answerAll()
	st.touch("na", func(d ledger.NodeDoc) ledger.NodeDoc {
		d.Entries = slices.Clone(d.Entries)
		d.Entries[0].State = ledger.Fencing
		return d
	})
	st.addPod("g-1", memberOf("g"))
	st.deliverAll()
	st.s.decisions = nil
	st.offerGang("pod-g-1", "g")
	if st.s.commit != nil || len(st.s.decisions) > 0 {
		t.Fatalf("decided beside a fence: %+v, %v", st.s.commit, st.verdicts())
	}
	st.bindMember("pod-g-0", "na")
	st.deliverAll()
	const want = "unplaceable: 0/1 placements are available: 0 of 1 members fit in the best one, a"
	if got := st.verdicts()["g-1"]; got != want || st.s.commit != nil {
		t.Errorf("verdict %q and in flight %+v, want %q", got, st.s.commit, want)
	}
}

// A member that was handed over does not wait for a node, although the facts may not show its node yet.
func TestGangWaitsForFactsAboutItsMembers(t *testing.T) {
	st := newScenario(t, 1, 2, 3)
	st.gang("g", 1, 1)
	st.answerAll()
	node := st.reservations()["pod-g-0"]
	st.addPod("g-1", memberOf("g"))
	st.deliverAll()
	_, o := st.gangOffer("pod-g-1", "g")
	st.bindMember("pod-g-0", node)
	st.deliverLedger()
	st.step(st.s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: []work.Offer{o}}}})
	if st.s.commit != nil {
		t.Fatalf("decided before the facts show the bind: %+v", st.s.commit)
	}
	st.deliverFacts()
	if st.s.commit == nil || st.s.commit.Pods != 1 {
		t.Errorf("in flight %+v, want the pod that waits", st.s.commit)
	}
}

// The domain of a member on a node that does not exist, or has no label, is not known. Upstream has the same errors.
func TestGangWithAMemberInNoDomain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(st *scenario)
		want   string
	}{
		"deleted": {
			func(st *scenario) {
				st.fact(events.Fact{Kind: events.KindNode, Op: events.OpDelete, UID: "node-na", Name: "na"})
			},
			"failed: cannot determine domain for already scheduled pods: node na does not exist",
		},
		"without a label": {
			func(st *scenario) {
				n := st.nodeObjects["na"]
				delete(n.Labels, corev1.LabelTopologyZone)
				n.ResourceVersion = fmt.Sprint(st.rv)
				st.publishNode(n)
			},
			"failed: cannot determine domain for already scheduled pods: node na has no label topology.kubernetes.io/zone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newScenario(t, 1, 0, 0)
			st.addNodeIn("na", "a", 1)
			st.addNodeIn("nb", "b", 2)
			st.deliverAll()
			st.gang("g", 1, 1, corev1.LabelTopologyZone)
			st.answerAll()
			st.bindMember("pod-g-0", "na")
			st.rv++
			test.change(st)
			st.addPod("g-1", memberOf("g"))
			st.deliverAll()
			st.offerGang("pod-g-1", "g")
			if got := st.verdicts()["g-1"]; got != test.want || st.s.commit != nil {
				t.Errorf("verdict %q and in flight %+v, want %q", got, st.s.commit, test.want)
			}
		})
	}
}

// At every revision of the ledger, of each gang none or at least minCount members have a place, with single pods and
// other shards in the way, lost answers and lagging views.
func TestGangsAreAllOrNothing(t *testing.T) {
	whole, rejected, lost := 0, 0, 0
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 3)
			for i := range 6 {
				w.addNode(fmt.Sprintf("n%d", i), 3)
			}
			gangs := map[string]int32{}
			for i := range 5 {
				name := fmt.Sprintf("g%d", i)
				size := 2 + w.rng.IntN(4)
				gangs[name] = int32(1 + w.rng.IntN(size))
				w.addGroup(name, gangs[name])
				for m := range size {
					w.addPod(fmt.Sprintf("%s-%d", name, m), memberOf(name))
				}
			}
			for i := range 6 {
				w.addPod(fmt.Sprintf("single-%d", i))
			}
			for range 1500 {
				switch w.rng.IntN(12) {
				case 0:
					w.offerWithGangs()
				case 1:
					w.bindOne()
				default:
					w.deliver()
				}
				w.checkGangs(gangs)
			}
			for _, s := range w.shards {
				lost += len(s.lost)
				for _, d := range s.decisions {
					if member := strings.HasPrefix(d.Pod.Name, "g"); member && d.Kind == events.DecisionPlaced {
						whole++
					} else if member && d.Kind == events.DecisionUnplaceable {
						rejected++
					}
				}
			}
		})
	}
	t.Logf("%d members were placed, %d rejected, %d choices lost", whole, rejected, lost)
	if whole < 200 || rejected < 100 || lost < 20 {
		t.Error("the cases are too easy: want 200 members placed, 100 rejected and 20 choices lost")
	}
}

// offerWithGangs offers one waiting pod or gang.
func (w *world) offerWithGangs() {
	reserved := w.reservations()
	uids := sortedPods(w.pods)
	uid := uids[w.rng.IntN(len(uids))]
	p := w.pods[uid]
	if p.Spec.NodeName != "" || reserved[uid] != "" {
		return
	}
	if p.Spec.SchedulingGroup != nil {
		s, o := w.gangOffer(uid, *p.Spec.SchedulingGroup.PodGroupName)
		s.offers = append(s.offers, o)
		return
	}
	w.tokens++
	w.offered[uid]++
	part := ledger.PartitionOf(uid)
	s := w.ownerOf(part)
	s.offers = append(s.offers, work.Offer{
		Pod: events.PodRef{UID: uid, Namespace: "d", Name: p.Name}, Partition: part,
		Token: ledger.Token(w.tokens).String(), Attempt: w.offered[uid], FactSequence: uint64(len(w.facts)),
	})
}

// checkGangs checks that each gang has no member with a place, or enough.
func (w *world) checkGangs(gangs map[string]int32) {
	w.t.Helper()
	reserved, placed := w.reservations(), map[string]int32{}
	for uid, p := range w.pods {
		if p.Spec.SchedulingGroup != nil && (p.Spec.NodeName != "" || reserved[uid] != "") {
			placed[*p.Spec.SchedulingGroup.PodGroupName]++
		}
	}
	for name, n := range placed {
		if n < gangs[name] {
			w.t.Fatalf("gang %s has %d members with a place, want none or at least %d", name, n, gangs[name])
		}
	}
}
