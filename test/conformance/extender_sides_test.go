package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	toolsevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamscheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	runtimeregistry "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	shardcore "github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// upstreamPatience bounds upstream's binding goroutine.
const upstreamPatience = 20 * time.Second

// upstream runs upstream's scheduler for one pod, from the queue to the bind.
func (c *extendedCase) upstream(ctx context.Context, extenders []configv1.Extender) (attemptResult, error) {
	return c.upstreamWith(ctx, configv1.KubeSchedulerConfiguration{Extenders: extenders}, nil, nil)
}

// activator notes the pods that are put into the scheduling queue at once.
type activator struct {
	queue.SchedulingQueue
	note func(names ...string)
}

// Activate implements framework.PodActivator.
func (a activator) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		a.note(pod.Name)
	}
}

func noteActivated(sched *upstreamscheduler.Scheduler, note func(names ...string)) {
	recorded := activator{sched.SchedulingQueue, note}
	sched.SchedulingQueue = recorded
	for _, profile := range sched.Profiles {
		profile.SetPodActivator(recorded)
	}
}

// upstreamWith does so with a configuration, and with plugins that are none of its own. Those have informers of the
// nodes, and the pods that they want activated are noted.
func (c *extendedCase) upstreamWith(
	ctx context.Context, given configv1.KubeSchedulerConfiguration, plugins runtimeregistry.Registry,
	activated func(names ...string),
) (attemptResult, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer cancel()
	scheme.Scheme.Default(&given)
	var internal config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&given, &internal, nil); err != nil {
		return attemptResult{}, err
	}
	results := make(chan attemptResult, 1)
	client := c.client(plugins != nil)
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() == "binding" {
			b := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
			results <- attemptResult{Node: b.Target.Name}
			return true, b, nil
		}
		return false, nil, nil
	})
	recorder := toolsevents.NewFakeRecorder(1)
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := c.list(factory); err != nil {
		return attemptResult{}, err
	}
	sched, err := upstreamscheduler.New(ctx, client, factory, nil,
		func(string) toolsevents.EventRecorderLogger { return recorder },
		upstreamscheduler.WithProfiles(internal.Profiles...), upstreamscheduler.WithExtenders(internal.Extenders...),
		upstreamscheduler.WithFrameworkOutOfTreeRegistry(plugins),
		upstreamscheduler.WithPercentageOfNodesToScore(ptr(int32(100))))
	if err != nil {
		return attemptResult{}, err
	}
	if plugins != nil {
		noteActivated(sched, activated)
		nodes := factory.Core().V1().Nodes().Informer()
		go nodes.Run(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) {
			return attemptResult{}, ctx.Err()
		}
	}
	if err := c.fill(ctx, sched); err != nil {
		return attemptResult{}, err
	}
	sched.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := framework.NewPodInfo(c.pod.DeepCopy())
		return &framework.QueuedPodInfo{PodInfo: info}, err
	}
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, _ time.Time) {
		results <- c.fieldAfter(attemptResultOf(status, nominating), nominating)
	}
	sched.ScheduleOne(ctx)
	select {
	case v := <-results:
		return v, nil
	case event := <-recorder.Events: // the only one there is: of a bind
		select {
		case v := <-results:
			return v, nil
		default: // an extender has made it
			return attemptResult{Node: event[strings.LastIndex(event, " ")+1:], Binder: true}, nil
		}
	case <-time.After(upstreamPatience):
		return attemptResult{}, errors.New("nothing has come of it")
	}
}

// list has upstream's listers know the pods that wait: preemption and the nominator look them up.
func (c *extendedCase) list(factory informers.SharedInformerFactory) error {
	for _, p := range append([]*corev1.Pod{c.pod}, c.waiting...) {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			return err
		}
	}
	return nil
}

