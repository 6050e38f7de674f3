package engine_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var (
	twinSeed = flag.Uint64("twin.seed", 0, "seed of the first history; 0: TEST_SEED")
	twinRuns = flag.Int("twin.runs", 300, "how many histories the engine is checked on")
)

// answer is a Result as values that can be compared and printed.
type answer struct {
	Err                       string
	Feasible                  []string
	FeasibleCount, NodesTotal int
	Examined                  int
	Message                   string
	Plugins                   []string
	Reasons                   map[string]int32
	Groups                    []placement.Group
	// Points by node and plugin, without zeros.
	Points map[string]map[string]int64
}

func answerOf(r placement.Result) answer {
	a := answer{FeasibleCount: r.FeasibleCount, NodesTotal: r.NodesTotal, Examined: r.Examined}
	if r.Err != nil {
		return answer{Err: r.Err.Error()}
	}
	for _, s := range r.Feasible {
		a.Feasible = append(a.Feasible, fmt.Sprintf("%s %d", s.Node.Node.Name, s.Total))
	}
	for i, points := range r.Weighed.Points {
		node := map[string]int64{}
		for j, plugin := range r.Weighed.Plugins {
			if points[j] != 0 {
				node[plugin] = points[j]
			}
		}
		if a.Points == nil {
			a.Points = map[string]map[string]int64{}
		}
		a.Points[r.Feasible[i].Node.Node.Name] = node
	}
	if len(r.Feasible) == 0 {
		a.Message, a.Plugins, a.Reasons = r.Diagnosis.Message(), r.Diagnosis.Plugins(), r.Diagnosis.Reasons()
		a.Groups = r.Diagnosis.Groups()
	}
	return a
}

// lazyObjects passes other objects to the engine only if a change of them matters.
type lazyObjects struct {
	*engine.Engine
	matters bool
}

func (l *lazyObjects) SetObjects(o rule.Objects) {
	if l.matters {
		l.Engine.SetObjects(o)
	} else {
		l.Refresh(o)
	}
}

// before announces the next change.
func (l *lazyObjects) before(e placementtest.Event) {
	object := func(api state.APIObject) *state.Object {
		if api == nil {
			return nil
		}
		return &state.Object{Kind: e.Kind, Name: api.GetName(), API: api}
	}
	l.matters = engine.ObjectsMatter(state.ObjectChange{Kind: e.Kind, Before: object(e.Old), After: object(e.New)})
}

// pair is an engine and a twin that decides from scratch, over the same nodes.
type pair struct {
	engine   *lazyObjects
	view     *placementtest.View
	profiles []*placement.Profile
}

func newPair(cacheBytes int64, profiles []*placement.Profile) *pair {
	engine := engine.New(engine.Config{CacheBytes: cacheBytes})
	p := &pair{engine: &lazyObjects{Engine: engine, matters: true}, profiles: profiles}
	p.view = placementtest.NewView(p.engine)
	return p
}

// disagree replays a script and returns the first difference. Which nodes are usable or home nodes, and which
// profile is used, is derived from the seed of each decision.
func (p *pair) disagree(s placementtest.Script) string {
	for i, step := range s {
		if step.Pod == nil {
			p.engine.before(step.Event)
			p.view.Apply(step.Event)
			continue
		}
		draw := rand.New(rand.NewPCG(step.Seed, 1))
		if draw.IntN(50) == 0 {
			p.engine.Restart()
		}
		p.reserve(draw)
		for draw.IntN(3) == 0 {
			p.touch(draw)
		}
		usable, home := p.mark(draw)
		profile := p.profiles[draw.IntN(len(p.profiles))]
		pod := state.NewPod(step.Pod.DeepCopy())
		q := engine.Query{
			Pod: pod, Seed: step.Seed, Limit: []int{0, 0, 1, 3, -1}[draw.IntN(5)],
			Start: draw.IntN(50), Home: draw.IntN(4) == 0, Weigh: draw.IntN(5),
			HomeFirst: draw.IntN(2) == 0, Everywhere: draw.IntN(4) == 0, Unsampled: draw.IntN(4) == 0,
		}
		in := placement.Input{
			Pod: pod, Nodes: p.view.Nodes(), Candidates: usable, Objects: p.view.Objects(),
			Seed: q.Seed, Limit: q.Limit, Start: q.Start, Weigh: q.Weigh,
			Everywhere: q.Everywhere, Unsampled: q.Unsampled,
		}
		if q.Home {
			in.Candidates = home
		}
		if q.HomeFirst {
			in.Home = uids(home)
		}
		result := p.engine.Evaluate(profile, q)
		if problem := miscounts(result); problem != "" {
			return fmt.Sprintf("step %d, pod %s: %s", i+1, step.Pod.Name, problem)
		}
		want, got := answerOf(profile.Evaluate(in)), answerOf(result)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("step %d, pod %s: from scratch (-) and engine (+) differ:\n%s", i+1, step.Pod.Name, diff)
		}
	}
	return ""
}

