package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// reports are what an attempt leaves for people and other programs to read.
type reports struct {
	// Node is where the pod is bound; empty for nowhere.
	Node string
	// Nominated and Conditions are those of the pod's status after the attempt. A time of transition is that of
	// longAgo, or none for a later one.
	Nominated  string
	Conditions []corev1.PodCondition
	// Events are about the pod, Victims about others, both in the order of their text.
	Events, Victims []report
}

// report is an event without its times and counts.
type report struct{ Controller, Regarding, Related, Type, Reason, Action, Note string }

// enoughToJudge is how many cases show how often something happens.
const enoughToJudge = 1000

// longAgo is the time of transition of conditions from before the attempt.
var longAgo = metav1.NewTime(time.Unix(1000, 0))

// addEvent adds an event about the pod, or about another one.
func (r *reports) addEvent(e report, pod string) {
	if e.Regarding == pod {
		r.Events = append(r.Events, e)
		return
	}
	r.Victims = append(r.Victims, e)
}

// finish takes over the status of the pod as the attempt has left it.
func (r *reports) finish(pod *corev1.Pod) {
	r.Nominated = pod.Status.NominatedNodeName
	for _, c := range pod.Status.Conditions {
		switch {
		case c.LastTransitionTime.IsZero():
			c.LastTransitionTime = metav1.Unix(1, 0) // a difference to all that have one
		case !c.LastTransitionTime.Equal(&longAgo):
			c.LastTransitionTime = metav1.Time{}
		}
		r.Conditions = append(r.Conditions, c)
	}
	order := func(a, b report) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(r.Events, order)
	slices.SortFunc(r.Victims, order)
}

// alignNode replaces our node by upstream's, and reports whether it was another: which of the best nodes it is, is
// compared elsewhere. The node that the pod is nominated to, and one for which there are no victims, are not aligned.
func (r *reports) alignNode(theirs reports, nominated string) bool {
	ours, node := r.Node, theirs.Node
	if node == nominated {
		return false
	}
	if len(r.Victims) > 0 && len(theirs.Victims) > 0 {
		ours, node = r.Nominated, theirs.Nominated
	}
	if ours == node || ours == "" || node == "" {
		return false
	}
	if r.Node != "" {
		r.Node = node
	}
	if r.Nominated == ours {
		r.Nominated = node
	}
	for i := range r.Events {
		if before, found := strings.CutSuffix(r.Events[i].Note, " "+ours); found {
			r.Events[i].Note = before + " " + node
		}
	}
	return true
}

// reportException is a difference between upstream's reports and ours that is intended. take removes what it explains
// from both and reports whether there was something.
type reportException struct {
	name, why string
	take      func(pod *corev1.Pod, want, got *reports) bool
}

