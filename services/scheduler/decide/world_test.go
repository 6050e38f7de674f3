package decide_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// world is several shards, one ledger and one API server, stepped by hand in one goroutine. Every stream has a
// cursor per shard, so that any two can be out of step with each other.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	shards []*shard
	store  *mem.Store
	// history is the ledger's watch: one batch per committed transaction.
	history []ledger.EventBatch
	facts   []events.SequencedFact
	rv      uint64
	pods    map[string]*corev1.Pod
	nodes   map[string]int64 // pods that fit, by node name
	offered map[string]int32 // attempts by pod uid
	tokens  uint64
	// nodeObjects are the nodes by name.
	nodeObjects map[string]*corev1.Node
	*auditor
	// now is the time of all shards; it passes with every step.
	now time.Time
	// remadeWith, if not nil, is the profile with which remake makes decisions again, instead of that of newWorld.
	remadeWith *placement.ProfileConfig
	hooks
}

// hooks are hooks into the world; nil fields do nothing.
type hooks struct {
	// advise answers for extenders.
	advise func(step.Consult) step.Advice
	// perform answers for plugins that act; nil if none do.
	perform func(step.PluginRequest) step.PluginResult
	// ablate changes a transaction on its way to the ledger, to take a guard away.
	ablate func(ledger.Txn) ledger.Txn
	// takes is the maximum size of a transaction in bytes that the store accepts, 0 for no limit of its own.
	takes int
}

type shard struct {
	id             string
	core           *decide.Core
	facts          *feed.Folder
	fact, ledger   int
	commit         *step.Commit
	decisions      []events.Decision
	gangs          []step.Gang
	conflicts, won int
	offers         []work.Offer
	more           bool
	// turns are messages of other shards that it has not received yet; said are all messages that it has sent.
	turns, sentTurns []work.Turn
	lost             []events.Decision
	notices          []avoid.Notice
	asked
}

// fold returns the steps that a batch of facts leads to.
func (s *shard) fold(b follow.Batch) []feed.Step {
	step, err := s.facts.Fold(b)
	if err != nil {
		panic(err)
	}
	return []feed.Step{step}
}

// asked are the questions of a shard that plugins and extenders have not answered.
type asked struct {
	// consults are unanswered questions; performs are acts of plugins that have not been carried out.
	consults []step.Consult
	performs []step.PluginRequest
}

func newWorld(t testing.TB, seed uint64, shards int) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Preemption.MaxBlockers = placement.MaxBlockersLimit
	return newWorldOf(t, seed, shards, cfg)
}

func newWorldOf(t testing.TB, seed uint64, shards int, cfg placement.ProfileConfig) *world {
	return newWorldWith(t, seed, shards, cfg, func(*decide.Config) {})
}

// newWorldWith returns a world whose shards have settings of their own.
func newWorldWith(
	t testing.TB, seed uint64, shards int, cfg placement.ProfileConfig, set func(*decide.Config),
) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), store: mem.New(),
		pods: map[string]*corev1.Pod{}, nodes: map[string]int64{}, offered: map[string]int32{},
		nodeObjects: map[string]*corev1.Node{}, auditor: newAuditor(), now: time.Unix(1_000_000, 0),
	}
	members := make([]string, shards)
	for i := range members {
		members[i] = fmt.Sprintf("scheduler-%d", i)
	}
	profile, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range shards {
		s := &shard{id: members[i]}
		config := decide.Config{
			Shard: s.id, Window: 32,
			Profiles: map[string]*placement.Profile{corev1.DefaultSchedulerName: profile},
			Acts:     map[string]bool{corev1.DefaultSchedulerName: acts(cfg)},
			Gates:    map[string]bool{corev1.DefaultSchedulerName: acts(cfg)},
			Home:     func(_ []string, nodeUID string) bool { return membership.Home(members, nodeUID) == s.id },
		}
		set(&config)
		s.core, s.facts = decide.New(config), feed.NewFolder()
		w.step(s, step.Input{
			Ledger: []replica.Batch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}},
			Facts:  s.fold(follow.Batch{Reset: true}),
		})
		w.shards = append(w.shards, s)
	}
	session, err := w.store.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(ledger.Partitions) {
		txn, err := roster.TakePartition(p, roster.Owner{Member: w.ownerOf(p).id}, session.Lease())
		if err != nil {
			t.Fatal(err)
		}
		w.commit(txn)
	}
	return w
}

