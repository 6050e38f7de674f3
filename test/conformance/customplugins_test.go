package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// The plugins below are written as for kube-scheduler, and know of no other scheduler. They note their calls and
// arguments.

// pluginLog holds the notes of plugins, for the side that runs them.
type pluginLog struct {
	mu    sync.Mutex
	lines []string
	// handle is the handle that a plugin was made with.
	handle fwk.Handle
}

// activated notes pods that must be tried at once.
func (d *pluginLog) activated(names ...string) {
	for _, name := range names {
		d.note("activated %s", name)
	}
}

func (d *pluginLog) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// sorted are the notes; plugins are asked about several nodes at once, in any order.
func (d *pluginLog) sorted() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.lines))
}

// has reports whether anything was noted of a point.
func (d *pluginLog) has(point string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.lines, func(line string) bool { return strings.HasPrefix(line, point) })
}

// await waits until a note of a point exists: after a bind upstream continues in a goroutine of its own.
func (d *pluginLog) await(point string) {
	for until := time.Now().Add(upstreamPatience); !d.has(point) && time.Now().Before(until); {
		goruntime.Gosched()
	}
}

// describeNode is everything that a plugin can see of a node.
func describeNode(n fwk.NodeInfo) string {
	var pods []string
	for _, p := range n.GetPods() {
		r := p.CalculateResource()
		pods = append(pods, fmt.Sprint(p.GetPod().Name, "@", p.GetPod().Spec.NodeName, " ", r.Resource.GetMilliCPU(), " ",
			r.Non0Mem, " ", len(p.GetRequiredAntiAffinityTerms())))
	}
	slices.Sort(pods)
	amounts := func(r fwk.Resource) string {
		return fmt.Sprint(r.GetMilliCPU(), " ", r.GetMemory(), " ", r.GetEphemeralStorage(), " ", r.GetAllowedPodNumber(),
			" ", len(r.GetScalarResources()), " ", r.GetScalarResources()[gpu])
	}
	return fmt.Sprint(n.Node().Name, " ", n.Node().Labels, " ", pods, " ", amounts(n.GetRequested()), "/",
		amounts(n.GetAllocatable()), " ", n.GetNonZeroRequested().GetMilliCPU(), " ", n.GetNonZeroRequested().GetMemory(),
		" ", len(n.GetPodsWithAffinity()), " ", len(n.GetPodsWithRequiredAntiAffinity()), " ", n.GetUsedPorts(),
		" ", n.GetPVCRefCounts())
}

// racks allows a limited number of pods of an app in one rack: annotation "rack-limit" is the limit, and "racks"
// lists the only racks allowed.
type racks struct {
	*pluginLog
	handle fwk.Handle
}

const racksName = "Racks"

var (
	_ fwk.PreFilterPlugin   = &racks{}
	_ fwk.FilterPlugin      = &racks{}
	_ fwk.EnqueueExtensions = &racks{}
)

func newRacks(d *pluginLog) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if args != nil {
			return nil, fmt.Errorf("args of type %T, want none", args)
		}
		return &racks{pluginLog: d, handle: h}, nil
	}
}

// rackCount is racks' cycle state.
type rackCount struct {
	limit  int
	byRack map[string]int
}

func (c *rackCount) Clone() fwk.StateData { return c }

func (r *racks) Name() string { return racksName }

func (r *racks) PreFilter(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	var seen []string
	for _, n := range nodes {
		seen = append(seen, describeNode(n))
	}
	slices.Sort(seen)
	r.note("PreFilter %s %v of %s", pod.Name, seen, r.handle.ProfileName())
	text, limited := pod.Annotations["rack-limit"]
	if !limited {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	limit, err := strconv.Atoi(text)
	switch {
	case text == "broken":
		return nil, fwk.AsStatus(errors.New("the racks are not known"))
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "rack-limit is no number", "it is "+text)
	case limit == 0:
		return nil, fwk.NewStatus(fwk.Unschedulable, "no rack has room for none")
	}
	count := &rackCount{limit: limit, byRack: map[string]int{}}
	all, err := r.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, n := range all {
		count.byRack[n.Node().Labels["rack"]] += len(n.GetPods())
	}
	state.Write(racksName, count)
	only, narrowed := pod.Annotations["racks"]
	if !narrowed {
		return nil, nil
	}
	names := sets.New[string]()
	for _, n := range all {
		if n.Node().Labels["rack"] == only {
			names.Insert(n.Node().Name)
		}
	}
	return &fwk.PreFilterResult{NodeNames: names}, nil
}