func uids(nodes []*state.NodeInfo) map[string]bool {
	set := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		set[n.Node.UID] = true
	}
	return set
}

// miscounts reports whether the rejected and the feasible nodes do not add up to all nodes.
func miscounts(r placement.Result) string {
	rejected := 0
	for _, by := range r.Rejected {
		rejected += int(by.Nodes)
	}
	all := rejected+r.FeasibleCount == r.NodesTotal
	if len(r.Rejected) == 0 || all || r.Examined < r.NodesTotal {
		return ""
	}
	return fmt.Sprintf("%d nodes are feasible of %d, and %v are rejected", r.FeasibleCount, r.NodesTotal, r.Rejected)
}

// reserve occasionally adds a pod to a node that is known only by its reservation.
func (p *pair) reserve(draw *rand.Rand) {
	nodes := p.view.Nodes()
	if len(nodes) == 0 || draw.IntN(30) > 0 {
		return
	}
	pod := &state.Pod{UID: fmt.Sprintf("reserved-%d", draw.Uint64()),
		Requests: resources.Resources{MilliCPU: 100, Pods: 1}}
	n := nodes[draw.IntN(len(nodes))]
	n.AddPod(pod)
	p.engine.ChangePod(n, nil, pod)
}

// touch changes something of a pod or a node that no rule reads, as the engine is then not called for the node, and
// no class for the pod: the pod starts or becomes ready, or a reserved pod becomes bound; the node has a heartbeat.
func (p *pair) touch(draw *rand.Rand) {
	nodes := p.view.Nodes()
	if len(nodes) == 0 {
		return
	}
	n := nodes[draw.IntN(len(nodes))]
	if draw.IntN(4) == 0 {
		obj := n.Node.Object.DeepCopy()
		for i := range obj.Status.Conditions {
			obj.Status.Conditions[i].LastTransitionTime = metav1.Unix(int64(draw.IntN(1000)), 0)
		}
		obj.ResourceVersion = fmt.Sprint(draw.IntN(1000) + 1)
		if old := n.Node; old.Images == nil && old.ReadsLike(state.NewNode(obj)) {
			n.SetNode(state.NewNode(obj))
		}
		return
	}
	touchPod(draw, p.engine.Engine, n)
}

// touchPod changes something of one pod of a node that no rule about other pods reads.
func touchPod(draw *rand.Rand, e *engine.Engine, n *state.NodeInfo) {
	pods := slices.Collect(n.Pods())
	if len(pods) == 0 {
		return
	}
	before := pods[draw.IntN(len(pods))]
	if before.Template == nil {
		return
	}
	obj := before.Object()
	obj.ResourceVersion = fmt.Sprint(draw.IntN(1000) + 1)
	switch draw.IntN(4) {
	case 0:
		obj.Spec.NodeName = [2]string{"", n.Node.Name}[draw.IntN(2)] // the reservation of a pod and its bind
	case 1:
		obj.Status.Phase = [2]corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[draw.IntN(2)]
	case 2:
		started := metav1.Unix(int64(draw.IntN(5)), 0)
		obj.Status.StartTime = &started
	default:
		ready := [2]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[draw.IntN(2)]
		obj.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	}
	after := state.NewPod(obj)
	n.ReplacePod(after)
	e.ChangePod(n, before, after)
}

// mark occasionally changes which nodes may be used, and returns those that may.
func (p *pair) mark(draw *rand.Rand) (usable, home []*state.NodeInfo) {
	odds, few := draw.IntN(4), draw.IntN(3) == 0
	usable, home = []*state.NodeInfo{}, []*state.NodeInfo{}
	for i, n := range p.view.Nodes() {
		// Mostly the same from decision to decision, so that classes are kept.
		mayUse, isHome := !few || (i+odds)%5 != 0, i%3 != 0
		p.engine.SetUsable(n, mayUse)
		p.engine.SetHome(n, isHome)
		if mayUse {
			usable = append(usable, n)
		}
		if mayUse && isHome {
			home = append(home, n)
		}
	}
	return usable, home
}

