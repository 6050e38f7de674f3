package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// extenderShare: of so many comparisons of placements, one is made with extenders: it builds a whole
// scheduler on both sides.
const extenderShare = 10

// mostRescored is the share of cases, in percent, in which the nodes may differ because of rescored. (Measured: 1.)
const mostRescored = 5

// rescoredCase is the name under which such cases are counted.
const rescoredCase = "scored otherwise"

func boundRescored(t *testing.T, seen map[string]int) {
	t.Helper()
	if cases := max(*comparisons/extenderShare, 1); *comparisons >= 2000 && seen[rescoredCase]*100 > mostRescored*cases {
		t.Errorf("nodes differ because they are scored otherwise in %d of %d cases, want %d%% at most",
			seen[rescoredCase], cases, mostRescored)
	}
}

// gpu is the resource that extenders manage in these tests.
const gpu = "example.com/gpu"

// TestExtenders: for the same cluster, pod and extenders, we make the same calls as upstream's scheduler,
// and come to the same result.
func TestExtenders(t *testing.T) {
	withoutDevices(t)
	first, seen := firstSeed(t), map[string]int{}
	for i := range uint64(max(*comparisons/extenderShare, 1)) {
		compareExtenders(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	boundRescored(t, seen)
	for _, kind := range []string{"placed", "unplaceable", "failed", "nominated", "bound by the extender", "not asked"} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

// extendedCase is one decision with extenders.
type extendedCase struct {
	nodes    []*corev1.Node
	existing []*corev1.Pod
	// waiting are other pods that are not bound.
	waiting   []*corev1.Pod
	pod       *corev1.Pod
	others    []otherObject
	extenders []configv1.Extender // with the name of each in place of its address
}

// otherObject is an object that is neither a node nor a pod.
type otherObject struct {
	kind   events.Kind
	object runtime.Object
}

// attemptResult is the outcome of an attempt.
type attemptResult struct {
	// Node is the chosen node; empty with a message that explains why there is none. Failed: it is an error.
	Node, Message string
	Plugins       []string
	Failed        bool
	// Binder reports that an extender has bound it.
	Binder bool
	// Nominated is the node that it is nominated to: victims are evicted for it there, or a plugin nominated it.
	Nominated string
	// Field is the pod's nominatedNodeName after an attempt without a node.
	Field string
}

func compareExtenders(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	c := newExtendedCase(rand.New(rand.NewPCG(seed, 0)))
	server := newExtenderServer(t, seed)
	want, err := c.upstream(t.Context(), server.addressed(c.extenders, "upstream"))
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	got, tied, err := c.ours(t, server.addressed(c.extenders, "ours"), nil)
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	// Upstream draws lots among the best.
	chosen := got.Node
	got.Node = c.alignNode(want.Node, got.Node, tied, seen)
	// The outcome of preemption is not compared here.
	want.Nominated = ""
	want.Message, _, _ = strings.Cut(strings.ReplaceAll(want.Message, "/upstream/", "/ours/"), " preemption:")
	got.Message, _, _ = strings.Cut(got.Message, " preemption:")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
	theirs, calls := server.calls("upstream"), server.calls("ours")
	if c.rescored() {
		// Which node is bound may differ then.
		theirs, calls = withoutBinds(theirs), withoutBinds(calls)
	} else if want.Node != "" {
		for i := range calls {
			calls[i] = strings.Replace(calls[i], fmt.Sprintf(`"Node":%q`, chosen), fmt.Sprintf(`"Node":%q`, want.Node), 1)
		}
	}
	if diff := cmp.Diff(theirs, calls); diff != "" {
		t.Errorf("seed %d: calls of upstream (-) and ours (+) differ:\n%s\nfor %s", seed, diff, c)
	}
	want.count(c, len(theirs), seen)
}

func withoutBinds(calls []string) []string {
	return slices.DeleteFunc(calls, func(call string) bool { return strings.Contains(call, "/bind ") })
}

func (v attemptResult) count(c *extendedCase, calls int, seen map[string]int) {
	switch {
	case v.Failed:
		seen["failed"]++
	case v.Node == "":
		seen["unplaceable"]++
	default:
		seen["placed"]++
	}
	if v.Binder {
		seen["bound by the extender"]++
	}
	if c.pod.Status.NominatedNodeName != "" {
		seen["nominated"]++
	}
	if calls == 0 {
		seen["not asked"]++
	}
}

// rescored reports whether upstream and we score differently: upstream scores nodes that a filter returned in full as
// if they had no pods (it builds new NodeInfos from the answer), and we score them as they are.
func (c *extendedCase) rescored() bool {
	return slices.ContainsFunc(c.extenders, func(e configv1.Extender) bool {
		return e.FilterVerb != "" && !e.NodeCacheCapable
	})
}

// alignNode is upstream's node in place of ours if upstream draws it as one of the best, or scores otherwise.
func (c *extendedCase) alignNode(theirs, ours string, tied []string, seen map[string]int) string {
	switch {
	case theirs == "" || theirs == ours:
		return ours
	case slices.Contains(tied, theirs):
		return theirs
	case c.rescored() && ours != "":
		seen[rescoredCase]++
		return theirs
	default:
		return ours
	}
}

func (c *extendedCase) String() string {
	text, err := json.MarshalIndent(map[string]any{
		"extenders": c.extenders, "pod": c.pod, "nodes": c.nodes, "standing": c.existing, "waiting": c.waiting,
		"others": c.otherObjects(),
	}, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// otherObjects are the objects that are neither nodes nor pods.
func (c *extendedCase) otherObjects() (list []runtime.Object) {
	for _, o := range c.others {
		list = append(list, o.object)
	}
	return list
}

func newExtendedCase(rng *rand.Rand) *extendedCase {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	c := &extendedCase{}
	for i := range 1 + rng.IntN(6) {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprintf("uid-n%d", i)), ResourceVersion: fmt.Sprint(10 + i),
				Annotations: map[string]string{"gpu.example.com/model": fmt.Sprint("m", rng.IntN(3))},
			},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods: resource.MustParse("110"),
			}},
		}
		if chance(40) {
			n.Status.Allocatable[gpu] = resource.MustParse("2")
		}
		n.Spec.Unschedulable = chance(10)
		n.Status.Capacity = n.Status.Allocatable
		c.nodes = append(c.nodes, n)
		for j := range rng.IntN(3) {
			p := extendedPod(fmt.Sprintf("s%d-%d", i, j), fmt.Sprintf("%d", 1+rng.IntN(2)))
			p.Spec.NodeName = n.Name
			c.existing = append(c.existing, p)
		}
	}
	c.pod = extendedPod("p", fmt.Sprintf("%dm", 500*(1+rng.IntN(5))))
	c.pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODEL", Value: fmt.Sprint("m", rng.IntN(3))}}
	c.pod.Annotations = map[string]string{"gpu.example.com/share": "2"}
	never := corev1.PreemptNever
	c.pod.Spec.PreemptionPolicy = &never
	if chance(50) {
		c.pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("1")}
		c.pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
	}
	if chance(25) {
		c.pod.Status.NominatedNodeName = c.nodes[rng.IntN(len(c.nodes))].Name
	}
	binds, manages := false, false
	for i := range 1 + rng.IntN(3) {
		e := configv1.Extender{URLPrefix: fmt.Sprint("e", i), NodeCacheCapable: chance(70), Ignorable: chance(30)}
		if chance(70) {
			e.FilterVerb = "filter"
		}
		if chance(50) {
			e.PrioritizeVerb, e.Weight = "prioritize", int64(1+rng.IntN(3))
		}
		if !binds && chance(40) {
			e.BindVerb, binds = "bind", true
		}
		if !manages && chance(40) {
			manages = true
			e.ManagedResources = []configv1.ExtenderManagedResource{{Name: gpu, IgnoredByScheduler: chance(50)}}
		}
		c.extenders = append(c.extenders, e)
	}
	return c
}

