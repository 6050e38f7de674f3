package plan

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// in moves a pod from the test's default namespace to another one. Its owner keeps its UID.
func in(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Namespace = namespace
		p.UID = types.UID(namespace + "-" + p.Name)
	}
}

// TestOwnersOfAnotherNamespaceDoNotCount checks that a pod that names the UID of an owner in another namespace
// changes nothing for the pods of that owner.
func TestOwnersOfAnotherNamespaceDoNotCount(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	set := func(namespace, name, uid string, replicas int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true)}}},
			Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
		}
	}
	history := func(kinds ...events.DecisionKind) *History {
		h := NewHistory()
		for _, k := range kinds {
			h.Observe(events.Decision{
				Kind: k, Attempt: 1, Pod: events.PodRef{UID: "evil-gone", Namespace: "evil"}, Owner: "uid-x",
				NodeName: "a", Landing: "b",
			}, now.Add(-30*time.Second))
		}
		return h
	}
	for _, tt := range []struct {
		name, berth string
		history     *History
		objects     []state.APIObject
		want        string
	}{
		{"more of its pods may not go", "{}", nil, many(40, "b", "x", in("evil")),
			"x-a-0 from a to c\nkept 1: as many pods of its owner as may go at once are going\n"},
		{"it does not rest", "{maxPerOwner: 100%}", history(events.DecisionEvict, events.DecisionEvicted), nil,
			"x-a-0 from a to c\nx-a-1 from a to c\n"},
		{"none of its pods is going", "{maxPerOwner: 100%}", history(events.DecisionEvict),
			[]state.APIObject{pod("gone", "b", "x", in("evil"))}, "x-a-0 from a to c\nx-a-1 from a to c\n"},
		{"its replacements are ready", "{maxPerOwner: 100%, cooldown: 1s}", moved(30 * time.Second),
			[]state.APIObject{pod("new", "b", "x", in("evil"), unready)}, "x-a-0 from a to c\nx-a-1 from a to c\n"},
		{"it lacks pods", "{maxPerOwner: 100%}", nil,
			append([]state.APIObject{set("default", "x", "uid-x", 3)}, many(1, "b", "x", in("evil"))...),
			"kept 2: its owner is rolling out\n"},
		{"a set elsewhere is not its owner", "{maxPerOwner: 100%}", nil,
			[]state.APIObject{set("evil", "x", "uid-x", 3)}, "x-a-0 from a to c\nx-a-1 from a to c\n"},
		{"a set elsewhere is no sibling", "{maxPerOwner: 100%}", nil,
			[]state.APIObject{set("default", "x", "uid-x", 2), set("evil", "y", "uid-y", 1)},
			"x-a-0 from a to c\nx-a-1 from a to c\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(many(2, "a", "x"), node("a", tainted(corev1.TaintEffectNoSchedule)),
				node("b", sized("0")), node("c"))
			in := input(t, policyOf(t, "berth: "+tt.berth+",", "", leaveTaints), append(objects, tt.objects...)...)
			in.History = tt.history
			expect(t, in, tt.want)
		})
	}
}

// TestPodOfAnotherNamespaceHasNotComeBack checks that a pod that names the owner of another namespace's pods,
// created where one of those was moved away from, is not one of their replacements.
func TestPodOfAnotherNamespaceHasNotComeBack(t *testing.T) {
	const ago = 20 * time.Minute
	posing := pod("new", "a", "x", in("evil"), func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.Time{Time: now.Add(-ago)}
	})
	in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
		pod("x-a-0", "a", "x"), posing)
	in.History = moved(ago)
	if p := Make(in); len(p.Returned) > 0 || len(p.Moves) != 2 {
		t.Errorf("%d pods came back, want none:\n%s", len(p.Returned), summary(p))
	}
}

// TestMovesRevealNothingOfAnotherNamespace checks that the youngest pod of an owner is one in its namespace.
func TestMovesRevealNothingOfAnotherNamespace(t *testing.T) {
	in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
		pod("x-a-0", "a", "x"), pod("new", "b", "x", in("evil"), func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.Time{Time: now.Add(time.Hour)}
		}))
	if p := Make(in); len(p.Moves) != 1 || !p.Moves[0].Youngest.Equal(now.Add(-time.Hour)) {
		t.Errorf("the youngest was made at another time than the owner's:\n%s", fmt.Sprint(p.Moves))
	}
}

// TestNamespacesShareACycle checks that a namespace whose pods are always picked first leaves some of a cycle's
// limits to others.
func TestNamespacesShareACycle(t *testing.T) {
	const old = "deschedule/PodLifeTime: {maxPodLifeTimeSeconds: 60}"
	greedy := func(p *corev1.Pod) {
		in("evil")(p)
		p.CreationTimestamp = metav1.Time{Time: now.Add(-48 * time.Hour)}
	}
	for _, tt := range []struct {
		name, top              string
		others                 int
		wantGreedy, wantOthers int
	}{
		{"of the cycle's limit", "berth: {maxPerOwner: 100%, maxPerCycle: 10},", 20, 5, 5},
		{"of the total", "maxNoOfPodsToEvictTotal: 10, berth: {maxPerOwner: 100%},", 20, 5, 5},
		{"of a node's limit", "maxNoOfPodsToEvictPerNode: 10, berth: {maxPerOwner: 100%},", 20, 5, 5},
		{"alone it has all", "berth: {maxPerOwner: 100%, maxPerCycle: 10},", 0, 10, 0},
		{"beside one other it leaves little", "berth: {maxPerOwner: 100%, maxPerCycle: 20},", 1, 19, 1},
		{"a tenth beside one other", "berth: {maxPerOwner: 100%, maxPerCycle: 10},", 1, 9, 1},
		{"a small limit", "berth: {maxPerOwner: 100%, maxPerCycle: 5},", 3, 4, 1},
		{"a small total", "maxNoOfPodsToEvictTotal: 6, berth: {maxPerOwner: 100%},", 3, 5, 1},
		{"two at a time", "maxNoOfPodsToEvictPerNode: 2, berth: {maxPerOwner: 100%},", 9, 1, 1},
		{"one at a time cannot be shared", "maxNoOfPodsToEvictPerNode: 1, berth: {maxPerOwner: 100%},", 20, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(many(40, "a", "x", greedy), node("a"), node("b", sized("100"), func(n *corev1.Node) {
				n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("100")
				n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("100Gi")
			}))
			for i := range tt.others {
				objects = append(objects, pod(fmt.Sprint("y", i), "a", "y", in(fmt.Sprint("other", i))))
			}
			got, others := 0, 0
			for _, m := range Make(input(t, policyOf(t, tt.top, "", old), objects...)).Moves {
				if m.Pod.Namespace == "evil" {
					got++
				} else {
					others++
				}
			}
			if got != tt.wantGreedy || others != tt.wantOthers {
				t.Errorf("%d pods of one namespace go and %d of others, want %d and %d", got, others, tt.wantGreedy, tt.wantOthers)
			}
		})
	}
}
