package view_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
)

// world is a view with the two streams that feed it, driven by hand.
type world struct {
	t        rapid.TB
	store    *state.Store
	ledger   *replica.View
	view     *view.View
	seq, rv  uint64
	revision int64
	docs     map[string]ledger.NodeDoc
	staged   map[string]string
	stagedRV map[string]uint64
	mirror   *mirror
}

// mirror is a follower that records what it is sent.
type mirror struct {
	pods   map[*state.NodeInfo]map[string]*state.Pod
	usable map[*state.NodeInfo]bool
}

func newMirror() *mirror {
	return &mirror{map[*state.NodeInfo]map[string]*state.Pod{}, map[*state.NodeInfo]bool{}}
}

func (m *mirror) SetNode(n *state.NodeInfo) {
	m.pods[n] = map[string]*state.Pod{}
	for p := range n.Pods() {
		m.pods[n][p.UID] = p
	}
	if _, known := m.usable[n]; !known {
		m.usable[n] = true
	}
}

func (m *mirror) DropNode(n *state.NodeInfo) {
	delete(m.pods, n)
	delete(m.usable, n)
}

func (m *mirror) ChangePod(n *state.NodeInfo, before, after *state.Pod) {
	if before != nil {
		delete(m.pods[n], before.UID)
	}
	if after != nil {
		m.pods[n][after.UID] = after
	}
}

func (m *mirror) SetUsable(n *state.NodeInfo, usable bool) { m.usable[n] = usable }

// names returns the nodes that may be used, sorted.
func (m *mirror) names() []string {
	names := []string{}
	for n, usable := range m.usable {
		if usable {
			names = append(names, n.Node.Name)
		}
	}
	slices.Sort(names)
	return names
}

// settle calls Settle, and returns which nodes may be used.
func (w *world) settle() (usable []string, behind int) {
	behind = w.view.Settle()
	return w.mirror.names(), behind
}

// checkFollower compares what the follower has received with the view.
func (w *world) checkFollower() {
	progress, known := w.store.Position().Progress(events.KindPod)
	want, behind := []string{}, 0
	for _, n := range w.view.Nodes() {
		pods := map[string]*state.Pod{}
		for p := range n.Pods() {
			pods[p.UID] = p
		}
		if !maps.Equal(pods, w.mirror.pods[n]) {
			w.t.Fatalf("node %s: the follower knows %d pods, the view %d, or others",
				n.Node.Name, len(w.mirror.pods[n]), len(pods))
		}
		if n.UndescribedPods() > 0 || progress < w.docs[n.Node.Name].HW["pod"] {
			behind++
		} else {
			want = append(want, n.Node.Name)
		}
	}
	if len(w.mirror.pods) != len(w.view.Nodes()) {
		w.t.Fatalf("the follower knows %d nodes, want %d", len(w.mirror.pods), len(w.view.Nodes()))
	}
	if got, late := w.settle(); known && (!slices.Equal(got, want) || late != behind) {
		w.t.Fatalf("usable %v, behind %d, want %v and %d", got, late, want, behind)
	}
}

func newWorld(t rapid.TB) *world {
	w := &world{
		t: t, store: state.New(), ledger: replica.NewView(),
		docs: map[string]ledger.NodeDoc{}, staged: map[string]string{}, stagedRV: map[string]uint64{},
		mirror: newMirror(),
	}
	w.view = view.New(w.store, w.ledger, w.mirror)
	return w
}

func (w *world) fact(f events.Fact) {
	w.seq++
	f.ResourceVersion, f.Progress = w.rv, w.rv
	f.UID = uidOf(f.Name)
	changes, err := w.store.Apply([]events.SequencedFact{{Sequence: w.seq, Fact: f}})
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	w.view.ApplyFacts(changes)
}

