package plan

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	leaveTaints = "deschedule/RemovePodsViolatingNodeTaints: {includePreferNoSchedule: true}"
	spreadOut   = "balance/RemovePodsViolatingTopologySpreadConstraint: {}"
	level       = "balance/LowNodeUtilization: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}"
	empty       = "balance/HighNodeUtilization: {thresholds: {cpu: 20}}"
)

// ownerX is the ReplicaSet x that owns pods made by pod.
var ownerX = ownerID{"default", "uid-x"}

// podRef names a pod in the namespace that pod uses.
func podRef(uid string) events.PodRef { return events.PodRef{UID: uid, Namespace: "default"} }

// many returns pods of one owner on a node.
func many(n int, on, app string, change ...func(*corev1.Pod)) []state.APIObject {
	var all []state.APIObject
	for i := range n {
		all = append(all, pod(fmt.Sprintf("%s-%s-%d", app, on, i), on, app, change...))
	}
	return all
}

func spread(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		}}
	}
}

// TestLanding checks where replacements are placed, and which pods have to stay.
func TestLanding(t *testing.T) {
	objects := func(groups ...[]state.APIObject) (all []state.APIObject) {
		for _, g := range groups {
			all = append(all, g...)
		}
		return all
	}
	nodes := func(list ...*corev1.Node) (all []state.APIObject) {
		for _, n := range list {
			all = append(all, n)
		}
		return all
	}
	inZone := func(name, zone string) *corev1.Node { return node(name, labelled(corev1.LabelTopologyZone, zone)) }
	for _, tt := range []struct {
		name, evictor, strategy string
		pinned                  bool
		objects                 []state.APIObject
		want                    string
	}{
		{
			name: "a place is given away once", strategy: leaveTaints,
			objects: objects(nodes(node("a", tainted(corev1.TaintEffectNoSchedule)), node("b", sized("2"))), many(3, "a", "x")),
			want:    "x-a-0 from a to b\nx-a-1 from a to b\nkept 1: fits no other node\n",
		},
		{
			name: "upstream's way looks for none", strategy: leaveTaints, evictor: "nodeFit: false",
			objects: objects(nodes(node("a", tainted(corev1.TaintEffectNoSchedule)), node("b", sized("0"))), many(1, "a", "x")),
			want:    "x-a-0 from a to anywhere\n",
		},
		{
			name: "what a victim leaves is nobody's yet", strategy: leaveTaints,
			objects: objects(nodes(node("a", tainted(corev1.TaintEffectNoSchedule)), node("b", sized("1"))),
				many(1, "a", "x"), many(1, "b", "y", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })),
			want: "kept 1: fits no other node\n",
		},
		{
			name: "a node that is as bad is no better place", strategy: leaveTaints,
			objects: objects(nodes(node("a", tainted(corev1.TaintEffectPreferNoSchedule)),
				node("b", tainted(corev1.TaintEffectPreferNoSchedule))), many(1, "a", "x")),
			want: "kept 1: no node that takes it is a better one\n",
		},
		{
			name: "a domain becomes even, and no more", strategy: spreadOut,
			objects: objects(nodes(inZone("a", "1"), inZone("b", "2")),
				many(4, "a", "x", spread(corev1.LabelTopologyZone))),
			want: "x-a-2 from a to b\nx-a-3 from a to b\n",
		},
		{
			name: "nodes are levelled", strategy: level,
			objects: objects(nodes(node("a"), node("b")), many(7, "a", "x")),
			want:    "x-a-0 from a to b\nx-a-1 from a to b\n",
		},
		{
			name: "the emptier node is where the scheduler would put it again", strategy: empty,
			objects: objects(nodes(node("a"), node("b")), many(1, "a", "x"), many(3, "b", "y")),
			want:    "kept 1: the scheduler would put it where it is no better off\n",
		},
		{
			name: "unless the place is kept", strategy: empty, pinned: true,
			objects: objects(nodes(node("a"), node("b")), many(1, "a", "x"), many(3, "b", "y")),
			want:    "x-a-0 from a to b\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, policyOf(t, "berth: "+noOwnerLimits+",", tt.evictor, tt.strategy), tt.objects...)
			in.Pinned = tt.pinned
			expect(t, in, tt.want)
		})
	}
}

