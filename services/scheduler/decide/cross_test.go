package decide_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// crossSeeds is how many histories TestShardsKeepRulesAboutOtherNodes tries, crossFirst the
// seed of the first.
var (
	crossSeeds = flag.Uint64("cross-seeds", 30, "histories of shards that place pods with rules about other nodes")
	crossFirst = flag.Uint64("cross-first", 0, "seed of the first of them")
)

// ablationSeeds is after how many histories a missing guard must have been detected.
const ablationSeeds = uint64(1000)

const zoneKey, hostKey = corev1.LabelTopologyZone, corev1.LabelHostname

func ofApp(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func appIn(apps ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "app", Operator: metav1.LabelSelectorOpIn, Values: apps,
	}}}
}

func spreadOver(key string, apps ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: appIn(apps...),
		}}
	}
}

func apartFrom(key string, apps ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: appIn(apps...)},
			},
		}}
	}
}

func togetherWith(key string, apps ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: key, LabelSelector: appIn(apps...)},
			},
		}}
	}
}

// kinds are kinds of pods that interfere with each other.
var kinds = map[string][]func(*corev1.Pod){
	"spread":    {ofApp("spread"), spreadOver(zoneKey, "spread")},
	"overlap":   {ofApp("overlap"), spreadOver(zoneKey, "overlap", "spread")},
	"uncounted": {ofApp("spread")},
	"hosts":     {ofApp("hosts"), spreadOver(hostKey, "hosts")},
	"apart":     {ofApp("apart"), apartFrom(zoneKey, "apart")},
	"repel":     {ofApp("repel"), apartFrom(zoneKey, "victim")},
	"victim":    {ofApp("victim")},
	"club":      {ofApp("club"), togetherWith(zoneKey, "club")},
	"follow":    {ofApp("follow"), togetherWith(zoneKey, "cache")},
	"cache":     {ofApp("cache")},
	"plain":     nil,
}

// crowds are combinations of kinds that are worth testing.
var crowds = [][]string{
	{"spread", "uncounted"}, {"spread", "overlap"}, {"spread", "overlap", "uncounted"}, {"hosts", "plain"},
	{"repel", "victim"}, {"apart", "repel", "victim"}, {"club", "plain"}, {"follow", "cache"}, {"follow", "cache", "club"},
	{"spread", "apart", "club", "hosts"},
}

func (w *world) addNamespace(name string) {
	w.rv++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("namespace-" + name), ResourceVersion: fmt.Sprint(w.rv),
	}}
	raw, err := ns.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{Kind: events.KindNamespace, Op: events.OpUpsert, UID: string(ns.UID), Name: name, Object: raw})
}

// relabel changes the labels of a pending pod that has no reservation.
func (w *world) relabel() {
	reserved := w.reservations()
	for _, uid := range sortedPods(w.pods) {
		p := w.pods[uid]
		plain := len(p.Spec.TopologySpreadConstraints) == 0 && p.Spec.Affinity == nil
		if p.Spec.NodeName == "" && reserved[uid] == "" && plain {
			p.Labels = map[string]string{"app": []string{"victim", "spread", "cache"}[w.rng.IntN(3)]}
			w.publish(p)
			return
		}
	}
}

// retire does what a shard with a full registry does: a term retires, and is dropped once a shard finds it settled.
func (w *world) retire() {
	v := w.ledgerView()
	terms := maps.Collect(v.Terms().All())
	if len(terms) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(terms))
	txn, err := registry.RetireTerms(v.Terms().Registry(), terms[ids[w.rng.IntN(len(ids))]])
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(txn)
}