// compareReports compares what both sides leave, but for exceptions, which are counted.
func (c *extendedCase) compareReports(
	want, got reports, exceptions []reportException, seen map[string]int,
) string {
	if got.alignNode(want, c.pod.Status.NominatedNodeName) {
		seen["another node"]++
		want.Victims, got.Victims = nil, nil
	}
	for _, e := range exceptions {
		if e.take(c.pod, &want, &got) {
			seen[e.name]++
		}
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// withoutDeallocation removes what upstream's plugin DynamicResources adds to each message when it has no claim to
// deallocate, even for pods without claims.
var withoutDeallocation = strings.NewReplacer(" no new claims to deallocate,", "", " still not schedulable,", "")

// deallocationException is the difference that withoutDeallocation removes.
var deallocationException = reportException{
	name: "no claim to deallocate",
	why:  "upstream adds it to pods without claims as well, and it is no reason to be pending",
	take: func(_ *corev1.Pod, want, _ *reports) (found bool) {
		cut := func(text *string) {
			short := withoutDeallocation.Replace(*text)
			found, *text = found || short != *text, short
		}
		for i := range want.Events {
			cut(&want.Events[i].Note)
		}
		for i := range want.Conditions {
			cut(&want.Conditions[i].Message)
		}
		return found
	},
}

// generationException is for a condition of which only the generation is newer.
var generationException = reportException{
	name: "newer generation",
	why:  "upstream leaves the older one; ours shows that the pod's change has been considered and helps nothing",
	take: func(pod *corev1.Pod, want, got *reports) bool {
		before, w := slices.IndexFunc(pod.Status.Conditions, isScheduled), slices.IndexFunc(want.Conditions, isScheduled)
		g := slices.IndexFunc(got.Conditions, isScheduled)
		if before < 0 || w < 0 || g < 0 || !cmp.Equal(pod.Status.Conditions[before], want.Conditions[w]) {
			return false
		}
		renewed := want.Conditions[w]
		renewed.ObservedGeneration = pod.Generation
		if cmp.Equal(renewed, want.Conditions[w]) || !cmp.Equal(renewed, got.Conditions[g]) {
			return false
		}
		got.Conditions[g] = want.Conditions[w]
		return true
	},
}

// nominationExceptions are the differences in attempts without devices.
var nominationExceptions = []reportException{
	deallocationException,
	generationException,
	{
		name: "reasons of preemption", why: "why preemption helps nowhere is compared in TestPreemption",
		take: func(_ *corev1.Pod, want, got *reports) bool {
			return want.Node == "" && cutPreemption(want) != cutPreemption(got)
		},
	},
}

// cutPreemption removes from messages what preemption adds, and returns what it has removed.
func cutPreemption(r *reports) (removed string) {
	for i := range r.Events {
		r.Events[i].Note, removed, _ = strings.Cut(r.Events[i].Note, " preemption:")
	}
	for i := range r.Conditions {
		r.Conditions[i].Message, _, _ = strings.Cut(r.Conditions[i].Message, " preemption:")
	}
	return removed
}

// TestReports: after an attempt to place a pod that may be nominated, next to others that are, the pod's conditions and
// nominatedNodeName and the events about it and about victims are upstream's. Upstream's side is a whole attempt of its
// scheduler; ours are a shard and a binder. Both write to a fake API server.
func TestReports(t *testing.T) {
	withoutDevices(t)
	// Upstream evicts before the attempt ends, so that nothing has to be waited for.
	gates := utilfeature.DefaultFeatureGate
	featuregatetesting.SetFeatureGateDuringTest(t, gates, features.SchedulerAsyncPreemption, false)
	first, seen := firstSeed(t), map[string]int{}
	cases := max(*comparisons/extenderShare, 1)
	for i := range uint64(cases) {
		compareNominationReports(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	if cases >= enoughToJudge && seen["spared"]*100 > mostSpared*cases {
		t.Errorf("no victims beside nominated pods in %d of %d cases, want %d%% at most", seen["spared"], cases, mostSpared)
	}
	for _, kind := range []string{
		"placed", "unplaceable", "nominated", "with victims", "condition renewed", "transition kept", "condition kept",
	} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

func compareNominationReports(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	c := newNominationCase(rng)
	c.tryBefore(rng)
	for i, p := range c.existing { // without it, upstream takes the time of each comparison for that of the start
		start := metav1.NewTime(longAgo.Add(time.Duration(i) * time.Second))
		p.Status.StartTime = &start
	}
	c.number()
	want, err := c.upstreamReports(t.Context(), configv1.KubeSchedulerConfiguration{}, nil)
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	profile, err := placement.NewProfile(extendedProfile(nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ourReports(t.Context(), profile, basis.DefaultLimits(), nil)
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	if want.Nominated != "" && got.Nominated == "" && c.isBesideNominated(want.Nominated) {
		seen["spared"]++
		want.Nominated, want.Victims, got.Nominated = "", nil, ""
	}
	c.countReports(want, seen)
	if diff := c.compareReports(want, got, nominationExceptions, seen); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
}

// tryBefore gives the pod of a case what earlier attempts may have left.
func (c *extendedCase) tryBefore(rng *rand.Rand) {
	c.pod.Generation = 1 + rng.Int64N(3)
	if rng.IntN(100) < 40 {
		return
	}
	before := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: longAgo,
		Reason: corev1.PodReasonUnschedulable, ObservedGeneration: 1,
		Message: "no nodes available to schedule pods",
	}
	switch rng.IntN(4) {
	case 0:
		before.Reason, before.Message = corev1.PodReasonSchedulerError, "binding failed"
	case 1:
		before.Status, before.Reason = corev1.ConditionTrue, ""
	}
	c.pod.Status.Conditions = append(c.pod.Status.Conditions, before)
	if rng.IntN(3) == 0 {
		c.pod.Status.Conditions = append(c.pod.Status.Conditions, corev1.PodCondition{
			Type: "example.com/other", Status: corev1.ConditionTrue, LastTransitionTime: longAgo,
		})
	}
}

func (c *extendedCase) countReports(v reports, seen map[string]int) {
	switch {
	case v.Node != "":
		seen["placed"]++
		return
	case v.Nominated != "":
		seen["nominated"]++
	default:
		seen["unplaceable"]++
	}
	if len(v.Victims) > 0 {
		seen["with victims"]++
	}
	before := slices.IndexFunc(c.pod.Status.Conditions, isScheduled)
	after := slices.IndexFunc(v.Conditions, isScheduled)
	switch {
	case before < 0 || after < 0:
	case cmp.Equal(c.pod.Status.Conditions[before], v.Conditions[after]):
		seen["condition kept"]++
	case v.Conditions[after].LastTransitionTime.Equal(&longAgo):
		seen["transition kept"]++
	default:
		seen["condition renewed"]++
	}
}

func isScheduled(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
