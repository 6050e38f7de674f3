package state_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// knownPod is what the model keeps of a pod.
type knownPod struct {
	uid, namespace, name, node string
	rv                         uint64
}

// crowd is a store with many pods, next to a map of them.
type crowd struct {
	*rand.Rand
	store    *state.Store
	pods     map[string]knownPod
	sequence uint64
	made     int
}

// kept is a snapshot with what was known when it was taken.
type kept struct {
	at   *state.Snapshot
	pods map[string]knownPod
}

// fact writes a fact about a pod.
func (c *crowd) fact(op events.Op, p knownPod) events.SequencedFact {
	c.sequence++
	f := events.Fact{
		Kind: events.KindPod, Op: op, UID: p.uid, Namespace: p.namespace, Name: p.name, ResourceVersion: p.rv,
	}
	if op == events.OpUpsert {
		obj := statetest.Pod(p.namespace, p.name, "cpu", "1")
		obj.UID, obj.Spec.NodeName = types.UID(p.uid), p.node
		f.Object = state.Marshalled(obj)
	}
	return events.SequencedFact{Sequence: c.sequence, Fact: f}
}

// any returns one of the pods; false if there are none.
func (c *crowd) any() (knownPod, bool) {
	uids := slices.Sorted(maps.Keys(c.pods))
	if len(uids) == 0 {
		return knownPod{}, false
	}
	return c.pods[uids[c.IntN(len(uids))]], true
}

// step draws one change, applies it to the map and returns its fact. growth is how many of 100 changes add a pod.
func (c *crowd) step(growth int) events.SequencedFact {
	p, there := c.any()
	if !there || c.IntN(100) < growth {
		c.made++
		p = knownPod{uid: fmt.Sprintf("uid-%x", scatter(c.made)), namespace: fmt.Sprint("ns-", c.IntN(5))}
		p.name = fmt.Sprintf("pod-%x", scatter(c.made)>>40)
		if other, ok := c.any(); ok && c.IntN(10) == 0 {
			p.namespace, p.name = other.namespace, other.name // whose deletion was missed
		}
	} else if c.IntN(100) < 45 {
		delete(c.pods, p.uid)
		p.rv = c.sequence + 1
		return c.fact(events.OpDelete, p)
	} else if c.IntN(30) == 0 {
		p.name += "-renamed" // which Kubernetes never does
	}
	if p.node == "" && c.IntN(2) == 0 || c.IntN(30) == 0 {
		p.node = fmt.Sprint("node-", c.IntN(20))
	}
	p.rv = c.sequence + 1
	maps.DeleteFunc(c.pods, func(_ string, o knownPod) bool { return o.namespace == p.namespace && o.name == p.name })
	c.pods[p.uid] = p
	return c.fact(events.OpUpsert, p)
}

// batch applies some changes. Some batches end with a gap, and then leave nothing.
func (c *crowd) batch(t *testing.T, growth int) {
	t.Helper()
	before, sequence := maps.Clone(c.pods), c.sequence
	var facts []events.SequencedFact
	for range 1 + c.IntN(60) {
		facts = append(facts, c.step(growth))
	}
	fails := c.IntN(4) == 0
	if fails {
		c.sequence++
		facts = append(facts, c.fact(events.OpDelete, knownPod{uid: "uid", namespace: "ns", name: "pod"}))
	}
	if _, err := c.store.Apply(facts); (err != nil) != fails {
		t.Fatalf("the batch ends with a gap: %v; error %v", fails, err)
	}
	if fails {
		c.pods, c.sequence = before, sequence
	}
}

// check compares a snapshot with what was known.
func (k *kept) check(t *testing.T) {
	t.Helper()
	byName := slices.SortedFunc(maps.Values(k.pods), func(a, b knownPod) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	list := func(pods func(func(*state.Pod) bool)) (all []knownPod) {
		for p := range pods {
			all = append(all, knownPod{p.UID, p.Namespace, p.Name, p.NodeName, p.ResourceVersion})
		}
		return all
	}
	same := func(what string, got []knownPod, wanted func(knownPod) bool) {
		t.Helper()
		want := slices.DeleteFunc(slices.Clone(byName), func(p knownPod) bool { return !wanted(p) })
		if len(got)+len(want) > 0 && !slices.Equal(got, want) {
			t.Fatalf("%s are %v, want %v", what, got, want)
		}
	}
	same("pods", list(k.at.Pods()), func(knownPod) bool { return true })
	for i := range 6 {
		namespace := fmt.Sprint("ns-", i)
		same(namespace, list(k.at.PodsIn(namespace)), func(p knownPod) bool { return p.namespace == namespace })
	}
	for i := range 21 {
		node := fmt.Sprint("node-", i)
		here := list(k.at.PodsOnNode(node))
		if !slices.IsSortedFunc(here, func(a, b knownPod) int { return cmp.Compare(a.uid, b.uid) }) {
			t.Fatalf("pods on %s are not sorted by UID: %v", node, here)
		}
		slices.SortFunc(here, func(a, b knownPod) int { return slices.Index(byName, a) - slices.Index(byName, b) })
		same(node, here, func(p knownPod) bool { return p.node == node })
	}
	for _, p := range byName {
		byUID, known := k.at.Pod(p.uid)
		named, found := k.at.PodByName(p.namespace, p.name)
		if !known || !found || byUID != named || byUID.ResourceVersion != p.rv {
			t.Fatalf("pod %v: by UID %v, by name %v", p, byUID, named)
		}
	}
	if p, known := k.at.Pod("uid-gone"); known {
		t.Fatalf("a pod that never was is %v", p)
	}
}

// TestPodsAgreeWithAMap: whatever comes, changes, takes a name over, moves and goes, and whichever batches fail in
// between, every snapshot has the pods of its time, also long after.
func TestPodsAgreeWithAMap(t *testing.T) {
	first := seedtest.First(t, 0)
	for seed := first; seed < first+4; seed++ {
		c := &crowd{Rand: rand.New(rand.NewPCG(seed, 0)), store: state.New(), pods: map[string]knownPod{}}
		var all []kept
		for i := range 120 {
			c.batch(t, []int{70, 30, 10}[i/40]) // it grows, stays and shrinks
			if i%8 == 0 {
				all = append(all, kept{c.store.Snapshot(), maps.Clone(c.pods)})
				all[len(all)-1].check(t)
			}
		}
		for i := range all {
			all[i].check(t)
		}
		t.Logf("seed %d: %d pods were made, %d are left", seed, c.made, len(c.pods))
	}
}

// TestReadersBesideTheWriter: readers use snapshots while facts are applied, and each snapshot agrees with itself. It
// finds races under -race.
func TestReadersBesideTheWriter(t *testing.T) {
	c := &crowd{Rand: rand.New(rand.NewPCG(1, 0)), store: state.New(), pods: map[string]knownPod{}}
	snapshots := make(chan *state.Snapshot, 1)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for s := range snapshots {
				for p := range s.Pods() {
					byUID, _ := s.Pod(p.UID)
					byName, _ := s.PodByName(p.Namespace, p.Name)
					if byUID != p || byName != p {
						t.Errorf("pod %s: by UID %v, by name %v", p.Key(), byUID, byName)
					}
				}
			}
		})
	}
	for range 60 {
		c.batch(t, 50)
		snapshots <- c.store.Snapshot()
	}
	close(snapshots)
	readers.Wait()
}