// node adds a node or its next version, with one label or none.
func (w *world) node(name string, label ...string) {
	w.rv++
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uidOf(name)), ResourceVersion: fmt.Sprint(w.rv),
	}}
	if len(label) == 2 {
		n.Labels = map[string]string{label[0]: label[1]}
	}
	raw, err := n.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{Kind: events.KindNode, Op: events.OpUpsert, Name: name, Object: raw})
}

func (w *world) dropNode(name string) {
	w.rv++
	w.fact(events.Fact{Kind: events.KindNode, Op: events.OpDelete, Name: name})
}

func (w *world) pod(name, node string, phase corev1.PodPhase) {
	w.rv++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID(uidOf(name)), ResourceVersion: fmt.Sprint(w.rv),
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"),
			}},
		}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	raw, err := p.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, Namespace: "d", Name: name, Object: raw})
}

func (w *world) dropPod(name string) {
	w.rv++
	w.fact(events.Fact{Kind: events.KindPod, Op: events.OpDelete, Namespace: "d", Name: name})
}

// reserve puts, or with an empty node removes, the one reservation of a pod.
func (w *world) reserve(pod, node string, podRV uint64) {
	w.revision++
	var kvs []ledger.Event
	for _, n := range nodes {
		doc := w.docs[n]
		doc.NodeUID, doc.NodeName = uidOf(n), n
		before := len(doc.Entries)
		doc.Entries = slices.DeleteFunc(slices.Clone(doc.Entries), func(e ledger.Entry) bool {
			return e.PodUID == uidOf(pod)
		})
		if n == node {
			doc.Entries = append(doc.Entries, entry(pod, podRV))
		}
		if len(doc.Entries) == before && n != node {
			continue
		}
		w.docs[n] = doc
		kvs = append(kvs, w.stored(doc)...)
	}
	changes, err := w.ledger.Apply(ledger.EventBatch{Revision: w.revision, Events: kvs})
	if err != nil {
		w.t.Fatal(err)
	}
	w.view.ApplyLedger(changes)
}