func extendedPod(name, cpu string) *corev1.Pod {
	priority := int32(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "5",
			Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, Priority: &priority,
			Containers: []corev1.Container{{
				Name: "c", Image: "example.com/image",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu),
				}},
			}},
		},
	}
}

// extenderServer answers as a function of seed, extender and node, and notes the requests of each side.
type extenderServer struct {
	*httptest.Server
	seed uint64
	// podsByNode are the pods of each node by UID, the most important first, for those that are asked about victims.
	podsByNode map[string][]string
	mu         struct {
		sync.Mutex
		calls map[string][]string
		// shrunk are the nodes on which fewer pods were named as victims than have to go.
		shrunk map[string]bool
	}
}

func newExtenderServer(t *testing.T, seed uint64) *extenderServer {
	s := &extenderServer{seed: seed}
	s.mu.calls, s.mu.shrunk = map[string][]string{}, map[string]bool{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.serve(w, r); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// addressed gives extenders their addresses, which differ by side.
func (s *extenderServer) addressed(list []configv1.Extender, who string) []configv1.Extender {
	list = slices.Clone(list)
	for i := range list {
		list[i].URLPrefix = s.URL + "/" + who + "/" + list[i].URLPrefix
	}
	return list
}

// calls are those of one side. Filters come in their order, the rest sorted.
func (s *extenderServer) calls(who string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var filters, others []string
	for _, call := range s.mu.calls[who] {
		if strings.Contains(call, "/filter ") {
			filters = append(filters, call)
		} else {
			others = append(others, call)
		}
	}
	slices.Sort(others)
	return slices.Concat(filters, others)
}

// draw is a number below n that is the same for both sides.
func (s *extenderServer) draw(n uint64, about ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.seed, about)
	return h.Sum64() % n
}

func (s *extenderServer) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(path) != 3 {
		return fmt.Errorf("call of %s", r.URL.Path)
	}
	who, name, verb := path[0], path[1], path[2]
	if verb == preemptVerb {
		return s.servePreempt(w, who, name, body)
	}
	var args extenderv1.ExtenderArgs
	if err := json.Unmarshal(body, &args); err != nil {
		return err
	}
	ordered, err := inOrder(body, verb, &args)
	if err != nil {
		return err
	}
	s.mu.Lock()
	call := fmt.Sprintf("%s /%s/%s %s", r.Header.Get("Content-Type"), name, verb, ordered)
	s.mu.calls[who] = append(s.mu.calls[who], call)
	s.mu.Unlock()
	var answer any
	switch verb {
	case "filter":
		if s.draw(8, name, verb) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}
		answer = s.filter(name, args)
	case "prioritize":
		if s.draw(8, name, verb) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}
		answer = s.prioritize(name, args)
	case "bind":
		answer = extenderv1.ExtenderBindingResult{}
	default:
		return errors.New("verb " + verb)
	}
	return json.NewEncoder(w).Encode(answer)
}

