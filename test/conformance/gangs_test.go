package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	toolsevents "k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	upstreamscheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// mostOtherDomains is the share of gangs with a topology, in percent, of which upstream places fewer pods: it compares
// domains by a score in which the number of pods is one part, and we prefer the number.
const mostOtherDomains = 5

// askedToWait is the end of kube-scheduler's message for a member that would fit: its framework appends it. Berth's
// message has no such end.
const askedToWait = ", one or more plugins asked to wait and no plugin rejected pod"

// gangGates are the gates that upstream needs for gangs in one domain.
var gangGates = []featuregate.Feature{
	features.GenericWorkload, features.GangScheduling, features.TopologyAwareWorkloadScheduling,
}

// gangResult is the outcome of an attempt at a gang.
type gangResult struct {
	// Held: it was not tried, because the group is not complete.
	Held bool
	// Failed: it could not be decided.
	Failed bool
	// Placed counts the pods that got a node.
	Placed int
	// Messages are those of the pods without a node, sorted; none for a gang that failed, was placed in part, or has a
	// topology.
	Messages []string
}

// TestGangs: of a gang of equal pods we place as many as upstream's scheduler with its feature gates, or in rare cases
// more if they have to be in one domain. If none is placed, each gets the same message. Which nodes and which domain
// they get is not compared.
func TestGangs(t *testing.T) {
	withoutDevices(t)
	for _, gate := range gangGates {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, true)
	}
	first, seen := firstSeed(t), map[string]int{}
	cases := max(*comparisons/extenderShare, 1)
	for i := range uint64(cases) {
		compareGangs(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	if seen["in another domain"]*100 > mostOtherDomains*max(seen["with a topology"], 20) {
		t.Errorf("%d of %d gangs with a topology are placed in part elsewhere, want %d%% at most",
			seen["in another domain"], seen["with a topology"], mostOtherDomains)
	}
	for _, kind := range []string{"held", "failed", "unplaceable", "placed", "placed in part", "with a topology"} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

func compareGangs(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	c := newGangCase(rand.New(rand.NewPCG(seed, 7)))
	want, err := c.upstreamGang(t.Context())
	if err != nil {
		t.Fatalf("seed %d: upstream: %v\nfor %s", seed, err, c.extendedCase)
	}
	profile, err := placement.NewProfile(extendedProfile(nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := newShardDriver(t.Context(), profile, nil, nil).gang(c)
	if err != nil {
		t.Fatalf("seed %d: ours: %v\nfor %s", seed, err, c.extendedCase)
	}
	if c.confined() {
		seen["with a topology"]++
		want.Messages, got.Messages = nil, nil // ours are about domains
		if want.Placed > 0 && got.Placed > want.Placed {
			seen["in another domain"]++
			got.Placed = want.Placed
		}
	}
	if want.Placed > 0 {
		want.Messages = nil // we decide about the others in the next attempt
	}
	c.count(want, seen)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c.extendedCase)
	}
}

// gangCase is a cluster with one gang of equal pods, of which some may have a node. The pod of the case is the first
// one that waits.
type gangCase struct {
	*extendedCase
	group *schedulingv1alpha2.PodGroup
}

// confined reports whether all pods of the gang have to be in one zone.
func (c *gangCase) confined() bool { return c.group.Spec.SchedulingConstraints != nil }

// tried are the pods that an attempt is about.
func (c *gangCase) tried() (list []*corev1.Pod) {
	for _, p := range append([]*corev1.Pod{c.pod}, c.waiting...) {
		if len(p.Spec.SchedulingGates) == 0 {
			list = append(list, p)
		}
	}
	return list
}

func (c *gangCase) count(r gangResult, seen map[string]int) {
	switch {
	case r.Held:
		seen["held"]++
	case r.Failed:
		seen["failed"]++
	case r.Placed == 0:
		seen["unplaceable"]++
	case r.Placed < len(c.tried()):
		seen["placed in part"]++
	default:
		seen["placed"]++
	}
}

// newGangCase draws a cluster in which there is about enough room for a gang.
func newGangCase(rng *rand.Rand) *gangCase {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	c := &gangCase{extendedCase: &extendedCase{}}
	for i := range 1 + rng.IntN(6) {
		c.nodes = append(c.nodes, gangNode(rng, i))
	}
	for i := range rng.IntN(5) {
		p := extendedPod(fmt.Sprint("s", i), "1")
		p.Spec.NodeName, p.Status.Phase = c.nodes[rng.IntN(len(c.nodes))].Name, corev1.PodRunning
		c.existing = append(c.existing, p)
	}
	members := 1 + rng.IntN(6)
	name, cpu := "g", fmt.Sprint(1+rng.IntN(2))
	for i := range members {
		p := extendedPod(fmt.Sprint("m", i), cpu)
		p.Labels = map[string]string{"app": name}
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		switch {
		case i == 0:
			c.pod = p
		case chance(15):
			p.Spec.NodeName, p.Status.Phase = c.nodes[rng.IntN(len(c.nodes))].Name, corev1.PodRunning
			c.existing = append(c.existing, p)
		default:
			if chance(5) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
			}
			c.waiting = append(c.waiting, p)
		}
	}
	c.group = &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "uid-group"}}
	least := 1 + rng.Int32N(int32(members)+1) // one more than there are: it is held back
	c.group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: least}
	if chance(40) {
		c.group.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha2.TopologyConstraint{{Key: corev1.LabelTopologyZone}},
		}
	}
	c.others = []otherObject{{kind: events.KindPodGroup, object: c.group}}
	return c
}

