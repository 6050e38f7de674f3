package decide_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
)

// replicaSeeds is how many histories of each kind TestDecisionsAreMadeAgain tries, replicaFirst the
// seed of the first.
var (
	replicaSeeds = flag.Uint64("replica-seeds", 15, "histories whose decisions are made again")
	replicaFirst = flag.Uint64("replica-first", 0, "seed of the first of them")
)

// tally counts the results of the records of some shards.
type tally struct{ same, lost, abandoned, alternatives, kept, learned, held int }

func (a tally) plus(b tally) tally {
	return tally{
		a.same + b.same, a.lost + b.lost, a.abandoned + b.abandoned, a.alternatives + b.alternatives,
		a.kept + b.kept, a.learned + b.learned, a.held + b.held,
	}
}

// Whatever the history of the shards (arbitrary lag, lost answers, pods and nodes that appear and disappear, places
// that are held, kept and ousted): each decision is made again from the facts and the ledger according to its
// record, without the node, and has the same result.
func TestDecisionsAreMadeAgain(t *testing.T) {
	scenarios := map[string]func(*testing.T, uint64) *world{
		"rules": func(t *testing.T, seed uint64) *world {
			w := crossWorld(t, seed, nil)
			w.endFaults()
			return w
		},
		"preemption": func(t *testing.T, seed uint64) *world {
			a := newArena(t, seed, 2)
			a.play()
			return a.world
		},
		"moves": func(t *testing.T, seed uint64) *world {
			m := &moverArena{arena: newArena(t, seed, 1+int(seed%3))}
			m.play()
			return m.world
		},
		"nominations": nominationsWorld,
		"homes":       homesWorld, "few homes": fewHomesWorld,
	}
	var all tally
	for name, play := range scenarios {
		for seed := *replicaFirst; seed < *replicaFirst+*replicaSeeds && !t.Failed(); seed++ {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				w := play(t, seed)
				for _, s := range w.shards {
					all = all.plus(remake(t, w, s))
				}
			})
		}
	}
	t.Logf("%+v (replay: -replica-first=seed -replica-seeds=1)", all)
	if *replicaSeeds >= 15 && (all.lost == 0 || all.abandoned == 0 || all.alternatives == 0 || all.kept == 0 ||
		all.learned == 0 || all.held == 0) {
		t.Errorf("%+v: want some of each", all)
	}
}

// With extenders or custom plugins, shards decide on whole pods, and a bundle has stripped ones (berth export). No
// rule reads the missing parts: each decision has the same result on both.
func TestDecisionsAreMadeAgainFromWholePods(t *testing.T) {
	const some = 5
	for seed := *replicaFirst; seed < *replicaFirst+min(*replicaSeeds, some); seed++ {
		w := crossWorld(t, seed, nil)
		w.endFaults()
		plain := w.facts
		w.facts = make([]events.SequencedFact, len(plain))
		for i, f := range plain {
			w.facts[i] = withStrippedParts(t, f)
		}
		for _, s := range w.shards {
			remake(t, w, s)
		}
	}
}

// withStrippedParts returns the fact of a pod with the parts that Strip removes; the containers of each pod differ in
// them.
func withStrippedParts(t *testing.T, f events.SequencedFact) events.SequencedFact {
	t.Helper()
	if f.Kind != events.KindPod || f.Op != events.OpUpsert {
		return f
	}
	var pod corev1.Pod
	if err := pod.Unmarshal(f.Object); err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Env, c.Command = []corev1.EnvVar{{Name: "NAME", Value: pod.Name}}, []string{"run", pod.Name}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{},
	}})
	var err error
	if f.Object, err = pod.Marshal(); err != nil {
		t.Fatal(err)
	}
	return f
}

// past is a shard's history, read forward by a replica.
type past struct {
	*world
	replica      *decide.Replica
	fact, ledger int
}