// handOver does what a binder's sweep does with one document, on facts that are up to date.
func (w *world) handOver() {
	docs := w.docs()
	if len(docs) == 0 {
		return
	}
	d, changed := txns.Finish(docs[w.rng.IntN(len(docs))], truth{w})
	if !changed {
		return
	}
	txn, err := txns.Replace(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(txn)
}

// fenceChanged gives back the reservations of pods that changed after they were decided on, like a binder whose bind
// is refused.
func (w *world) fenceChanged() {
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			p, ok := w.pods[e.PodUID]
			if !ok || e.Role != ledger.RoleReservation || p.Spec.NodeName != "" || p.ResourceVersion == fmt.Sprint(e.PodRV) {
				continue
			}
			d = w.replace(txns.MarkFencing(d, e.PodUID, e.Token, ledger.FenceByPod))
			w.publish(p)
			d = w.replace(txns.ReleaseFenced(d, e.PodUID, e.Token, w.rv))
		}
	}
}

func (w *world) replace(d ledger.NodeDoc, err error) ledger.NodeDoc {
	if err != nil {
		w.t.Fatal(err)
	}
	txn, err := txns.Replace(d)
	if err != nil {
		w.t.Fatal(err)
	}
	d.Revision = w.commit(txn).Revision
	return d
}

type truth struct{ w *world }

func (t truth) PodFact(uid string) (uint64, bool, bool) {
	p, ok := t.w.pods[uid]
	if !ok {
		return 0, false, false
	}
	var rv uint64
	_, err := fmt.Sscan(p.ResourceVersion, &rv)
	if err != nil {
		t.w.t.Fatal(err)
	}
	return rv, p.Spec.NodeName != "", true
}

func (t truth) PodProgress() uint64 {
	for _, f := range slices.Backward(t.w.facts) {
		if f.Kind == events.KindPod {
			return f.Progress
		}
	}
	return 0
}

// crossWorld returns a world of three shards in a cluster of three zones.
func crossWorld(t *testing.T, seed uint64, ablate func(ledger.Txn) ledger.Txn) *world {
	w := newWorld(t, seed, 3)
	w.ablate = ablate
	w.addNamespace("d")
	zones := []string{"a", "b", "c"}
	nodes := 0
	addNode := func() {
		w.addNodeIn(fmt.Sprintf("n%d", nodes), zones[nodes%len(zones)], 30)
		nodes++
	}
	for range 6 {
		addNode()
	}
	crowd := crowds[w.rng.IntN(len(crowds))]
	for n := range 18 {
		kind := crowd[n%len(crowd)]
		w.addPod(fmt.Sprintf("%s-%d", kind, n), kinds[kind]...)
	}
	w.offer()
	for range 600 {
		switch w.rng.IntN(16) {
		case 0, 1:
			w.bindOne()
		case 2:
			if w.rng.IntN(6) == 0 && len(w.pods) > 6 {
				uids := sortedPods(w.pods)
				w.deletePod(uids[w.rng.IntN(len(uids))])
			}
		case 3:
			if w.rng.IntN(3) == 0 {
				w.offer()
			}
		case 4:
			w.handOver()
		case 5:
			if w.rng.IntN(8) == 0 && nodes < 12 {
				addNode()
			}
			if w.rng.IntN(8) == 0 {
				w.relabel()
			}
			if w.rng.IntN(12) == 0 {
				w.retire()
			}
			w.step(w.shards[w.rng.IntN(len(w.shards))], step.Input{Beat: true})
		default:
			w.deliver()
		}
	}
	return w
}

// Three shards with arbitrary lag place pods that must be spread, kept apart or brought together over zones and
// hosts. Every placement keeps every rule among all pods that were placed before it, in the order of the ledger; and
// when the faults end, every pod that fits has a place.
func TestShardsKeepRulesAboutOtherNodes(t *testing.T) {
	checks := map[string]int{}
	conflicts := 0
	for seed := *crossFirst; seed < *crossFirst+*crossSeeds; seed++ {
		w := crossWorld(t, seed, nil)
		w.endFaults()
		if len(w.broken) > 0 {
			t.Fatalf("seed %d: %s\nreplay: go test ./decide -run %s -cross-first=%d -cross-seeds=1",
				seed, strings.Join(w.broken, "\n"), t.Name(), seed)
		}
		for what, n := range w.checks {
			checks[what] += n
		}
		for _, s := range w.shards {
			conflicts += s.conflicts
		}
	}
	for _, what := range []string{"spread", "apart", "together", "dropped"} {
		if *crossSeeds >= 50 && checks[what] < int(*crossSeeds)/4 {
			t.Errorf("%q %d times in %d histories: they test too little", what, checks[what], *crossSeeds)
		}
	}
	t.Logf("%d histories: checked %v, %d conflicts", *crossSeeds, checks, conflicts)
}