func (r *racks) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (r *racks) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, n fwk.NodeInfo) *fwk.Status {
	r.note("Filter %s %s", pod.Name, describeNode(n))
	data, err := state.Read(racksName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	count := data.(*rackCount)
	rack, ok := n.Node().Labels["rack"]
	switch {
	case !ok:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) in no rack", "node(s) on the floor")
	case rack == "haunted":
		return fwk.AsStatus(errors.New("nobody goes there"))
	case count.byRack[rack] >= count.limit:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) in a full rack")
	}
	return nil
}

func (r *racks) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil },
	}}, nil
}

// prices prefers cheap nodes: the annotation "price" of the node according to its informer, and the requests on it.
// Its arguments are the price of nodes without, and how many points the cheapest gets.
type prices struct {
	*pluginLog
	nodes              corelisters.NodeLister
	defaultPrice, best int64
}

const pricesName = "Prices"

var (
	_ fwk.PreScorePlugin  = &prices{}
	_ fwk.ScorePlugin     = &prices{}
	_ fwk.ScoreExtensions = &prices{}
)

func newPrices(d *pluginLog) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		raw, ok := args.(*runtime.Unknown)
		if !ok {
			return nil, fmt.Errorf("args of type %T, want *runtime.Unknown", args)
		}
		var given struct {
			DefaultPrice int64 `json:"defaultPrice"`
			Best         int64 `json:"best"`
		}
		if err := json.Unmarshal(raw.Raw, &given); err != nil {
			return nil, err
		}
		lister := h.SharedInformerFactory().Core().V1().Nodes().Lister()
		return &prices{pluginLog: d, nodes: lister, defaultPrice: given.DefaultPrice, best: given.Best}, nil
	}
}

func (p *prices) Name() string { return pricesName }

func (p *prices) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node().Name)
	}
	slices.Sort(names)
	p.note("PreScore %s %v", pod.Name, names)
	switch pod.Annotations["money"] {
	case "none":
		return fwk.NewStatus(fwk.Skip)
	case "lost":
		return fwk.AsStatus(errors.New("the purse is gone"))
	}
	return nil
}

func (p *prices) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, n fwk.NodeInfo) (int64, *fwk.Status) {
	node, err := p.nodes.Get(n.Node().Name)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	price := p.defaultPrice
	if text, ok := node.Annotations["price"]; ok {
		if price, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, fwk.AsStatus(err)
		}
	}
	price += n.GetRequested().GetMilliCPU() / 100
	p.note("Score %s %s %d", pod.Name, node.Name, price)
	return price, nil
}

func (p *prices) ScoreExtensions() fwk.ScoreExtensions { return p }

func (p *prices) NormalizeScore(
	_ context.Context, _ fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList,
) *fwk.Status {
	var highest int64
	for _, s := range scores {
		highest = max(highest, s.Score)
	}
	var lines []string
	for i := range scores {
		if pod.Annotations["money"] != "all" && highest > 0 { // "all": scores out of range
			scores[i].Score = p.best - p.best*scores[i].Score/highest
		}
		lines = append(lines, fmt.Sprintf("%s:%d", scores[i].Name, scores[i].Score))
	}
	slices.Sort(lines)
	p.note("Normalize %s %s", pod.Name, strings.Join(lines, " "))
	return nil
}

// tickets gives each pod a number, and writes it on the pod before it is bound. What else it does the annotation of its
// name says. There are two of it.
type tickets struct {
	*pluginLog
	name   string
	handle fwk.Handle
	mu     sync.Mutex
	// given is the last number, out how many pods have one and are not bound.
	given, out int
}

const ticketsName, stampsName = "Tickets", "Stamps"

var (
	_ fwk.ReservePlugin  = &tickets{}
	_ fwk.PermitPlugin   = &tickets{}
	_ fwk.PreBindPlugin  = &tickets{}
	_ fwk.BindPlugin     = &tickets{}
	_ fwk.PostBindPlugin = &tickets{}

	_ fwk.PostFilterPlugin = &tickets{}
)

func newTickets(d *pluginLog, name string) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		d.handle = h
		return &tickets{pluginLog: d, name: name, handle: h}, nil
	}
}

// ticket is the number of a pod, in its cycle.
type ticket int

func (t ticket) Clone() fwk.StateData { return t }

func (t *tickets) Name() string { return t.name }

// at notes a point and the state known there; says is the pod's wish for this point.
func (t *tickets) at(point string, state fwk.CycleState, pod *corev1.Pod, node string) (says string) {
	number, err := state.Read(fwk.StateKey(t.name))
	_, counted := state.Read(racksName)
	t.note("%s %s %s %v %v, racks %v, on its node %v, %d out", point, t.name, pod.Name, number, err, counted,
		pod.Spec.NodeName == node, t.out)
	return pod.Annotations[t.name]
}