// TestBudgets checks that a plan takes no more than is left, whatever else is claimed.
func TestBudgets(t *testing.T) {
	budget := func(name string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-" + "pdb-" + "1"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	second := budget("second", 5)
	second.UID = "uid-pdb-2"
	const none = "its disruption budget allows no disruption"
	for _, tt := range []struct {
		name    string
		budgets []state.APIObject
		claimed int32
		want    string
	}{
		{"two of three", []state.APIObject{budget("x", 2)}, 0,
			"x-a-0 from a to b\nx-a-1 from a to b\nkept 1: " + none + "\n"},
		{"one is promised", []state.APIObject{budget("x", 2)}, 1, "x-a-0 from a to b\nkept 2: " + none + "\n"},
		{"two budgets", []state.APIObject{budget("x", 2), second}, 0, "kept 3: more than one disruption budget covers it\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(tt.budgets, node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"))
			in := input(t, policyOf(t, "berth: "+noOwnerLimits+",", "", leaveTaints), append(objects, many(3, "a", "x")...)...)
			in.Claimed = func(string) int32 { return tt.claimed }
			expect(t, in, tt.want)
		})
	}
}

// TestOwners checks the limits on the evictions of an owner's pods.
func TestOwners(t *testing.T) {
	set := func(name string, replicas int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: "uid-x",
				OwnerReferences: []metav1.OwnerReference{
					{Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true)},
				},
			},
			Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
		}
	}
	other := func(replicas int32) *appsv1.ReplicaSet {
		o := set("older", replicas)
		o.UID = "uid-older"
		return o
	}
	stateful := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "uid-x"},
		Status:     appsv1.StatefulSetStatus{CurrentRevision: "1", UpdateRevision: "2"},
	}
	const allGo = "x-a-0 from a to b\nx-a-1 from a to b\nx-a-2 from a to b\nx-a-3 from a to b\nx-a-4 from a to b\n"
	for _, tt := range []struct {
		name, berth string
		objects     []state.APIObject
		want        string
	}{
		{"a quarter at once", "{}", nil,
			"x-a-0 from a to b\nx-a-1 from a to b\nkept 3: as many pods of its owner as may go at once are going\n"},
		{"one at once", "{maxPerOwner: 1}", nil,
			"x-a-0 from a to b\nkept 4: as many pods of its owner as may go at once are going\n"},
		{"all at once", "{maxPerOwner: 100%}", nil, allGo},
		{"rolling out", "{maxPerOwner: 100%}", []state.APIObject{set("x", 5), other(1)},
			"kept 5: its owner is rolling out\n"},
		{"rolled out", "{maxPerOwner: 100%}", []state.APIObject{set("x", 5), other(0)}, allGo},
		{"rolling out all the same", "{maxPerOwner: 100%, pauseDuringRollout: false}",
			[]state.APIObject{set("x", 5), other(1)}, allGo},
		{"a StatefulSet is rolling out", "{maxPerOwner: 100%}", []state.APIObject{stateful},
			"kept 5: its owner is rolling out\n"},
		{"namespace", "{excludeNamespaces: [default]}", nil, "kept 5: namespace excluded\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(tt.objects, node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"))
			in := input(t, policyOf(t, "berth: "+tt.berth+",", "", leaveTaints), append(objects, many(5, "a", "x")...)...)
			expect(t, in, tt.want)
		})
	}
}

// TestSystemNamespace checks that the namespace is excluded unless the policy says otherwise.
func TestSystemNamespace(t *testing.T) {
	system := pod("dns", "a", "dns", func(p *corev1.Pod) { p.Namespace = metav1.NamespaceSystem })
	objects := []state.APIObject{node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"), system}
	expect(t, input(t, policyOf(t, "", "", leaveTaints), objects...), "kept 1: namespace excluded\n")
	expect(t, input(t, policyOf(t, "berth: {excludeNamespaces: []},", "", leaveTaints), objects...), "dns from a to b\n")
}

// pastDecisions lists the decisions about pods of owner x before the cycle, and their ages.
type pastDecisions []struct {
	pod   string
	kind  events.DecisionKind
	cycle uint64
	ago   time.Duration
}

func (s pastDecisions) history() *History {
	h := NewHistory()
	for _, e := range s {
		h.Observe(events.Decision{
			Kind: e.kind, Attempt: 1, Pod: podRef("uid-" + e.pod), Owner: "uid-x", FactSequence: e.cycle,
		}, now.Add(-e.ago))
	}
	return h
}

// TestPauses checks that an owner rests after its pods were moved, longer every time, and waits for replacements.
func TestPauses(t *testing.T) {
	evictions := func(ago ...time.Duration) (s pastDecisions) {
		for i, a := range ago {
			for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvicted} {
				s = append(s, pastDecisions{{fmt.Sprint("gone", i), k, uint64(i), a}}...)
			}
		}
		return s
	}
	unready := pod("x-new", "b", "x", func(p *corev1.Pod) { p.Status.Conditions = nil })
	const (
		move    = "x-a-0 from a to b\n"
		resting = "kept 1: its owner is cooling down\n"
		busy    = "kept 1: as many pods of its owner as may go at once are going\n"
	)
	for _, tt := range []struct {
		name    string
		past    pastDecisions
		objects []state.APIObject
		want    string
	}{
		{"nothing happened", nil, nil, move},
		{"just now", evictions(59 * time.Second), nil, resting},
		{"a minute ago", evictions(time.Minute), nil, move},
		{"twice", evictions(10*time.Minute, 119*time.Second), nil, resting},
		{"twice, long enough ago", evictions(10*time.Minute, 2*time.Minute), nil, move},
		{"the first is forgotten", evictions(2*time.Hour+time.Minute, time.Minute), nil, move},
		{"not for ever", evictions(9*time.Hour, 8*time.Hour, 7*time.Hour, 6*time.Hour, 5*time.Hour, 4*time.Hour,
			3*time.Hour, 2*time.Hour, time.Hour), nil, move},
		{"one is under way", pastDecisions{{"x-b-0", events.DecisionEvict, 1, time.Minute}}, many(1, "b", "x"), busy},
		{"it was lost", pastDecisions{{"x-b-0", events.DecisionEvict, 1, InFlight}}, many(1, "b", "x"), move},
		{"it was refused", pastDecisions{{"x-b-0", events.DecisionEvict, 1, time.Minute},
			{"x-b-0", events.DecisionEvictRefused, 1, time.Minute}}, many(1, "b", "x"), move},
		{"its replacement is not ready", evictions(2 * time.Minute), []state.APIObject{unready},
			"kept 1: its owner's last replacements are not ready\n"},
		{"nor will it be", evictions(time.Hour), []state.APIObject{unready}, move},
		{"not moved", nil, []state.APIObject{unready}, move},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := append(tt.objects, node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"), pod("x-a-0", "a", "x"))
			in := input(t, policyOf(t, "", "", leaveTaints), objects...)
			in.History = tt.past.history()
			expect(t, in, tt.want)
			in.History = in.History.Clone()
			expect(t, in, tt.want)
		})
	}
}