// inOrder is a question with its nodes sorted: upstream's come in the order in which filters end.
func inOrder(body []byte, verb string, args *extenderv1.ExtenderArgs) (string, error) {
	if verb == "bind" {
		return string(body), nil
	}
	if args.NodeNames != nil {
		slices.Sort(*args.NodeNames)
	}
	if args.Nodes != nil {
		slices.SortFunc(args.Nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	text, err := json.Marshal(args)
	return string(text), err
}

func (s *extenderServer) filter(name string, args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	r := extenderv1.ExtenderFilterResult{
		FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	left := []string{}
	var kept corev1.NodeList
	for _, node := range nodesOf(args) {
		switch s.draw(8, name, "verdict", node.Name) {
		case 0:
			r.FailedNodes[node.Name] = "no room for it"
		case 1:
			r.FailedAndUnresolvableNodes[node.Name] = "never " + node.Name
		case 2:
			r.FailedNodes[node.Name], r.FailedAndUnresolvableNodes[node.Name] = "a", "b"
		case 3: // an empty answer
		default:
			left = append(left, node.Name)
			kept.Items = append(kept.Items, node)
		}
	}
	if args.NodeNames != nil {
		r.NodeNames = &left
	} else {
		r.Nodes = &kept
	}
	if s.draw(12, name, "error") == 0 {
		r.Error = "the extender is out of luck"
	}
	return r
}

func (s *extenderServer) prioritize(name string, args extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	list := extenderv1.HostPriorityList{{Host: "stranger", Score: 7}}
	for _, node := range nodesOf(args) {
		list = append(list, extenderv1.HostPriority{Host: node.Name, Score: int64(s.draw(11, name, "score", node.Name))})
	}
	return list
}

func nodesOf(args extenderv1.ExtenderArgs) []corev1.Node {
	var list []corev1.Node
	if args.NodeNames != nil {
		for _, name := range *args.NodeNames {
			list = append(list, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	if args.Nodes != nil {
		list = append(list, args.Nodes.Items...)
	}
	return list
}

// extendedProfile is the default profile with extenders, and with the resources that they manage left to them.
func extendedProfile(extenders []configv1.Extender) placement.ProfileConfig {
	p := placement.DefaultProfile(corev1.DefaultSchedulerName)
	p.Extenders, p.Preemption = extenders, upstreamPreemption
	for _, e := range extenders {
		for _, m := range e.ManagedResources {
			if m.IgnoredByScheduler {
				i := slices.IndexFunc(p.Plugins, func(c placement.PluginConfig) bool {
					return c.Name == names.NodeResourcesFit
				})
				p.Plugins[i].Args = &configv1.NodeResourcesFitArgs{IgnoredResources: []string{m.Name}}
			}
		}
	}
	return p
}