// toActivate leaves a pod in the cycle state that must be tried when this pod has reached the named point.
func (t *tickets) toActivate(state fwk.CycleState, when string) {
	data, err := state.Read(framework.PodsToActivateKey)
	if err != nil {
		t.note("no pods to activate: %v", err)
		return
	}
	pods := data.(*framework.PodsToActivate)
	pods.Lock()
	defer pods.Unlock()
	pods.Map[when+t.name] = podNamed(when + "-" + t.name)
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: name}}
}

func (t *tickets) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.at("Reserve", state, pod, node) {
	case "no reserve":
		return fwk.NewStatus(fwk.Unschedulable, "sold out", "of tickets")
	case "broken reserve":
		return fwk.AsStatus(errors.New("the printer is broken"))
	}
	t.toActivate(state, "reserved")
	t.given++
	t.out++
	state.Write(fwk.StateKey(t.name), ticket(t.given))
	return nil
}

func (t *tickets) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at("Unreserve", state, pod, node)
	if _, err := state.Read(fwk.StateKey(t.name)); err == nil {
		t.out--
		state.Delete(fwk.StateKey(t.name))
		t.handle.Activate(klog.Logger{}, map[string]*corev1.Pod{"any": podNamed("unreserved-" + t.name)})
	}
}

func (t *tickets) Permit(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string,
) (*fwk.Status, time.Duration) {
	switch t.at("Permit", state, pod, node) {
	case "no permit":
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not today"), 0
	case "broken permit":
		return fwk.AsStatus(errors.New("nobody at the counter")), 0
	case "late":
		// Long enough for the plugin that decides at PreBindPreFlight, and different for the two.
		return fwk.NewStatus(fwk.Wait), time.Duration(len(t.name)) * 5 * time.Millisecond
	case "allowed", "rejected":
		return fwk.NewStatus(fwk.Wait), time.Minute
	}
	return nil, 0
}

// PreBindPreFlight decides about pods that wait, as it comes after Permit of all plugins.
func (t *tickets) PreBindPreFlight(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	t.toActivate(state, "flight")
	waiting := t.handle.GetWaitingPod(pod.UID)
	switch says := t.at("PreBindPreFlight", state, pod, node); {
	case says == "broken flight":
		return nil, fwk.AsStatus(errors.New("no plane"))
	case says == "skip":
		return nil, fwk.NewStatus(fwk.Skip)
	case says == "allowed" && waiting != nil:
		waiting.Allow(t.name)
	case says == "rejected" && waiting != nil:
		waiting.Reject(t.name, "changed their mind")
	}
	return nil, nil
}

func (t *tickets) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if t.at("PreBind", state, pod, node) == "broken bind" {
		return fwk.AsStatus(errors.New("no ink"))
	}
	number, err := state.Read(fwk.StateKey(t.name))
	if err != nil {
		return fwk.AsStatus(err)
	}
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"number-%s": "%d"}}}`, t.name, number)
	got, err := t.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		return fwk.AsStatus(err)
	}
	t.note("written %s %q %q", pod.Name, got.Annotations["number-"+ticketsName], got.Annotations["number-"+stampsName])
	return nil
}

// PostFilter notes its arguments, and helps few pods.
func (t *tickets) PostFilter(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, verdicts fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	all, err := t.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, n := range all {
		v := verdicts.Get(n.Node().Name)
		reasons := strings.Split(v.Message(), ", ") // a rejection of the pod on all nodes is one sentence
		slices.Sort(reasons)
		t.note("verdict %s %s: %v %v", t.name, n.Node().Name, v.Code(), reasons)
	}
	for _, code := range []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		nodes, err := verdicts.NodesForStatusCode(t.handle.SnapshotSharedLister().NodeInfos(), code)
		var names []string
		for _, n := range nodes {
			names = append(names, n.Node().Name)
		}
		slices.Sort(names)
		t.note("of code %v: %v %v", code, names, err)
	}
	result := &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{
		NominatedNodeName: "by-" + t.name, NominatingMode: fwk.ModeOverride,
	}}
	switch t.at("PostFilter", state, pod, "") {
	case "binds":
		return result, nil
	case "no reserve":
		return result, fwk.NewStatus(fwk.Unschedulable, "no other tickets", "of "+t.name)
	case "no permit":
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no tickets at all")
	case "broken permit":
		return nil, fwk.AsStatus(errors.New("nobody to help"))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Bind leaves most pods to others.
func (t *tickets) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	switch t.at("Bind", state, pod, node) {
	case "broken glue":
		return fwk.AsStatus(errors.New("no glue"))
	case "binds":
		return fwk.AsStatus(t.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{}))
	}
	return fwk.NewStatus(fwk.Skip)
}

func (t *tickets) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out--
	t.toActivate(state, "bound")
	t.at("PostBind", state, pod, node)
}