// moved returns the history of one pod of owner x that was moved from a to b.
func moved(ago time.Duration) *History {
	h := NewHistory()
	for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvicted} {
		h.Observe(events.Decision{
			Kind: k, Attempt: 1, Pod: podRef("uid-gone"), Owner: "uid-x", NodeName: "a", Landing: "b",
		}, now.Add(-ago))
	}
	return h
}

// TestYoungestSeparatesOldFromNew checks that a pod as old as the youngest that the ask knew is not a replacement, not
// even one created a second before the eviction; and that a younger one is, whatever the clocks are.
func TestYoungestSeparatesOldFromNew(t *testing.T) {
	const since = 20 * time.Minute
	for _, tt := range []struct {
		name           string
		youngest, made time.Duration
		want           int
	}{
		{"one of the old", since + time.Second, since + time.Second, 0},
		{"a replacement", since + 2*time.Second, since + time.Second, 1},
		{"a replacement by a clock far behind", since + time.Minute, since + 59*time.Second, 1},
		{"one more, long after", since + time.Minute, since - InFlight - time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
				pod("x-a-0", "a", "x", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: now.Add(-tt.made)} }))
			in.History = NewHistory()
			for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvicted} {
				in.History.Observe(events.Decision{
					Kind: k, Attempt: 1, Pod: podRef("uid-gone"), Owner: "uid-x", NodeName: "a", Landing: "b",
					Youngest: now.Add(-tt.youngest),
				}, now.Add(-since))
			}
			if got := len(Make(in).Returned); got != tt.want {
				t.Errorf("%d pods came back, want %d", got, tt.want)
			}
		})
	}
}

// TestMovedThereAndBack checks that a pod moved to a node that the owner had been moved away from has not come back
// by itself, and that one that appears there after the node has been left once more has.
func TestMovedThereAndBack(t *testing.T) {
	h := NewHistory()
	began := now.Add(-20 * time.Minute)
	move := func(pod, from, to string, at time.Duration) {
		for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvicted} {
			h.Observe(events.Decision{
				Kind: k, Attempt: 1, Pod: podRef(pod), Owner: "uid-x", NodeName: from, Landing: to,
				Youngest: began.Add(at - time.Second), FactSequence: uint64(at),
			}, began.Add(at))
		}
	}
	cameBack := func(node string, made time.Duration) bool { return h.owners[ownerX].returned(node, began.Add(made)) }
	move("1", "a", "b", 0)
	if !cameBack("a", time.Second) || cameBack("b", time.Second) {
		t.Error("after a move from a to b, a pod on a has come back, and one on b has not")
	}
	move("2", "b", "a", 6*time.Second)
	if cameBack("a", 7*time.Second) || !cameBack("b", 7*time.Second) {
		t.Error("moved back to a, a pod there has not come back by itself; one on b has")
	}
	move("3", "a", "b", 12*time.Second)
	if !cameBack("a", 13*time.Second) || cameBack("b", 13*time.Second) {
		t.Error("moved away from a once more, a pod there has come back, and one on b has not")
	}
}