// gangNode draws a node; some have no zone.
func gangNode(rng *rand.Rand, i int) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("uid-n", i)), ResourceVersion: fmt.Sprint(10 + i),
			Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", rng.IntN(3))},
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprint(1 + rng.IntN(4))),
			corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	if rng.IntN(10) == 0 {
		n.Labels = nil
	}
	n.Spec.Unschedulable = rng.IntN(10) == 0
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// upstreamGang runs upstream's scheduler for one attempt at the gang, with its own informers and its own queue.
func (c *gangCase) upstreamGang(ctx context.Context) (gangResult, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer cancel()
	var given configv1.KubeSchedulerConfiguration
	given.Profiles = []configv1.KubeSchedulerProfile{{Plugins: &configv1.Plugins{ // without preemption
		PostFilter: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}},
	}}}
	scheme.Scheme.Default(&given)
	var internal config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&given, &internal, nil); err != nil {
		return gangResult{}, err
	}
	c.number()
	pods := c.tried()
	placed, failed := make(chan string, len(pods)), make(chan *fwk.Status, len(pods))
	client := c.server(nil)
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b, is := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		if is {
			placed <- b.Name
		}
		return is, b, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := upstreamscheduler.New(ctx, client, factory, nil,
		func(string) toolsevents.EventRecorderLogger { return toolsevents.NewFakeRecorder(len(pods)) },
		upstreamscheduler.WithProfiles(internal.Profiles...), upstreamscheduler.WithPercentageOfNodesToScore(ptr(int32(100))))
	if err != nil {
		return gangResult{}, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return gangResult{}, err
	}
	lead := sched.SchedulingQueue.PopSpecificPod(klog.Logger{}, c.pod)
	if lead == nil {
		return gangResult{Held: true}, nil
	}
	sched.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) { return lead, nil }
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, s *fwk.Status,
		_ *fwk.NominatingInfo, _ time.Time) {
		failed <- s
	}
	sched.ScheduleOne(ctx)
	return c.collect(placed, failed)
}

// collect waits until upstream has ended the attempts at all pods.
func (c *gangCase) collect(placed <-chan string, failed <-chan *fwk.Status) (r gangResult, err error) {
	patience := time.After(upstreamPatience)
	for range c.tried() {
		select {
		case <-placed:
			r.Placed++
		case s := <-failed:
			r.Failed = r.Failed || !s.IsRejected()
			r.Messages = append(r.Messages, strings.TrimSuffix(s.Message(), askedToWait))
		case <-patience:
			return r, errors.New("the attempt does not end")
		}
	}
	return r.sorted(), nil
}

func (r gangResult) sorted() gangResult {
	slices.Sort(r.Messages)
	if r.Failed {
		r.Messages = nil // errors have words of our own
	}
	return r
}

// gang is the outcome of an attempt at the gang of a case.
func (d *shardDriver) gang(c *gangCase) (gangResult, error) {
	if err := d.start(c.extendedCase); err != nil {
		return gangResult{}, err
	}
	if _, err := d.decide(); err != nil {
		return gangResult{}, err
	}
	var r gangResult
	for _, v := range d.decided {
		// The message of the pod that stands for the others has more to say.
		message, _, _ := strings.Cut(v.Message, " to be scheduled: ")
		if message != v.Message {
			message += " to be scheduled"
		}
		switch v.Kind {
		case events.DecisionPlaced:
			r.Placed++
		case events.DecisionFailed:
			r.Failed = true
		default:
			r.Messages = append(r.Messages, message)
			r.Held = r.Held || strings.Contains(message, "to appear in scheduling queue")
		}
	}
	if r.Held {
		r.Messages = nil
	}
	return r.sorted(), nil
}