// fieldAfter adds the pod's nominatedNodeName after an attempt without a node.
func (c *extendedCase) fieldAfter(v attemptResult, nominating *fwk.NominatingInfo) attemptResult {
	if v.Field = c.pod.Status.NominatedNodeName; nominating.Mode() == fwk.ModeOverride {
		v.Field = nominating.NominatedNodeName
	}
	return v
}

// fill has upstream's scheduler know the cluster. The queue notes the nominations of the pods that it gets.
func (c *extendedCase) fill(ctx context.Context, sched *upstreamscheduler.Scheduler) error {
	for _, p := range c.waiting {
		sched.SchedulingQueue.Add(ctx, p.DeepCopy())
	}
	for _, n := range c.nodes {
		sched.Cache.AddNode(klog.Logger{}, n.DeepCopy())
	}
	for _, p := range c.existing {
		if err := sched.Cache.AddPod(klog.Logger{}, p.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}

// client is of an API server that has the pod, and the nodes if asked for.
func (c *extendedCase) client(withNodes bool) *fake.Clientset {
	objects := []runtime.Object{c.pod.DeepCopy()}
	if withNodes {
		for _, n := range c.nodes {
			objects = append(objects, n.DeepCopy())
		}
	}
	return fake.NewClientset(objects...)
}

func ptr[T any](v T) *T { return &v }

func attemptResultOf(status *fwk.Status, nominating *fwk.NominatingInfo) attemptResult {
	v := attemptResult{Message: status.AsError().Error(), Failed: !status.IsRejected()}
	if nominating != nil && nominating.Mode() == fwk.ModeOverride {
		v.Nominated = nominating.NominatedNodeName
	}
	// What DynamicResources adds at PostFilter for every pod, also one without claims.
	v.Message = strings.Replace(v.Message, " no new claims to deallocate,", "", 1)
	var fit *framework.FitError
	if errors.As(status.AsError(), &fit) {
		for name := range fit.Diagnosis.UnschedulablePlugins {
			v.Plugins = append(v.Plugins, name)
		}
	}
	return v.sorted()
}

// ours runs a shard's core for one pod, with real clients of the extenders; about answers questions about victims.
// tied are the nodes that are as good as the chosen one.
func (c *extendedCase) ours(
	t *testing.T, extenders []configv1.Extender, about func(step.Consult) step.Advice,
) (v attemptResult, tied []string, err error) {
	cfg := extendedProfile(extenders)
	profile, err := placement.NewProfile(cfg)
	if err != nil {
		return v, nil, err
	}
	set, err := extender.NewSet(extenders, slog.New(slog.DiscardHandler))
	if err != nil {
		return v, nil, err
	}
	defer set.Close()
	d := newShardDriver(t.Context(), profile, func(q step.Consult) step.Advice {
		if len(q.Candidates) > 0 {
			return about(q)
		}
		opinions, err := set.Consult(t.Context(), q.Pod, q.Nodes)
		return step.Advice{ID: q.ID, Opinions: opinions, Err: err}
	}, nil)
	if v, err = d.attempt(c); err != nil || v.Node == "" {
		return v, nil, err
	}
	pod := state.NewPod(c.pod)
	if v.Binder = set.BindsPod(pod); v.Binder {
		if asked, err := set.Bind(t.Context(), pod, v.Node); err != nil || !asked {
			return v, nil, fmt.Errorf("bind: asked %v, %w", asked, err)
		}
	}
	return v, d.tied(profile, pod, c, nil, v.Node), nil
}

// shardDriver does the work around a shard's core.
type shardDriver struct {
	ctx      context.Context
	store    *mem.Store
	folder   *feed.Folder
	core     *shardcore.Core
	advise   func(step.Consult) step.Advice
	perform  func(step.PluginRequest) step.PluginResult
	out      step.Output
	decided  []events.Decision
	opinions map[string]placement.Opinion
}

// newShardDriver drives a shard with one profile; perform is nil for one without plugins that act.
func newShardDriver(
	ctx context.Context, profile *placement.Profile, advise func(step.Consult) step.Advice,
	perform func(step.PluginRequest) step.PluginResult,
) *shardDriver {
	return &shardDriver{
		folder: feed.NewFolder(),
		ctx:    ctx, store: mem.New(), advise: advise, perform: perform,
		core: shardcore.New(shardcore.Config{
			Shard: "s", Window: 1, Profiles: map[string]*placement.Profile{profile.SchedulerName(): profile},
			Acts:        map[string]bool{profile.SchedulerName(): perform != nil},
			PostFilters: map[string]bool{profile.SchedulerName(): perform != nil},
			Home:        func([]string, string) bool { return true },
		}),
	}
}

// attempt is the outcome for the pod of a case.
func (d *shardDriver) attempt(c *extendedCase) (attemptResult, error) {
	if err := d.start(c); err != nil {
		return attemptResult{}, err
	}
	decision, err := d.decide()
	if err != nil {
		return attemptResult{}, err
	}
	if decision.Kind == events.DecisionPlaced {
		return attemptResult{Node: decision.NodeName}, nil
	}
	v := attemptResult{
		Message: decision.Message, Plugins: decision.Plugins, Failed: decision.Kind == events.DecisionFailed,
	}
	if decision.Kind == events.DecisionUnplaceable || decision.Kind == events.DecisionNominated {
		v.Nominated = decision.NodeName
	}
	if v.Field = c.pod.Status.NominatedNodeName; v.Nominated != "" || v.Field == decision.StaleNomination {
		v.Field = v.Nominated
	}
	return v.sorted(), nil
}

func (d *shardDriver) step(in step.Input) error {
	d.out = d.core.Step(in, time.Unix(1_000_000, 0))
	d.decided = append(d.decided, d.out.Decisions...)
	return d.out.Fatal
}

// start gives the shard the cluster's facts and all partitions, and offers it the pod.
func (d *shardDriver) start(c *extendedCase) error {
	session, err := d.store.OpenSession(d.ctx, time.Minute)
	if err != nil {
		return err
	}
	partition := ledger.PartitionOf(string(c.pod.UID))
	if c.pod.Spec.SchedulingGroup != nil {
		partition = ledger.PartitionOf(state.NewPod(c.pod.DeepCopy()).Group())
	}
	txn, err := roster.TakePartition(partition, roster.Owner{Member: "s"}, session.Lease())
	if err != nil {
		return err
	}
	res, err := d.store.Commit(d.ctx, txn)
	if err != nil {
		return err
	}
	owned := ledger.EventBatch{Revision: res.Revision}
	for _, kv := range txn.Committed(res) {
		owned.Events = append(owned.Events, ledger.Event{KV: kv})
	}
	facts, err := c.facts()
	if err != nil {
		return err
	}
	steps, err := d.folder.FoldAll(follow.Batch{Reset: true}, follow.Batch{Facts: facts})
	if err != nil {
		return err
	}
	return d.step(step.Input{
		Ledger: []replica.Batch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}, {Events: owned}},
		Facts:  steps,
		Offers: []work.OfferBatch{{Term: 1, Offers: []work.Offer{{
			Pod:       events.PodRef{UID: string(c.pod.UID), Namespace: c.pod.Namespace, Name: c.pod.Name},
			Partition: partition, Token: ledger.Token(7).String(), Attempt: 1, FactSequence: uint64(len(facts)),
		}}}},
	})
}