// acts reports whether a profile has a plugin at Reserve, which stands for all points after the choice of a node.
func acts(cfg placement.ProfileConfig) bool {
	return cfg.Custom != nil && len(cfg.Custom.Points[placement.AtReserve]) > 0
}

// ownerOf returns the shard that the ledger names as owner; before it names one, the designated first owner.
func (w *world) ownerOf(partition int32) *shard {
	kvs, _, err := w.store.List(context.Background(), roster.KeyOwn(partition))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(kvs) == 0 {
		return w.shards[int(partition)%len(w.shards)]
	}
	owner, err := roster.DecodeOwner(kvs[0].Value)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.shards[slices.IndexFunc(w.shards, func(s *shard) bool { return s.id == owner.Member })]
}

// commit runs a transaction and records the events that a watch would deliver.
func (w *world) commit(txn ledger.Txn) ledger.TxnResult {
	res, err := w.store.Commit(context.Background(), txn)
	if err != nil {
		w.t.Fatalf("commit: %v", err)
	}
	if !res.Succeeded {
		return res
	}
	batch := ledger.EventBatch{Revision: res.Revision}
	for _, kv := range txn.Committed(res) {
		batch.Events = append(batch.Events, ledger.Event{KV: kv})
	}
	for _, key := range txn.Deletes {
		batch.Events = append(batch.Events, ledger.Event{KV: ledger.KV{Key: key, ModRevision: res.Revision}, Deleted: true})
	}
	w.history = append(w.history, batch)
	w.committed(w, batch)
	return res
}

// checked returns an output, and its error if it is fatal.
func checked(out step.Output) (step.Output, error) { return out, out.Fatal }

func (w *world) step(s *shard, in step.Input) {
	w.now = w.now.Add(5 * time.Millisecond)
	out, err := checked(s.core.Step(in, w.now))
	if err != nil {
		w.t.Fatalf("%s: %v", s.id, err)
	}
	for _, other := range w.shards {
		if other != s {
			other.turns = append(other.turns, out.Turns...)
		}
	}
	s.sentTurns, s.notices = append(s.sentTurns, out.Turns...), append(s.notices, out.Notices...)
	if out.Commit != nil {
		if s.commit != nil && s.commit.ID != out.Commit.ID {
			w.t.Fatalf("%s: commit %d while %d is in flight", s.id, out.Commit.ID, s.commit.ID)
		}
		s.commit = out.Commit
	}
	for _, a := range out.Attempts {
		switch a.Outcome {
		case step.Conflict:
			s.conflicts++
		case step.Scheduled:
			s.won++
		}
	}
	s.consults = append(s.consults, out.Consults...)
	if len(s.consults) > step.MaxConsults {
		w.t.Fatalf("%s: %d questions to extenders at once, want at most %d", s.id, len(s.consults), step.MaxConsults)
	}
	s.performs = append(s.performs, out.Performs...)
	s.decisions = append(s.decisions, out.Decisions...)
	s.gangs = append(s.gangs, out.Gangs...)
	s.lost = append(s.lost, out.Lost...)
	w.decided(w, out.Decisions)
	s.more = out.More || out.Soon
}

func (w *world) fact(f events.Fact) {
	f.ResourceVersion, f.Progress = w.rv, w.rv
	w.facts = append(w.facts, events.SequencedFact{Sequence: uint64(len(w.facts) + 1), Fact: f})
}

func (w *world) addNode(name string, pods int64) { w.addNodeIn(name, "", pods) }