// TestMovedThereAndBackWithinASecond checks that, as creation times are whole seconds, a pod that was moved back is
// as old as the one that it replaces, and has not come back by itself.
func TestMovedThereAndBackWithinASecond(t *testing.T) {
	h := NewHistory()
	began := now.Add(-20 * time.Minute)
	for i, to := range []string{"b", "a"} {
		from := []string{"a", "b"}[i]
		for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvicted} {
			h.Observe(events.Decision{
				Kind: k, Attempt: 1, Pod: podRef(from), Owner: "uid-x", NodeName: from, Landing: to,
				Youngest: began.Add(time.Duration(i-1) * time.Second), FactSequence: uint64(i),
			}, began.Add(time.Duration(i)*600*time.Millisecond))
		}
	}
	past := h.owners[ownerX]
	if past.returned("a", began) {
		t.Error("a pod that was moved back to a has come back by itself")
	}
	if !past.returned("b", began.Add(time.Second)) {
		t.Error("a pod made on b after the last one has left it has not come back")
	}
}

// TestMovesIdentifyTheYoungest checks that moves report the youngest pod of the owner, from which replacements are
// recognised later.
func TestMovesIdentifyTheYoungest(t *testing.T) {
	made := now.Add(-time.Hour)
	in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
		pod("x-a-0", "a", "x"), pod("x-b-0", "b", "x", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: made} }))
	p := Make(in)
	if len(p.Moves) != 1 || !p.Moves[0].Youngest.Equal(made) {
		t.Errorf("moves %+v, want one that knows a pod made at %s", p.Moves, made)
	}
}

// TestCameBack checks that a pod on the node that the pod before it was moved away from is reported, and that its
// owner is left alone for the longest pause.
func TestCameBack(t *testing.T) {
	const back = "kept 1: a replacement of its owner came back to the node it had left\n"
	const move = "x-a-0 from a to b\n"
	made := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: now.Add(-ago)} }
	}
	for _, tt := range []struct {
		name         string
		moved, made  time.Duration
		on           string
		want         string
		wantReturned int
	}{
		{"it came back", 20 * time.Minute, 20 * time.Minute, "a", back, 1},
		{"by a clock that is behind", 20 * time.Minute, 20*time.Minute + returnSlack, "a", back, 1},
		{"it had been there", 20 * time.Minute, 21 * time.Minute, "a", move, 0},
		{"it is one more", 20 * time.Minute, 9 * time.Minute, "a", move, 0},
		{"long ago", 61 * time.Minute, 61 * time.Minute, "a", move, 1},
		{"it went elsewhere", 20 * time.Minute, 20 * time.Minute, "b", move, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
				pod("x-a-0", tt.on, "x", made(tt.made)))
			if tt.on != "a" {
				in = input(t, policyOf(t, "", "", leaveTaints), node("a", tainted(corev1.TaintEffectNoSchedule)), node("b"),
					pod("x-a-0", "a", "x"), pod("x-new", tt.on, "x", made(tt.made)))
			}
			in.History = moved(tt.moved)
			if got := len(Make(in).Returned); got != tt.wantReturned {
				t.Errorf("%d pods came back, want %d", got, tt.wantReturned)
			}
			expect(t, in, tt.want)
			in.History = in.History.Clone()
			in.History.Observe(events.Decision{Kind: events.DecisionReturned, Pod: events.PodRef{UID: "uid-x-a-0"}}, now)
			if !in.History.ReturnReported("uid-x-a-0") || in.History.ReturnReported("uid-x-new") {
				t.Error("it is not known of whom has been told")
			}
			expect(t, in, tt.want)
		})
	}
}

// TestMovedLately checks that a pod that was moved to a node is not soon moved on for balance, but only if it must
// not be there.
func TestMovedLately(t *testing.T) {
	for _, tt := range []struct {
		name, strategy string
		ago            time.Duration
		stay           bool
	}{
		{"balance, lately", level, 59 * time.Minute, true},
		{"balance, long ago", level, time.Hour, false},
		{"a taint", leaveTaints, 59 * time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			effect := func(*corev1.Node) {}
			if tt.strategy == leaveTaints {
				effect = tainted(corev1.TaintEffectNoSchedule)
			}
			crowd := many(9, "b", "x", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: now.Add(-tt.ago)} })
			in := input(t, policyOf(t, "berth: "+noOwnerLimits+",", "", tt.strategy),
				append(crowd, node("b", effect), node("c"))...)
			in.History = moved(tt.ago)
			plan := Make(in)
			if stays := len(plan.Moves) == 0; stays != tt.stay {
				t.Errorf("they stay: %t, want %t\n%s", stays, tt.stay, summary(plan))
			}
		})
	}
}