// decide answers the core's questions until it has made its decision.
func (d *shardDriver) decide() (events.Decision, error) {
	for range 20 {
		if len(d.decided) > 0 {
			return d.decided[0], nil
		}
		var in step.Input
		for _, q := range d.out.Consults {
			advice := d.advise(q)
			d.opinions = advice.Opinions
			in.Advice = append(in.Advice, advice)
		}
		for _, p := range d.out.Performs {
			in.Performed = append(in.Performed, d.perform(p))
		}
		if d.out.Commit != nil {
			res, err := d.store.Commit(d.ctx, d.out.Commit.Txn)
			if err != nil {
				return events.Decision{}, err
			}
			in.Results = []step.Result{{ID: d.out.Commit.ID, Txn: res}}
		}
		if err := d.step(in); err != nil {
			return events.Decision{}, err
		}
	}
	return events.Decision{}, fmt.Errorf("no decision: %+v", d.out)
}

// bind lets the core see the pod bound, and performs the effects that it then requests.
func (d *shardDriver) bind(c *extendedCase, node string) error {
	pod := c.pod.DeepCopy()
	pod.Spec.NodeName, pod.ResourceVersion = node, "1000000" // later than all there are
	strip.KeepSpec(pod)
	raw, err := pod.Marshal()
	if err != nil {
		return err
	}
	const later = 1_000_000
	sequence := uint64(len(c.nodes) + len(c.existing) + len(c.waiting) + 2)
	fact := events.SequencedFact{Sequence: sequence, Fact: events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		ResourceVersion: later, Progress: later, Object: raw,
	}}
	steps, err := d.folder.FoldAll(follow.Batch{Facts: []events.SequencedFact{fact}})
	if err != nil {
		return err
	}
	err = d.step(step.Input{Facts: steps})
	for _, p := range d.out.Performs {
		d.perform(p)
	}
	return err
}