// addNodeIn adds a node with a hostname, and in a zone unless that is empty.
func (w *world) addNodeIn(name, zone string, pods int64) {
	w.rv++
	w.nodes[name] = pods
	labels := map[string]string{corev1.LabelHostname: name}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), ResourceVersion: fmt.Sprint(w.rv), Labels: labels,
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(100*pods, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}},
	}
	w.nodeObjects[name], w.nodeFact[name] = n, uint64(len(w.facts)+1)
	w.publishNode(n)
}

func (w *world) publishNode(n *corev1.Node) {
	raw, err := n.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{Kind: events.KindNode, Op: events.OpUpsert, UID: string(n.UID), Name: n.Name, Object: raw})
}

func (w *world) addPod(name string, options ...func(*corev1.Pod)) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("pod-" + name)},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"),
			}},
		}}},
	}
	for _, option := range options {
		option(p)
	}
	w.pods[string(p.UID)] = p
	w.publish(p)
}

// publish stores a new version of the pod and appends it to the log.
func (w *world) publish(p *corev1.Pod) {
	w.rv++
	p.ResourceVersion = fmt.Sprint(w.rv)
	raw, err := p.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Object: raw,
	})
}

func (w *world) deletePod(uid string) {
	w.rv++
	namespace := w.pods[uid].Namespace
	delete(w.pods, uid)
	w.deleted(uid, uint64(len(w.facts)+1))
	w.fact(events.Fact{Kind: events.KindPod, Op: events.OpDelete, UID: uid, Namespace: namespace})
}

// offer gives every unbound, unreserved pod to the shard that holds its partition.
func (w *world) offer() {
	reserved := w.reservations()
	for _, uid := range sortedPods(w.pods) {
		if w.pods[uid].Spec.NodeName != "" || reserved[uid] != "" {
			continue
		}
		w.tokens++
		w.offered[uid]++
		p := ledger.PartitionOf(uid)
		s := w.ownerOf(p)
		s.offers = append(s.offers, work.Offer{
			Pod:       events.PodRef{UID: uid, Namespace: w.pods[uid].Namespace, Name: w.pods[uid].Name},
			Partition: p, Token: ledger.Token(w.tokens).String(), Attempt: w.offered[uid],
			FactSequence: uint64(len(w.facts)),
		})
	}
}

// reservations lists the ledger's entries: node name by pod uid.
func (w *world) reservations() map[string]string {
	got := map[string]string{}
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			got[e.PodUID] = d.NodeName
		}
	}
	return got
}

func (w *world) docs() []ledger.NodeDoc {
	kvs, _, err := w.store.List(context.Background(), ledger.PrefixNode)
	if err != nil {
		w.t.Fatal(err)
	}
	docs := make([]ledger.NodeDoc, 0, len(kvs))
	for _, kv := range kvs {
		d, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			w.t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs
}

// bindOne does what a binder does with one random reservation: POST with UID and resourceVersion. A pod that is gone
// or has changed is left alone.
func (w *world) bindOne() {
	docs := w.docs()
	if len(docs) == 0 {
		return
	}
	d := docs[w.rng.IntN(len(docs))]
	if len(d.Entries) == 0 {
		return
	}
	e := d.Entries[w.rng.IntN(len(d.Entries))]
	p, ok := w.pods[e.PodUID]
	if e.Role != ledger.RoleReservation || e.State != ledger.Committed || e.Delegated {
		return
	}
	if !ok || p.Spec.NodeName != "" || p.ResourceVersion != fmt.Sprint(e.PodRV) {
		return
	}
	p.Spec.NodeName = d.NodeName
	w.publish(p)
	w.boundAt(string(p.UID), uint64(len(w.facts)))
	w.audit()
}

// audit checks the invariant: no node ever holds more than it has room for.
func (w *world) audit() {
	bound := map[string]int64{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			bound[p.Spec.NodeName]++
		}
	}
	for node, n := range bound {
		if n > w.nodes[node] {
			w.t.Fatalf("node %s holds %d pods, room for %d", node, n, w.nodes[node])
		}
	}
}

