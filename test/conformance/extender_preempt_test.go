package conformance

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

const preemptVerb = "preempt"

// mostOtherwise is the share of cases, in percent, in which nominations may differ for the reasons of alignNominations.
// (Measured: 26; without random draws and clusters in which no extender is asked, 21.)
const mostOtherwise = 40

// TestPreemptingExtenders: for a pod that needs victims, configured to preempt as kube-scheduler does, we ask
// extenders about the same victims in the same order, and choose the same node, as far as upstream's answer is one
// that we could give (see alignNominations).
func TestPreemptingExtenders(t *testing.T) {
	withoutDevices(t)
	first, seen := firstSeed(t), map[string]int{}
	for i := range uint64(max(*comparisons/extenderShare, 1)) {
		comparePreemptingExtenders(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	boundRescored(t, seen)
	otherwise, cases := 0, max(*comparisons/extenderShare, 1)
	for _, kind := range []string{"doubted", "hopeless", "not asked", "ties", "too few"} {
		otherwise += seen[kind]
	}
	if *comparisons >= 2000 && otherwise*100 > mostOtherwise*cases {
		t.Errorf("nominations differ in %d of %d cases, want %d%% at most: %v", otherwise, cases, mostOtherwise, seen)
	}
	for _, kind := range []string{"asked", "nominated", "in vain", "error", "doubted", "hopeless", "too few", "ties"} {
		if *comparisons >= 5000 && seen[kind] == 0 {
			t.Errorf("the input is lopsided: no case of %q in %v", kind, seen)
		}
	}
}

func comparePreemptingExtenders(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	c := newPreemptingCase(rand.New(rand.NewPCG(seed, 1)))
	server := newExtenderServer(t, seed)
	server.podsByNode = c.podsByNode()
	want, err := c.upstream(t.Context(), server.addressed(c.extenders, "upstream"))
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	// What is asked about victims has an address of its own: upstream asks no filters then.
	set, err := extender.NewSet(server.addressed(c.extenders, "victims"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var left []preempt.Candidate
	got, tied, err := c.ours(t, server.addressed(c.extenders, "ours"), func(q step.Consult) step.Advice {
		a := step.Advice{ID: q.ID}
		a.Candidates, a.Err = set.Preempt(t.Context(), q.Pod, q.Candidates)
		left = a.Candidates
		return a
	})
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	for _, verb := range []string{"filter", preemptVerb} {
		mine := map[string]string{"filter": "ours", preemptVerb: "victims"}[verb]
		if diff := cmp.Diff(server.callsOf("upstream", verb), server.callsOf(mine, verb)); diff != "" {
			t.Errorf("seed %d: calls of %s of upstream (-) and ours (+) differ:\n%s\nfor %s", seed, verb, diff, c)
		}
	}
	if len(server.callsOf("victims", preemptVerb)) > 0 {
		seen["asked"]++
	}
	got.Node = c.alignNode(want.Node, got.Node, tied, seen)
	if wrong := server.alignNominations(&want, &got, left, seen); wrong != "" {
		t.Errorf("seed %d: upstream nominates to %q, ours to %q: %s\nfor %s", seed, want.Nominated, got.Nominated, wrong, c)
		return
	}
	why := want.Message
	if strings.Contains(why, "preemption: failed "+preemptVerb) || strings.Contains(why, "nodeinfo not") {
		seen["error"]++
	}
	want.Message, got.Message = alignMessages(want.Message, got.Message)
	if got.Nominated == "" && !slices.Contains(want.Plugins, placement.Extenders) {
		// We wait for what extenders know, too.
		got.Plugins = slices.DeleteFunc(got.Plugins, func(p string) bool { return p == placement.Extenders })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
	switch {
	case want.Nominated != "":
		seen["nominated"]++
	case strings.Contains(want.Message, "preemption:"):
		seen["in vain"]++
	}
}

// alignNominations makes both nominations the same where they may differ, and returns the reason where they may not.
// Upstream draws at random among the cheapest nodes; it also evicts too few pods for the preemptor to fit; and it
// does not ask filters, which may find a node hopeless, doubt it, or fail.
func (s *extenderServer) alignNominations(
	want, got *attemptResult, left []preempt.Candidate, seen map[string]int,
) (why string) {
	at := func(node string) *preempt.Candidate {
		i := slices.IndexFunc(left, func(c preempt.Candidate) bool { return c.Node.Name == node })
		if i < 0 {
			return nil
		}
		return &left[i]
	}
	theirs, ours := at(want.Nominated), at(got.Nominated)
	switch {
	case want.Nominated == got.Nominated:
		return ""
	case want.Nominated == "":
		return "nobody has to go"
	case got.Nominated != "" && len(s.callsOf("victims", "filter"))+len(s.callsOf("victims", preemptVerb)) == 0:
		seen["not asked"]++ // TestPreemption compares the victims then
	case s.isShrunk(want.Nominated):
		seen["too few"]++
	case len(s.callsOf("victims", "filter")) > 0 && theirs == nil:
		seen["hopeless"]++ // or the filter has failed
	case theirs != nil && theirs.Doubted && ours != nil && !ours.Doubted:
		seen["doubted"]++
	case theirs == nil || ours == nil:
		return "it is left, and none is taken"
	case theirs.Doubted == ours.Doubted && costKey(theirs) == costKey(ours):
		seen["ties"]++
	default:
		return fmt.Sprintf("it costs %s, ours %s", costKey(theirs), costKey(ours))
	}
	*got = *want
	return ""
}

// costKey is all that counts of a candidate but lots.
func costKey(c *preempt.Candidate) string {
	var highest int32
	var sum, started int64
	for _, v := range c.Victims {
		if v.Priority > highest {
			highest, started = v.Priority, 0
		}
		at, _ := v.Started()
		if v.Priority == highest && (started == 0 || at.Unix() < started) {
			started = at.Unix()
		}
		sum += int64(v.Priority)
	}
	return fmt.Sprint(c.Violations, highest, sum, len(c.Victims), started)
}

// alignMessages cuts off what differs by design: our advice, and upstream's messages about a node without victims and
// about nodes that do not exist.
func alignMessages(want, got string) (theirs, ours string) {
	want = strings.ReplaceAll(want, "/upstream/", "/ours/")
	got = strings.ReplaceAll(got, "/victims/", "/ours/")
	for _, words := range []string{"expected at least one victim pod", "nodeinfo not found"} {
		if strings.Contains(want, words) {
			want, _, _ = strings.Cut(want, " preemption:")
			got, _, _ = strings.Cut(got, " preemption:")
		}
	}
	if strings.HasPrefix(got, want) {
		got = want
	}
	return want, got
}

// newPreemptingCase is a cluster full of unimportant pods, and one that is important.
func newPreemptingCase(rng *rand.Rand) *extendedCase {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	c := newExtendedCase(rng)
	c.existing = nil
	for i, n := range c.nodes {
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4")
		pods := 3
		if chance(80) {
			pods = 4
		}
		for j := range pods {
			p := extendedPod(fmt.Sprintf("s%d-%d", i, j), "1")
			priority := int32(rng.IntN(2))
			if chance(10) {
				priority = 1000
			}
			p.Spec.NodeName, p.Spec.Priority = n.Name, &priority
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = &metav1.Time{Time: time.Unix(1_700_000_000+int64(rng.IntN(2)), 0)}
			c.existing = append(c.existing, p)
		}
	}
	important := int32(100)
	c.pod.Spec.PreemptionPolicy, c.pod.Spec.Priority = nil, &important
	c.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprint(1 + rng.IntN(3)))
	for i := range c.extenders {
		e := &c.extenders[i]
		e.BindVerb, e.PrioritizeVerb, e.Weight = "", "", 0
		if e.FilterVerb = ""; chance(50) {
			e.FilterVerb = "filter"
		}
		if chance(60) {
			e.PreemptVerb = preemptVerb
		}
	}
	c.extenders = slices.DeleteFunc(c.extenders, func(e configv1.Extender) bool {
		return e.FilterVerb == "" && e.PreemptVerb == ""
	})
	return c
}

// podsByNode are the UIDs of the pods of each node that are less important, the most important first.
func (c *extendedCase) podsByNode() map[string][]string {
	pods := slices.Clone(c.existing)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if d := int(*b.Spec.Priority) - int(*a.Spec.Priority); d != 0 {
			return d
		}
		return a.Status.StartTime.Compare(b.Status.StartTime.Time)
	})
	list := map[string][]string{}
	for _, p := range pods {
		if *p.Spec.Priority < *c.pod.Spec.Priority {
			list[p.Spec.NodeName] = append(list[p.Spec.NodeName], string(p.UID))
		}
	}
	return list
}

// servePreempt answers as a function of seed, extender and node.
func (s *extenderServer) servePreempt(w http.ResponseWriter, who, name string, body []byte) error {
	var args extenderv1.ExtenderPreemptionArgs
	if err := json.Unmarshal(body, &args); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calls[who] = append(s.mu.calls[who], fmt.Sprintf("/%s/%s %s", name, preemptVerb, body))
	if s.draw(10, name, preemptVerb) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return nil
	}
	answer := extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for node, uids := range victimsAsked(&args) {
		if one := s.victimsFor(name, node, uids); one != nil {
			answer.NodeNameToMetaVictims[node] = one
		}
	}
	if s.draw(20, name, "stranger") == 0 {
		answer.NodeNameToMetaVictims["stranger"] = &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: "x"}}}
	}
	return json.NewEncoder(w).Encode(answer)
}