// tied are the nodes with the same score as the chosen one.
func (d *shardDriver) tied(
	profile *placement.Profile, pod *state.Pod, c *extendedCase, guidance *placement.Guidance, chosen string,
) []string {
	in := placement.Input{Pod: pod, Nodes: c.nodeInfos(), Limit: -1, Opinions: d.opinions, Guidance: guidance}
	r := profile.Evaluate(in)
	var best int64
	for _, s := range r.Feasible {
		if s.Node.Node.Name == chosen {
			best = s.Total
		}
	}
	var tied []string
	for _, s := range r.Feasible {
		if s.Total == best {
			tied = append(tied, s.Node.Node.Name)
		}
	}
	return tied
}

// facts are the objects of a case, those besides nodes and pods first, as the queue would publish them.
func (c *extendedCase) facts() ([]events.SequencedFact, error) {
	var facts []events.SequencedFact
	apply := func(k events.Kind, obj state.APIObject) error {
		strip.KeepSpec(obj)
		raw, err := obj.Marshal()
		sequence := uint64(len(facts) + 1)
		facts = append(facts, events.SequencedFact{Sequence: sequence, Fact: events.Fact{
			Kind: k, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
			ResourceVersion: sequence, Progress: sequence, Object: raw,
		}})
		return err
	}
	for _, o := range c.others {
		if copied, ok := o.object.DeepCopyObject().(state.APIObject); ok {
			if err := apply(o.kind, copied); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range c.nodes {
		if err := apply(events.KindNode, n.DeepCopy()); err != nil {
			return nil, err
		}
	}
	for _, p := range append(slices.Concat(c.existing, c.waiting), c.pod) {
		if err := apply(events.KindPod, p.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if len(c.others) > 0 { // the API server serves claims, even if there is none
		sequence := uint64(len(facts) + 1)
		facts = append(facts, events.SequencedFact{Sequence: sequence, Fact: events.Fact{
			Kind: events.KindResourceClaim, Op: events.OpProgress, Progress: sequence,
		}})
	}
	return facts, nil
}

// nodeInfos are the nodes with their pods.
func (c *extendedCase) nodeInfos() []*state.NodeInfo {
	var list []*state.NodeInfo
	for _, n := range c.nodes {
		info := state.NewNodeInfo(state.NewNode(n.DeepCopy()))
		for _, p := range c.existing {
			if p.Spec.NodeName == n.Name {
				info.AddPod(state.NewPod(p))
			}
		}
		list = append(list, info)
	}
	return list
}

func (v attemptResult) sorted() attemptResult {
	slices.Sort(v.Plugins)
	return v
}