// history draws a script and the profiles to evaluate it with.
func history(t testing.TB, seed uint64) (placementtest.Script, func() *pair) {
	g := placementtest.New(seed)
	g.Size = placementtest.Size{MinNodes: 1, MaxNodes: 30, MaxPodsPerNode: 4}
	if g.Chance(3) {
		g.Size = placementtest.Size{MinNodes: 110, MaxNodes: 200, MaxPodsPerNode: 2} // large enough to sample
	}
	if g.Chance(25) {
		g.Size.Devices = 75
	}
	script := g.Script(25)
	var profiles []*placement.Profile
	for range 2 {
		cfg := g.Profile()
		if g.Chance(3) {
			cfg.Plugins[len(cfg.Plugins)-1].Weight = math.MaxInt32 // more than the columns can hold
		}
		if g.Chance(25) {
			cfg.PercentageOfNodesToScore = int32(placementtest.Pick(g, 1, 30, 70))
		}
		profile, err := placement.NewProfile(cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		profiles = append(profiles, profile)
	}
	cache := placementtest.Pick[int64](g, 0, 1, 60_000)
	return script, func() *pair { return newPair(cache, profiles) }
}

// check fails with the smallest history that shows a difference.
func check(t *testing.T, seed uint64) {
	t.Helper()
	script, fresh := history(t, seed)
	if fresh().disagree(script) == "" {
		return
	}
	script = placementtest.Shrink(script, func(s placementtest.Script) bool { return fresh().disagree(s) != "" })
	t.Fatalf("replay with -args -twin.seed=%d -twin.runs=1\n%s\nafter\n%s", seed, fresh().disagree(script), script)
}

// After any history of nodes, pods and other objects, the engine gives the same answer as an evaluation from
// scratch.
func TestEngineAgreesWithTwin(t *testing.T) {
	first := seedtest.First(t, *twinSeed)
	for i := range *twinRuns {
		check(t, first+uint64(i))
	}
}

// A pod that is reserved, becomes bound and runs moves the journal when it is added and when it goes, as no rule reads
// what changes in between. A resize and a deletion timestamp move it.
func TestLifeOfAPodMovesTheJournalTwice(t *testing.T) {
	e := engine.New(engine.Config{})
	n := state.NewNodeInfo(state.NewNode(statetest.Node("n", "cpu", "4", "pods", "110")))
	e.SetNode(n)
	obj := spreadPod("p")
	obj.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: statetest.List("cpu", "1"),
	}}}
	pod := state.NewPod(obj)
	n.AddPod(pod)
	e.ChangePod(n, nil, pod)
	step := func(what string, moves bool, change func(*corev1.Pod)) {
		t.Helper()
		change(obj)
		generation, before := n.Generation, e.Moves()
		next := state.NewPod(obj)
		n.ReplacePod(next)
		e.ChangePod(n, pod, next)
		pod = next
		if moved := e.Moves() != before; moved != moves || n.Generation == generation {
			t.Errorf("%s: the journal moved: %v, want %v; generation %d, before %d", what, moved, moves, n.Generation,
				generation)
		}
	}
	step("bound", false, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	step("running", false, func(p *corev1.Pod) { p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &metav1.Time{} })
	step("annotated", false, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
	step("resized", true, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = statetest.List("cpu", "2") })
	step("deleted", true, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
}

// A pod that is rejected before all its rules were evaluated does not affect a pod that is equal except for the
// cause of that rejection.
func TestRejectedPodTeachesNothing(t *testing.T) {
	p := defaultProfile(t)
	e := engine.New(engine.Config{})
	var nodes []*state.NodeInfo
	for _, name := range []string{"a1", "a2", "b1", "x1"} {
		obj := statetest.Node(name, "pods", "110")
		if zone := name[:1]; zone != "x" {
			obj.Labels[corev1.LabelTopologyZone] = zone
		}
		nodes = append(nodes, state.NewNodeInfo(state.NewNode(obj)))
	}
	nodes[0].AddPod(state.NewPod(spreadPod("there")))
	for _, n := range nodes {
		e.SetNode(n)
	}
	gated := spreadPod("p")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	if r := e.Evaluate(p, engine.Query{Pod: state.NewPod(gated)}); r.FeasibleCount != 0 {
		t.Fatalf("%d nodes are feasible for a gated pod", r.FeasibleCount)
	}
	free := state.NewPod(spreadPod("p"))
	want := answerOf(p.Evaluate(placement.Input{Pod: free, Nodes: nodes}))
	if diff := cmp.Diff(want, answerOf(e.Evaluate(p, engine.Query{Pod: free}))); diff != "" {
		t.Fatalf("from scratch (-) and engine (+) differ:\n%s", diff)
	}
}

// spreadPod makes a pod app=web that is spread over zones if possible.
func spreadPod(uid string) *corev1.Pod {
	pod := statetest.Pod("default", uid)
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	return pod
}

func defaultProfile(t testing.TB) *placement.Profile {
	t.Helper()
	return newProfile(t, placement.DefaultProfile("default-scheduler"))
}

func newProfile(t testing.TB, cfg placement.ProfileConfig) *placement.Profile {
	t.Helper()
	p, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func FuzzEngineAgreesWithTwin(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(check)
}
