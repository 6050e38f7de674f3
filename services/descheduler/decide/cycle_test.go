package decide

import (
	"fmt"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TestDecision checks the content of a request.
func TestDecision(t *testing.T) {
	in := input(t, taints(t, "", "", "gracePeriodSeconds: 7,"),
		statetest.Snapshot(t, tainted("bad"), roomy("spare"), running("pod", "bad")))
	out := Cycle(in)
	grace := int64(7)
	want := []Eviction{{Profile: "p", Decision: events.Decision{
		Kind: events.DecisionEvict, Pod: events.PodRef{UID: "uid-pod", Namespace: "default", Name: "pod"},
		SchedulerName: "default-scheduler", Actor: "descheduler-test", Attempt: 1,
		Token: token("uid-pod", 1).String(), FactSequence: 3, PodResourceVersion: 3,
		NodeUID: "uid-bad", NodeName: "bad", Strategy: "RemovePodsViolatingNodeTaints", GracePeriodSeconds: &grace,
		Owner: "uid-rs", NotAfter: in.Now.Add(plan.RequestTTL),
		Message: "triggered by p/RemovePodsViolatingNodeTaints: taint dedicated=gpu:NoSchedule of node bad is not tolerated",
	}}}
	if diff := cmp.Diff(want, out.Evict); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOrderAndLimits: nodes are ordered by name, pods by priority; the limits apply in that order.
func TestOrderAndLimits(t *testing.T) {
	var all []state.APIObject
	for _, node := range []string{"b", "a"} {
		all = append(all, tainted(node))
		for i, ns := range []string{"y", "x", "x"} {
			name := fmt.Sprintf("%s%d", node, i)
			p := running(name, node, priority(int32(10-i%2)))
			p.Namespace = ns
			all = append(all, p)
		}
	}
	cluster := statetest.Snapshot(t, all...)
	for _, tt := range []struct{ name, top, want string }{
		{"none", "", "x/a1 from a\nx/a2 from a\ny/a0 from a\nx/b1 from b\nx/b2 from b\ny/b0 from b\n"},
		{"per node", "maxNoOfPodsToEvictPerNode: 1,",
			"x/a1 from a\nx/b1 from b\nkept 2: " + string(descheduling.NodeLimit) + "\n"},
		{"per namespace", "maxNoOfPodsToEvictPerNamespace: 1,",
			"x/a1 from a\ny/a0 from a\nkept 4: " + string(descheduling.NamespaceLimit) + "\n"},
		{"total", "maxNoOfPodsToEvictTotal: 2,",
			"x/a1 from a\ny/a0 from a\nkept 1: " + string(plan.NamespaceShare) + "\nkept 1: " +
				string(descheduling.TotalLimit) + "\n"},
		{"never", "maxNoOfPodsToEvictTotal: 0,", "kept 1: " + string(descheduling.TotalLimit) + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := Cycle(input(t, taints(t, "", "", tt.top), cluster))
			// The output adds up what is kept by strategy over nodes and namespaces.
			if got := summary(summed(out)); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

func summed(out Outcome) Outcome {
	byReason := map[descheduling.Refused]int{}
	for r, n := range out.Refused {
		byReason[descheduling.Refused{Reason: r.Reason}] += n
	}
	out.Refused = byReason
	return out
}

// TestTwoProfiles: the first to request a pod wins.
func TestTwoProfiles(t *testing.T) {
	p := taints(t, "", "")
	p.Profiles = append(p.Profiles, p.Profiles[0])
	p.Profiles[1].Name = "second"
	out := Cycle(input(t, p, statetest.Snapshot(t, tainted("bad"), roomy("spare"), running("pod", "bad"))))
	if got, want := summary(out), "default/pod from bad\nkept 1: asked for in this cycle\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestHistory: when the eviction of a pod is requested again, and under which number.
func TestHistory(t *testing.T) {
	type seen struct {
		kind    events.DecisionKind
		attempt int32
		ago     time.Duration
	}
	for _, tt := range []struct {
		name string
		seen []seen
		want descheduling.Refusal
		next int32
	}{
		{name: "nothing", next: 1},
		{name: "under way", seen: []seen{{events.DecisionEvict, 1, plan.InFlight - 1}}, want: plan.UnderWay},
		{name: "lost", seen: []seen{{events.DecisionEvict, 1, plan.InFlight}}, next: 2},
		{name: "refused just now", seen: []seen{{events.DecisionEvict, 1, time.Hour},
			{events.DecisionEvictRefused, 1, plan.Cooldown - 1}}, want: plan.CoolingDown},
		{name: "refused a while ago", seen: []seen{{events.DecisionEvict, 1, time.Hour},
			{events.DecisionEvictRefused, 1, plan.Cooldown}}, next: 2},
		{name: "evicted, not gone yet", seen: []seen{{events.DecisionEvicted, 3, plan.Cooldown - 1}}, want: plan.CoolingDown},
		{name: "evicted and still there", seen: []seen{{events.DecisionEvicted, 3, plan.Cooldown}}, next: 4},
		{name: "the ask delivered again", seen: []seen{{events.DecisionEvict, 1, time.Hour},
			{events.DecisionEvictRefused, 1, plan.Cooldown}, {events.DecisionEvict, 1, 0}}, next: 2},
		{name: "the outcome delivered again", seen: []seen{{events.DecisionEvictRefused, 1, plan.Cooldown},
			{events.DecisionEvictRefused, 1, 0}}, next: 2},
		{name: "an old outcome after a new ask", seen: []seen{{events.DecisionEvict, 2, time.Minute},
			{events.DecisionEvictRefused, 1, plan.Cooldown}}, want: plan.UnderWay},
		{name: "other decisions", seen: []seen{{events.DecisionBound, 9, 0}}, next: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, taints(t, "", ""), statetest.Snapshot(t, tainted("bad"), roomy("spare"), running("pod", "bad")))
			for _, s := range tt.seen {
				in.History.Observe(events.Decision{
					Kind: s.kind, Attempt: s.attempt, Pod: events.PodRef{UID: "uid-pod"},
				}, now.Add(-s.ago))
			}
			out := Cycle(in)
			if got, want := summary(out), expected(tt.want); got != want {
				t.Fatalf("got:\n%swant:\n%s", got, want)
			}
			if tt.want == "" && out.Evict[0].Decision.Attempt != tt.next {
				t.Errorf("attempt %d, want %d", out.Evict[0].Decision.Attempt, tt.next)
			}
		})
	}
}

func TestForgetKeepsWhatExistsOrIsUnderWay(t *testing.T) {
	m := plan.NewHistory()
	for uid, ago := range map[string]time.Duration{"exists": time.Hour, "young": time.Minute, "gone": time.Hour} {
		m.Observe(events.Decision{Kind: events.DecisionEvict, Attempt: 1, Pod: events.PodRef{UID: uid}}, now.Add(-ago))
	}
	m.Forget(func(uid string) bool { return uid == "exists" }, now)
	if !m.HasRequest("exists") || !m.HasRequest("young") || m.HasRequest("gone") {
		t.Error("kept the wrong ones")
	}
}

// TestTokensDiffer: tokens differ by pod and by attempt, and are never the token that means none.
func TestTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for pod := range 50 {
		for attempt := range int32(5) {
			seen[token(fmt.Sprint("uid-", pod), attempt).String()] = true
		}
	}
	if len(seen) != 250 || seen["0000000000000000"] {
		t.Errorf("%d distinct tokens, want 250 and none of them zero", len(seen))
	}
}

// TestNodeFit: a pod is moved only to a node where the scheduler would place it, and a place is given away once.
func TestNodeFit(t *testing.T) {
	cpu := func(n *corev1.Node, cpu string) *corev1.Node {
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu)
		return n
	}
	notReady := roomy("spare")
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	cordoned := roomy("spare")
	cordoned.Spec.Unschedulable = true
	picky := running("p0", "bad", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "moon"} })
	pods := objects(running("p0", "bad"), running("p1", "bad"), running("p2", "bad"))
	for _, tt := range []struct {
		name, evictor string
		objects       []state.APIObject
		want          string
	}{
		{name: "room for all", evictor: "nodeFit: true", objects: append(objects(tainted("bad"), roomy("spare")), pods...),
			want: "default/p0 from bad\ndefault/p1 from bad\ndefault/p2 from bad\n"},
		{name: "room for two", evictor: "nodeFit: true",
			objects: append(objects(tainted("bad"), cpu(roomy("spare"), "2")), pods...),
			want:    "default/p0 from bad\ndefault/p1 from bad\nkept 1: fits no other node\n"},
		{name: "not asked", objects: append(objects(tainted("bad"), cpu(roomy("spare"), "2")), pods...),
			want: "default/p0 from bad\ndefault/p1 from bad\ndefault/p2 from bad\n"},
		{name: "its own node does not count", evictor: "nodeFit: true",
			objects: objects(tainted("bad"), cpu(roomy("spare"), "0"), running("p0", "bad")),
			want:    "kept 1: fits no other node\n"},
		{name: "the other is tainted too", evictor: "nodeFit: true",
			objects: objects(tainted("bad"), tainted("worse"), running("p0", "bad")), want: "kept 1: fits no other node\n"},
		{name: "a node that is not ready is no place", evictor: "nodeFit: true",
			objects: objects(tainted("bad"), tainted("worse"), notReady, running("p0", "bad")),
			want:    "kept 1: fits no other node\n"},
		{name: "a cordoned node is no place", evictor: "nodeFit: true",
			objects: objects(tainted("bad"), cordoned, running("p0", "bad")), want: "kept 1: fits no other node\n"},
		{name: "a node that is not selected is no place",
			evictor: "nodeFit: true, nodeSelector: kubernetes.io/hostname!=spare",
			objects: objects(tainted("bad"), roomy("spare"), running("p0", "bad")), want: "kept 1: fits no other node\n"},
		{name: "no node it selects", evictor: "nodeFit: true",
			objects: objects(tainted("bad"), roomy("spare"), picky), want: "kept 1: fits no other node\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := Cycle(input(t, taints(t, "", tt.evictor), statetest.Snapshot(t, tt.objects...)))
			if got := summary(summed(out)); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// TestNodeFitLeavesTheNode: a node that the scheduler would merely avoid is no place for a pod that must leave it.
func TestNodeFitLeavesTheNode(t *testing.T) {
	bad := tainted("bad")
	bad.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule
	cluster := statetest.Snapshot(t, bad, tainted("worse"), running("p0", "bad"))
	out := Cycle(input(t, taints(t, "includePreferNoSchedule: true", "nodeFit: true"), cluster))
	if got, want := summary(out), "kept 1: fits no other node\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestNoProfilesNothingToDo(t *testing.T) {
	p, err := policy.Parse("test", []byte("{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy}"))
	if err != nil {
		t.Fatal(err)
	}
	out := Cycle(input(t, p, statetest.Snapshot(t, tainted("a"), tainted("b"), running("pod", "a"))))
	if len(out.Evict) != 0 || out.Skipped != "" || out.Nodes != 2 {
		t.Errorf("%+v", out)
	}
}