// endFaults turns the faults off: every pod that fits must be placed, and the rest must have a verdict.
func (w *world) endFaults() {
	w.t.Helper()
	for range 12 {
		w.settle()
		for range 60 {
			w.bindOne()
		}
		w.fenceChanged()
		w.settle()
		w.offer()
	}
	w.settle()
	verdict := map[string]events.DecisionKind{}
	for _, s := range w.shards {
		for _, d := range s.decisions {
			verdict[d.Pod.UID] = d.Kind
		}
	}
	reserved := w.reservations()
	for uid, p := range w.pods {
		if p.Spec.NodeName == "" && reserved[uid] == "" && verdict[uid] != events.DecisionUnplaceable {
			w.broken = append(w.broken, fmt.Sprintf("%s is neither placed nor told why, last told: %s", p.Name, verdict[uid]))
		}
	}
}

// If the checker did not detect a missing guard, it would detect nothing.
func TestEachGuardIsNeeded(t *testing.T) {
	without := func(compare, put func(key string) bool) func(ledger.Txn) ledger.Txn {
		return func(txn ledger.Txn) ledger.Txn {
			txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), func(c ledger.Compare) bool { return compare(c.Key) })
			txn.Puts = slices.DeleteFunc(slices.Clone(txn.Puts), func(p ledger.Put) bool { return put(p.Key) })
			return txn
		}
	}
	none := func(string) bool { return false }
	ofGuard := func(part registry.Part) func(string) bool {
		return func(key string) bool {
			_, _, p, ok := registry.ParseGuard(key)
			return ok && (part == "" || p == part)
		}
	}
	ofRegistry := func(key string) bool { return key == registry.KeyTermRegistry }
	ablations := map[string]func(ledger.Txn) ledger.Txn{
		"compare of the guards":          without(ofGuard(""), none),
		"compare of the carriers' guard": without(ofGuard(registry.Carriers), none),
		"compare of the matchers' guard": without(ofGuard(registry.Matchers), none),
		"put of the carriers' guard":     without(none, ofGuard(registry.Carriers)),
		"put of the matchers' guard":     without(none, ofGuard(registry.Matchers)),
		"compare of the registry":        without(ofRegistry, none),
		"high-water":                     withoutHighWater(t),
	}
	for _, name := range slices.Sorted(maps.Keys(ablations)) {
		t.Run(name, func(t *testing.T) {
			for seed := range ablationSeeds {
				if w := crossWorld(t, seed, ablations[name]); len(w.broken) > 0 {
					t.Logf("seed %d: %s", seed, w.broken[0])
					return
				}
			}
			t.Errorf("nothing is broken without it in %d histories", ablationSeeds)
		})
	}
}

// withoutHighWater writes documents without high-water marks for their readers.
func withoutHighWater(t *testing.T) func(ledger.Txn) ledger.Txn {
	return func(txn ledger.Txn) ledger.Txn {
		txn.Puts = slices.Clone(txn.Puts)
		for i, p := range txn.Puts {
			if !strings.HasPrefix(p.Key, ledger.PrefixNode) {
				continue
			}
			d, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value})
			if err != nil {
				t.Fatal(err)
			}
			d.HW = nil
			if txn.Puts[i].Value, err = codec.EncodeNodeDoc(d); err != nil {
				t.Fatal(err)
			}
		}
		return txn
	}
}