// deliver advances one random stream of one random shard.
func (w *world) deliver() {
	s := w.shards[w.rng.IntN(len(w.shards))]
	var in step.Input
	if n := len(s.consults); n > 0 && w.rng.IntN(4) == 0 {
		i := w.rng.IntN(n)
		in.Advice = []step.Advice{w.advise(s.consults[i])}
		s.consults = slices.Delete(s.consults, i, i+1)
		w.step(s, in)
		return
	}
	if n := len(s.performs); n > 0 && w.rng.IntN(4) == 0 {
		in.Performed = []step.PluginResult{w.performNext(s)}
		w.step(s, in)
		return
	}
	switch w.rng.IntN(18) {
	case 0, 1, 2, 3:
		if n := len(w.facts) - s.fact; n > 0 {
			n = 1 + w.rng.IntN(n)
			in.Facts = s.fold(follow.Batch{Facts: w.facts[s.fact : s.fact+n]})
			s.fact += n
		}
	case 4, 5, 6, 7:
		if n := len(w.history) - s.ledger; n > 0 {
			for range 1 + w.rng.IntN(n) {
				in.Ledger = append(in.Ledger, replica.Batch{Events: w.history[s.ledger]})
				s.ledger++
			}
		}
	case 8, 9, 10, 11:
		if len(s.offers) > 0 {
			in.Offers = []work.OfferBatch{{Term: 1, Offers: s.offers}}
			s.offers = nil
		}
	case 12, 13, 14, 15:
		in.Results = w.answer(s)
	case 16:
		in.Beat = true
	case 17:
		if in.Turns = s.turns; w.rng.IntN(4) == 0 {
			in.Turns = nil // lost
		}
		s.turns = nil
	}
	w.step(s, in)
}

// performNext makes plugins carry out one act: acts that belong to a cycle in order, others in any order.
func (w *world) performNext(s *shard) step.PluginResult {
	i := w.rng.IntN(len(s.performs))
	if act := s.performs[i].Act; act == step.ActReserve || act == step.ActUndo {
		i = slices.IndexFunc(s.performs, func(p step.PluginRequest) bool {
			return p.Act == step.ActReserve || p.Act == step.ActUndo
		})
	}
	p := s.performs[i]
	s.performs = slices.Delete(s.performs, i, i+1)
	return w.perform(p)
}

// answer commits the transaction in flight; now and then the answer is lost.
func (w *world) answer(s *shard) []step.Result {
	if s.commit == nil {
		return nil
	}
	c := s.commit
	txn := c.Txn
	if w.ablate != nil {
		txn = w.ablate(txn)
	}
	if bytes := txn.Bytes(); w.takes > 0 && bytes > w.takes {
		s.commit = nil
		return []step.Result{{ID: c.ID, Refused: fmt.Sprintf("the store takes %d bytes, not %d", w.takes, bytes)}}
	}
	res := w.commit(txn)
	if w.rng.IntN(8) == 0 {
		return []step.Result{{ID: c.ID, Err: context.DeadlineExceeded}}
	}
	s.commit = nil
	return []step.Result{{ID: c.ID, Txn: res}}
}

// settle delivers everything until nothing changes.
func (w *world) settle() {
	for range 10_000 {
		if w.settled() {
			return
		}
		w.deliver()
	}
	w.t.Fatal("the shards do not come to rest")
}

func (w *world) settled() bool {
	for _, s := range w.shards {
		if s.fact < len(w.facts) || s.ledger < len(w.history) || len(s.offers) > 0 || s.commit != nil || s.more ||
			len(s.consults)+len(s.performs) > 0 {
			return false
		}
	}
	return true
}

func sortedPods(m map[string]*corev1.Pod) []string {
	uids := make([]string, 0, len(m))
	for uid := range m {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}
