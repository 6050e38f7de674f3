package audit

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/audit/strip"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// gang creates a PodGroup whose members must be in one domain of each key; minCount 0 is the policy "basic".
func (s *scenario) gang(uid string, minCount int32, keys ...string) *scenario {
	g := &recording.PodGroup{}
	g.Namespace, g.Name, g.UID = "d", "ring", types.UID(uid)
	g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	if minCount > 0 {
		g.Spec.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount},
		}
	}
	if len(keys) > 0 {
		g.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{}
	}
	for _, key := range keys {
		g.Spec.SchedulingConstraints.Topology = append(g.Spec.SchedulingConstraints.Topology,
			schedulingv1alpha2.TopologyConstraint{Key: key})
	}
	s.happens(recording.Object{Kind: recording.KindPodGroup, UID: uid, PodGroup: g})
	return s
}

// inRing makes a pod a member of the group.
func inRing(p *corev1.Pod) {
	name := "ring"
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// ring begins with two racks of one node each, and with pods a, b and c of the group.
func ring(t *testing.T) *scenario {
	s := begin(t).node("n", "4", map[string]string{"rack": "1"}).node("m", "4", map[string]string{"rack": "2"})
	return s.pod("a", "1", inRing).pod("b", "1", inRing).pod("c", "1", inRing)
}

// placeAt reserves places in one transaction, each as "node pod".
func (s *scenario) placeAt(places ...string) {
	s.Helper()
	docs := map[string]ledger.NodeDoc{}
	for _, place := range places {
		node, pod, _ := strings.Cut(place, " ")
		d, changed := docs[node]
		if !changed {
			d = s.docs[node]
			d.Entries = slices.Clone(d.Entries)
		}
		d.Entries = append(d.Entries, s.entry(pod))
		docs[node] = d
	}
	var all []ledger.NodeDoc
	for _, node := range slices.Sorted(maps.Keys(docs)) {
		all = append(all, docs[node])
	}
	s.write(all...)
}

func TestMembersOfAGangStartTogether(t *testing.T) {
	s := ring(t).gang("g", 2)
	s.placeAt("n a", "m b")
	s.mark()
	s.placeAt("n c") // a gang that has enough may grow
	s.mark()
	if r := s.finds(); r.Gangs != 2 {
		t.Errorf("%d revisions with members were checked, want 2", r.Gangs)
	}
}

func TestHalfAGangIsFound(t *testing.T) {
	s := ring(t).gang("g", 3)
	s.placeAt("n a", "m b")
	s.mark()
	s.placeAt("n c")
	s.mark()
	s.finds("violation S8 pod/d/a pod/d/b")
}

func TestBasicGroupsStartOneByOne(t *testing.T) {
	s := ring(t).gang("g", 0)
	s.placeAt("n a")
	s.mark()
	s.finds()
}

// A group whose object is unknown is not judged, and neither is one that begins to exist after the decision.
func TestGroupsWithoutAnObjectAreNotJudged(t *testing.T) {
	s := ring(t)
	s.placeAt("n a")
	s.mark()
	s.gang("g", 3)
	if r := s.finds(); r.Gangs != 0 {
		t.Errorf("%d revisions with members were checked, want none", r.Gangs)
	}
}

// An object that was replaced less than a minute before may still have been the one that the shard read.
func TestTheLowestMinCountOfTwoObjectsCounts(t *testing.T) {
	for name, test := range map[string]struct {
		seconds int64
		want    []string
	}{
		"at once": {1, nil}, "after two minutes": {120, []string{"violation S8 pod/d/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := ring(t).gang("g", 1)
			s.happens(recording.Object{Kind: recording.KindPodGroup, UID: "g", Gone: true})
			s.gang("h", 3)
			s.mark()
			s.later(test.seconds)
			s.placeAt("n a")
			s.mark()
			s.finds(test.want...)
		})
	}
}

// A replacement joins the members that are left. If they have ended long before, it must not start alone.
func TestReplacementsJoinAGang(t *testing.T) {
	s := ring(t).gang("g", 2)
	s.placeAt("n a", "m b")
	s.bind("a", "n")
	s.bind("b", "m")
	s.mark()
	s.drop("n", "a", s.podRV["a"])
	s.drop("m", "b", s.podRV["b"])
	s.remove("a")
	s.mark()
	s.later(120)
	s.placeAt("n c")
	s.bind("c", "n")
	s.mark()
	s.remove("b")
	s.remove("c")
	s.mark()
	s.later(120)
	s.pod("e", "1", inRing)
	s.placeAt("n e")
	s.mark()
	s.finds("violation S8 pod/d/e")
}

// Members that another scheduler has bound count.
func TestMembersWithoutAReservationCount(t *testing.T) {
	s := ring(t).gang("g", 2)
	s.foreign("b", "m")
	s.mark()
	s.placeAt("n a")
	s.mark()
	s.finds()
}

func TestMembersInTwoRacksAreFound(t *testing.T) {
	s := ring(t).gang("g", 2, "rack")
	s.placeAt("n a", "m b")
	s.mark()
	s.finds("violation S8 pod/d/b pod/d/a node/m node/n")
}

func TestALaterMemberInAnotherRackIsFound(t *testing.T) {
	s := ring(t).gang("g", 2, "rack")
	s.placeAt("n a", "n b")
	s.mark()
	s.placeAt("m c")
	s.mark()
	s.finds("violation S8 pod/d/c pod/d/a node/m node/n")
}

// A node whose label changed may have been in either rack when the gang was decided.
func TestARackThatChangedIsNotJudged(t *testing.T) {
	s := ring(t).gang("g", 2, "rack")
	s.change("m", func(n *corev1.Node) { n.Labels = map[string]string{"rack": "1"} })
	s.placeAt("n a", "m b")
	s.change("m", func(n *corev1.Node) { n.Labels = map[string]string{"rack": "2"} })
	s.mark()
	s.finds()
}

// A rack of which all members have left may be followed by another one.
func TestAGangThatBeginsAgainMayMove(t *testing.T) {
	s := ring(t).gang("g", 2, "rack")
	s.placeAt("n a", "n b")
	s.state("n", "a", ledger.Fencing)
	s.state("n", "b", ledger.Fencing)
	s.drop("n", "a", s.fence("a"))
	s.drop("n", "b", s.fence("b"))
	s.mark()
	s.placeAt("m a", "m b")
	s.mark()
	s.finds()
}

// The shard sees a member where another client has bound it, not where it was reserved.
func TestAMemberThatAnotherClientHasBoundIsNotJudged(t *testing.T) {
	s := ring(t).gang("g", 1, "rack")
	s.placeAt("n a")
	s.foreign("a", "m")
	s.mark()
	s.placeAt("m b")
	s.mark()
	s.finds()
}

// A node that is deleted may have registered again, in another rack.
func TestAMemberOnADeletedNodeIsNotJudged(t *testing.T) {
	s := ring(t).gang("g", 1, "rack")
	s.placeAt("n a")
	s.bind("a", "n")
	s.mark()
	s.happens(recording.Object{Kind: recording.KindNode, UID: "n-uid", Gone: true})
	s.mark()
	s.placeAt("m b")
	s.mark()
	s.finds()
}

// A pod that came and went while the watch was broken may have been a member.
func TestPodsThatTheHistoryLacksMayBeMembers(t *testing.T) {
	s := ring(t).gang("g", 2)
	lost := s.entry("a")
	lost.PodUID, lost.Name = "lost-uid", "lost"
	d := s.docs["n"]
	d.Entries = append(d.Entries, lost)
	e := s.docs["m"]
	e.Entries = append(e.Entries, s.entry("b"))
	s.write(d, e)
	s.mark()
	s.finds()
}

func TestPodGroupsAreStripped(t *testing.T) {
	g := &recording.PodGroup{}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: 3}
	g.Spec.PriorityClassName, g.ResourceVersion = "high", "7"
	out := strip.PodGroup(g)
	if out.Spec.SchedulingPolicy.Gang.MinCount != 3 || out.Spec.PriorityClassName != "" || out.ResourceVersion != "" {
		t.Errorf("kept %+v", out)
	}
	p := &corev1.Pod{}
	inRing(p)
	if name, member := groupOf(strip.Pod(p)); !member || name != "/ring" {
		t.Errorf("the pod is in group %q: %t", name, member)
	}
}