// stored returns a node's document, and the incarnation of its name, as a watch delivers them.
func (w *world) stored(doc ledger.NodeDoc) []ledger.Event {
	raw, err := codec.EncodeNodeDoc(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	name, err := codec.EncodeIncarnation(ledger.Incarnation{NodeUID: doc.NodeUID})
	if err != nil {
		w.t.Fatal(err)
	}
	return []ledger.Event{
		{KV: ledger.KV{Key: ledger.KeyNode(doc.NodeUID), Value: raw, ModRevision: w.revision}},
		{KV: ledger.KV{Key: ledger.KeyIncarnation(doc.NodeName), Value: name, ModRevision: w.revision}},
	}
}

// raise sets the high-water of a node's document.
func (w *world) raise(node string, hw uint64) {
	w.revision++
	doc := w.docs[node]
	doc.NodeUID, doc.NodeName, doc.HW = uidOf(node), node, map[string]uint64{"pod": hw}
	w.docs[node] = doc
	changes, err := w.ledger.Apply(ledger.EventBatch{Revision: w.revision, Events: w.stored(doc)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.view.ApplyLedger(changes)
}

func entry(pod string, rv uint64) ledger.Entry {
	return ledger.Entry{
		PodUID: uidOf(pod), Namespace: "d", Name: pod, Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: rv, Token: 7, Shard: "s", SchedulerName: "default-scheduler",
		Requests: map[string]int64{"cpu": 100},
	}
}

var (
	nodes = []string{"node-a", "node-b", "node-c"}
	pods  = []string{"pod-a", "pod-b", "pod-c", "pod-d"}
)

func uidOf(name string) string {
	return "00000000-0000-4000-8000-0000" + fmt.Sprintf("%08x", hash(name))
}

func hash(s string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(s) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// want is the counting rule of the package comment, computed independently from scratch.
func (w *world) want() map[string][]string {
	got := map[string][]string{}
	progress, _ := w.store.Position().Progress(events.KindPod)
	for _, name := range pods {
		uid := uidOf(name)
		p, known := w.store.Snapshot().Pod(uid)
		reservedOn, rv := w.reservationOf(uid)
		on := ""
		switch {
		case known && p.NodeName != "":
			if !p.Terminal {
				on = p.NodeName
			}
		case reservedOn != "" && known:
			on = reservedOn
		case reservedOn != "" && (progress == 0 || progress < rv):
			on = reservedOn
		case reservedOn != "":
		case known || progress == 0 || progress < w.stagedRV[name]:
			on = w.staged[name]
		}
		if on != "" {
			got[on] = append(got[on], name)
		}
	}
	for _, names := range got {
		slices.Sort(names)
	}
	return got
}

func (w *world) reservationOf(uid string) (node string, podRV uint64) {
	for n, d := range w.docs {
		if e, ok := d.Find(uid); ok {
			return n, e.PodRV
		}
	}
	return "", 0
}

// have returns what the view counts, for nodes that exist.
func (w *world) have() map[string][]string {
	got := map[string][]string{}
	for _, n := range w.view.Nodes() {
		for p := range n.Pods() {
			got[n.Node.Name] = append(got[n.Node.Name], p.Name)
		}
		slices.Sort(got[n.Node.Name])
	}
	return got
}

// check compares the view with the rule.
func (w *world) check(existing map[string]bool) {
	want := w.want()
	for n := range want {
		if !existing[n] {
			delete(want, n)
		}
	}
	have := w.have()
	for n, names := range have {
		if len(names) == 0 {
			delete(have, n)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		w.t.Fatalf("counted wrongly (-rule +view):\n%s", diff)
	}
	reserved := 0
	for uid := range w.view.Counted() {
		if p, ok := w.store.Snapshot().Pod(uid); !ok || p.NodeName == "" {
			reserved++
		}
	}
	if _, _, got := w.view.Sizes(); got != reserved {
		w.t.Fatalf("%d pods reserved, want %d", got, reserved)
	}
	for _, n := range w.view.Nodes() {
		if got := n.Requested.MilliCPU; got != int64(100*n.PodCount()) {
			w.t.Fatalf("node %s: %d milli-CPU for %d pods", n.Node.Name, got, n.PodCount())
		}
	}
}

// A pod counts once, where the rule requires, after any history of facts and reservations.
func TestCountsByTheRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		existing := map[string]bool{}
		podGen, nodeGen := rapid.SampledFrom(pods), rapid.SampledFrom(nodes)
		rt.Repeat(map[string]func(*rapid.T){
			"node": func(rt *rapid.T) {
				n := nodeGen.Draw(rt, "node")
				w.node(n)
				existing[n] = true
			},
			"drop node": func(rt *rapid.T) {
				n := nodeGen.Draw(rt, "node")
				w.dropNode(n)
				existing[n] = false
			},
			"pod": func(rt *rapid.T) { w.pod(podGen.Draw(rt, "pod"), "", corev1.PodPending) },
			"bind": func(rt *rapid.T) {
				w.pod(podGen.Draw(rt, "pod"), nodeGen.Draw(rt, "node"), corev1.PodRunning)
			},
			"finish": func(rt *rapid.T) {
				w.pod(podGen.Draw(rt, "pod"), nodeGen.Draw(rt, "node"), corev1.PodSucceeded)
			},
			"drop pod": func(rt *rapid.T) { w.dropPod(podGen.Draw(rt, "pod")) },
			"reserve": func(rt *rapid.T) {
				ahead := rapid.Uint64Range(1, 3).Draw(rt, "ahead of the view")
				w.reserve(podGen.Draw(rt, "pod"), nodeGen.Draw(rt, "node"), w.rv+ahead)
			},
			"release": func(rt *rapid.T) { w.reserve(podGen.Draw(rt, "pod"), "", 0) },
			"stage": func(rt *rapid.T) {
				name := podGen.Draw(rt, "pod")
				p, ok := w.store.Snapshot().Pod(uidOf(name))
				if !ok || p.NodeName != "" || w.staged[name] != "" {
					return
				}
				w.staged[name], w.stagedRV[name] = nodeGen.Draw(rt, "node"), p.ResourceVersion
				w.view.Stage(p, w.staged[name])
			},
			"unstage": func(rt *rapid.T) {
				name := podGen.Draw(rt, "pod")
				delete(w.staged, name)
				w.view.Unstage(uidOf(name))
			},
			"rebuild": func(*rapid.T) { w.view.Reset(w.store) },
			"raise high-water": func(rt *rapid.T) {
				w.raise(nodeGen.Draw(rt, "node"), w.rv+rapid.Uint64Range(0, 2).Draw(rt, "ahead of the view"))
			},
			"": func(*rapid.T) {
				w.check(existing)
				w.checkFollower()
			},
		})
	})
}

// A heartbeat of a node reaches the NodeInfo, and no follower; a label reaches both.
func TestHeartbeatsDoNotReachTheFollower(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	n := w.view.Nodes()[0]
	w.mirror.pods[n] = nil // SetNode would make it again
	for range 2 {
		w.node("node-a")
		if n.Node.ResourceVersion != w.rv || w.mirror.pods[n] != nil {
			t.Fatalf("version %d, want %d; the follower was called: %v", n.Node.ResourceVersion, w.rv, w.mirror.pods[n] != nil)
		}
	}
	w.node("node-a", "zone", "z")
	if n.Node.Object.Labels["zone"] != "z" || w.mirror.pods[n] == nil {
		t.Fatalf("labels %v; the follower was called: %v", n.Node.Object.Labels, w.mirror.pods[n] != nil)
	}
}

// A node whose document's high-water is ahead of the applied progress is not usable: an entry that was handed over
// there may not show as a pod yet.
func TestNodeBehindHighWaterIsUnusable(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.node("node-b")
	w.pod("pod-a", "", corev1.PodPending)
	w.raise("node-a", w.rv+1)
	usable, behind := w.settle()
	if len(usable) != 1 || usable[0] != "node-b" || behind != 1 {
		t.Fatalf("usable %v, behind %d: want node-b alone usable and node-a behind", usable, behind)
	}
	w.pod("pod-b", "node-a", corev1.PodRunning)
	if usable, behind = w.settle(); len(usable) != 2 || behind != 0 {
		t.Fatalf("usable %v, behind %d: want both usable once the progress has reached the high-water", usable, behind)
	}
}

// A node with a reservation of a pod that the facts do not show yet is not usable: that pod could repel, or be
// repelled by, any other pod.
func TestNodeWithAnUnknownPodIsUnusable(t *testing.T) {
	w := newWorld(t)
	w.node("node-a")
	w.pod("pod-a", "", corev1.PodPending)
	w.reserve("pod-b", "node-a", w.rv+1)
	if usable, behind := w.settle(); len(usable) != 0 || behind != 1 {
		t.Fatalf("usable %v, behind %d: want the node behind", usable, behind)
	}
	w.pod("pod-b", "", corev1.PodPending)
	if usable, behind := w.settle(); len(usable) != 1 || behind != 0 {
		t.Fatalf("usable %v, behind %d once the pod is known: want the node usable", usable, behind)
	}
}

// Before the log's barrier no node is usable: the store may contain only half of the cluster.
func TestNoNodeUsableBeforeBarrier(t *testing.T) {
	w := newWorld(t)
	w.store.SetBarrier(3)
	w.node("node-a")
	w.pod("pod-a", "", corev1.PodPending)
	if _, behind := w.settle(); behind != 1 {
		t.Fatalf("%d nodes behind before the barrier: want 1", behind)
	}
	w.pod("pod-b", "", corev1.PodPending)
	if usable, behind := w.settle(); len(usable) != 1 || behind != 0 {
		t.Fatalf("usable %v, behind %d at the barrier: want one and 0", usable, behind)
	}
}