// victimsFor is an extender's answer for one node, nil for none. The lock is held.
func (s *extenderServer) victimsFor(name, node string, uids []string) *extenderv1.MetaVictims {
	one := &extenderv1.MetaVictims{}
	switch s.draw(8, name, preemptVerb, node) {
	case 0:
		return nil
	case 1:
		s.mu.shrunk[node] = true
		uids = uids[1:]
	case 2:
		for _, uid := range s.podsByNode[node] {
			if !slices.Contains(uids, uid) {
				uids = append(slices.Clone(uids), uid)
				break
			}
		}
	case 3:
		one.NumPDBViolations = 1 + int64(s.draw(2, name, "violations", node))
	}
	for _, uid := range s.podsByNode[node] { // the most important first
		if slices.Contains(uids, uid) {
			one.Pods = append(one.Pods, &extenderv1.MetaPod{UID: uid})
		}
	}
	return one
}

func victimsAsked(args *extenderv1.ExtenderPreemptionArgs) map[string][]string {
	asked := map[string][]string{}
	for node, v := range args.NodeNameToMetaVictims {
		for _, p := range v.Pods {
			asked[node] = append(asked[node], p.UID)
		}
	}
	for node, v := range args.NodeNameToVictims {
		for _, p := range v.Pods {
			asked[node] = append(asked[node], string(p.UID))
		}
	}
	return asked
}

// callsOf are the calls of one verb by one side, in their order.
func (s *extenderServer) callsOf(who, verb string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, call := range s.mu.calls[who] {
		if strings.Contains(call, "/"+verb+" ") {
			list = append(list, call)
		}
	}
	return list
}

func (s *extenderServer) isShrunk(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.shrunk[node]
}