func newPast(t *testing.T, w *world, s *shard) *past {
	t.Helper()
	members := make([]string, len(w.shards))
	for i, shard := range w.shards {
		members[i] = shard.id
	}
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Preemption.MaxBlockers = placement.MaxBlockersLimit
	if w.remadeWith != nil {
		cfg = *w.remadeWith
	}
	profile, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &past{world: w, replica: decide.NewReplica(decide.Config{
		Shard: s.id, Profiles: map[string]*placement.Profile{corev1.DefaultSchedulerName: profile},
		Home: func(_ []string, nodeUID string) bool { return membership.Home(members, nodeUID) == s.id },
	})}
	if err := p.replica.Ledger(replica.Batch{Reset: true, Events: ledger.EventBatch{Revision: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := p.replica.Facts(follow.Batch{Reset: true}); err != nil {
		t.Fatal(err)
	}
	return p
}

// to advances to the position of a record.
func (p *past) to(t *testing.T, d events.Decision) {
	t.Helper()
	for ; p.ledger < len(p.history) && p.history[p.ledger].Revision <= d.Evidence.LedgerRevision; p.ledger++ {
		if err := p.replica.Ledger(replica.Batch{Events: p.history[p.ledger]}); err != nil {
			t.Fatal(err)
		}
	}
	if n := int(d.FactSequence); n > p.fact {
		if err := p.replica.Facts(follow.Batch{Facts: p.facts[p.fact:n]}); err != nil {
			t.Fatal(err)
		}
		p.fact = n
	}
	for _, l := range d.Evidence.Basis.Learned {
		if err := p.replica.Learn(l, p.put(l)); err != nil {
			t.Fatal(err)
		}
	}
}

// put returns the keys written by a revision ahead of the watch.
func (p *past) put(l evidence.Learned) (kvs []ledger.KV) {
	for _, batch := range p.history[p.ledger:] {
		for _, ev := range batch.Events {
			if ev.ModRevision == l.Revision && !ev.Deleted && (l.Key == "" || l.Key == ev.Key) {
				kvs = append(kvs, ev.KV)
			}
		}
	}
	return kvs
}

// records returns the records of a shard, in the order of their moments.
func records(s *shard) []events.Decision {
	all := slices.DeleteFunc(slices.Concat(s.lost, s.decisions), func(d events.Decision) bool { return d.Evidence == nil })
	slices.SortStableFunc(all, func(a, b events.Decision) int {
		return cmp.Or(cmp.Compare(a.Evidence.Basis.LookNumber, b.Evidence.Basis.LookNumber),
			cmp.Compare(a.Evidence.Order, b.Evidence.Order))
	})
	return all
}

// blind returns a record without the result.
func blind(d events.Decision) events.Decision {
	e := d.Evidence
	return events.Decision{
		Kind: d.Kind, Pod: d.Pod, Actor: d.Actor, Attempt: d.Attempt, Token: d.Token, FactSequence: d.FactSequence,
		Seed: d.Seed,
		Evidence: &evidence.Evidence{
			LedgerRevision: e.LedgerRevision, Order: e.Order, Staged: e.Staged, Usable: e.Usable, Basis: e.Basis,
		},
	}
}

func remake(t *testing.T, w *world, s *shard) (n tally) {
	t.Helper()
	p := newPast(t, w, s)
	for _, d := range records(s) {
		p.to(t, d)
		again, err := p.replica.Remake(blind(d))
		if err != nil {
			t.Fatalf("%s %s of %s: %v\n%+v\n%+v", s.id, d.Kind, d.Pod.Name, err, d, *d.Evidence)
		}
		b := d.Evidence.Basis
		switch {
		case b.Way == evidence.WayHeld && again.NodeName == d.NodeName:
			p.replica.KeepChoice(d.Evidence.Order, again, again.NodeName)
			n.held++
		case again.NodeName != d.NodeName || again.NodesFeasible != d.NodesFeasible ||
			again.Evidence != nil && b.Way != evidence.WayHeld && again.Evidence.Class != d.Evidence.Class:
			t.Fatalf("%s %s of %s: %s of %d again, %s of %d recorded\n%+v\n%+v", s.id, d.Kind, d.Pod.Name, again.NodeName,
				again.NodesFeasible, d.NodeName, d.NodesFeasible, d, *d.Evidence)
		default:
			p.replica.KeepChoice(d.Evidence.Order, again, again.NodeName)
			n.same++
		}
		n.count(d)
	}
	return n
}

func (n *tally) count(d events.Decision) {
	b := d.Evidence.Basis
	if len(b.Learned) > 0 {
		n.learned++
	}
	if b.Alternative > 0 {
		n.alternatives++
	}
	if b.Way == evidence.WayKept || b.Way == evidence.WayOusted {
		n.kept++
	}
	if d.Kind == events.DecisionLost {
		if n.lost++; d.Message == events.LostAbandoned {
			n.abandoned++
		}
	}
}

// Every part of a record's basis is needed: without a part, some decisions have another result, or cannot be made
// again.
func TestEachPartOfTheBasisIsNeeded(t *testing.T) {
	parts := map[string]func(*evidence.Evidence){
		"staged":      func(e *evidence.Evidence) { e.Staged = nil },
		"learned":     func(e *evidence.Evidence) { e.Basis.Learned = nil },
		"alternative": func(e *evidence.Evidence) { e.Basis.Alternative = 0 },
	}
	for name, omit := range parts {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				m := &moverArena{arena: newArena(t, seed, 1+int(seed%3))}
				m.play()
				for _, s := range m.shards {
					if differs(t, m.world, s, omit) {
						return
					}
				}
			}
			t.Error("every decision came out the same without it")
		})
	}
}

// So is the scope of the decision.
func TestTheScopeOfADecisionIsNeeded(t *testing.T) {
	homes, few := homesWorld(t, 1), fewHomesWorld(t, 1)
	if !differs(t, homes, homes.shards[0], func(e *evidence.Evidence) { e.Basis.AllNodes = !e.Basis.AllNodes }) {
		t.Error("every decision came out the same with the other scope")
	}
	if !differs(t, few, few.shards[0], func(e *evidence.Evidence) { e.Basis.Near = 0 }) &&
		!differs(t, few, few.shards[1], func(e *evidence.Evidence) { e.Basis.Near = 0 }) {
		t.Error("every decision came out the same without near home nodes")
	}
}

func differs(t *testing.T, w *world, s *shard, omit func(*evidence.Evidence)) bool {
	t.Helper()
	p := newPast(t, w, s)
	for _, d := range records(s) {
		if d.Evidence.Basis.Way == evidence.WayHeld {
			p.replica.KeepRecorded(d)
			continue
		}
		less := blind(d)
		omit(less.Evidence)
		p.to(t, less)
		again, err := p.replica.Remake(less)
		var not *decide.NotRemadeError
		if err != nil && !errors.As(err, &not) {
			t.Fatal(err)
		}
		if err != nil || again.NodeName != d.NodeName || again.NodesFeasible != d.NodesFeasible {
			return true
		}
		p.replica.KeepChoice(d.Evidence.Order, again, d.NodeName)
	}
	return false
}
