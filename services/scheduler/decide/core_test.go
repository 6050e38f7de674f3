package decide_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// overcommitSeeds is how many interleavings TestShardsNeverOvercommit tries, overcommitFirst the seed of the first.
var (
	overcommitSeeds = flag.Uint64("overcommit-seeds", 160, "interleavings of shards whose views lag")
	overcommitFirst = flag.Uint64("overcommit-first", 0, "seed of the first of them")
)

// Three shards with arbitrary lag in their views of the API and of the ledger, with lost answers and pods deleted
// under them, never place more on a node than it holds; and once everything has been delivered, every pod that fits
// is bound.
func TestShardsNeverOvercommit(t *testing.T) {
	conflicts, placed := 0, 0
	for seed := *overcommitFirst; seed < *overcommitFirst+*overcommitSeeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 3)
			for n := range 4 {
				w.addNode(fmt.Sprintf("n%d", n), 3)
			}
			for p := range 14 { // room for 12
				w.addPod(fmt.Sprintf("p%d", p))
			}
			w.offer()
			for range 400 {
				switch w.rng.IntN(12) {
				case 0:
					w.bindOne()
				case 1:
					if w.rng.IntN(6) == 0 && len(w.pods) > 12 {
						uids := sortedPods(w.pods)
						w.deletePod(uids[w.rng.IntN(len(uids))])
					}
				case 2:
					if w.rng.IntN(4) == 0 {
						w.offer()
					}
				default:
					w.deliver()
				}
			}
			w.finish()
			for _, s := range w.shards {
				conflicts += s.conflicts
				placed += s.won
			}
		})
	}
	if *overcommitSeeds >= 50 && conflicts == 0 {
		t.Error("no shard ever lost a race: the test does not test what it says")
	}
	t.Logf("%d seeds: %d placed, %d conflicts", *overcommitSeeds, placed, conflicts)
}

// finish turns the faults off and requires progress.
func (w *world) finish() {
	w.t.Helper()
	for range 12 {
		w.settle()
		w.offer()
		w.settle()
		for range 40 {
			w.bindOne()
		}
	}
	w.settle()
	bound := int64(0)
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if want := min(int64(len(w.pods)), 12); bound != want {
		w.t.Fatalf("%d of %d pods bound, room for 12: want %d", bound, len(w.pods), want)
	}
	w.audit()
}

// A pod that fits nowhere gets a verdict with upstream's message, once per attempt, and leaves nothing staged.
func TestUnplaceablePodGetsAReason(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.addNode("n0", 0)
	w.addPod("p0")
	w.settle()
	w.offer()
	w.settle()
	d := w.shards[0].decisions
	if len(d) != 1 || d[0].Kind != events.DecisionUnplaceable {
		t.Fatalf("decisions %+v: want one that is unplaceable", d)
	}
	if want := "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: " +
		"1 Preemption is not helpful for scheduling."; d[0].Message != want {
		t.Errorf("message %q, want %q", d[0].Message, want)
	}
	if d[0].Token == "" || d[0].Attempt != 1 || d[0].NodesTotal != 1 {
		t.Errorf("verdict lacks its token, attempt or nodes: %+v", d[0])
	}
}

// The queue determines the partition of a pod: its reservation is made under the epoch of that partition, and
// records it.
func TestAReservationIsOfThePartitionOffered(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.addNode("n0", 10)
	w.addPod("p0")
	w.settle()
	w.offer()
	s := w.shards[0]
	group := (s.offers[0].Partition + 1) % ledger.Partitions
	s.offers[0].Partition = group
	w.settle()
	docs := w.docs()
	if len(docs) != 1 || len(docs[0].Entries) != 1 || docs[0].Entries[0].Partition() != group {
		t.Errorf("documents %+v, want one reservation of partition %d", docs, group)
	}
}

// A draining shard gives back what it has not sent and accepts no more offers; the transaction in flight still
// counts.
func TestDrainGivesBackWhatIsNotSent(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.addNode("n0", 100)
	for p := range 40 {
		w.addPod(fmt.Sprintf("p%d", p))
	}
	w.settle()
	s := w.shards[0]
	w.offer()
	offers := s.offers
	s.offers = nil
	w.step(s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: offers}}})
	out, err := checked(s.core.Step(step.Input{Drain: true, Beat: true}, w.now))
	if err != nil {
		t.Fatal(err)
	}
	sent := len(w.answerAll(s))
	if sent == 0 || sent+len(out.Request.Return) != 40 {
		t.Fatalf("%d sent, %d given back: want 40 in all and some sent", sent, len(out.Request.Return))
	}
	if out.Request.Window != 0 {
		t.Errorf("a draining shard asks for %d pods", out.Request.Window)
	}
	again := []work.OfferBatch{{Term: 1, Offers: offers[:1]}}
	late, err := checked(s.core.Step(step.Input{Offers: again, Beat: true}, w.now))
	if err != nil {
		t.Fatal(err)
	}
	if !late.Idle || len(late.Request.Return) != 1 {
		t.Errorf("an offer that came late is not given back: %+v", late)
	}
}

// answerAll commits the transaction in flight and returns what it placed.
func (w *world) answerAll(s *shard) []events.Decision {
	before := len(s.decisions)
	c := s.commit
	s.commit = nil
	w.step(s, step.Input{Results: []step.Result{{ID: c.ID, Txn: w.commit(c.Txn)}}})
	return s.decisions[before:]
}

// The same inputs give the same decisions: nothing in the core depends on the clock, on
// map order or on chance.
func TestDecisionsAreReproducible(t *testing.T) {
	run := func() string {
		w := newWorld(t, 7, 2)
		for n := range 5 {
			w.addNode(fmt.Sprintf("n%d", n), 4)
		}
		for p := range 12 {
			w.addPod(fmt.Sprintf("p%d", p))
		}
		w.settle()
		w.offer()
		w.settle()
		text := ""
		for _, s := range w.shards {
			for _, d := range s.decisions {
				text += fmt.Sprintf("%s %s %s %s\n", s.id, d.Kind, d.Pod.Name, d.NodeName)
			}
		}
		return text
	}
	first := run()
	if first == "" {
		t.Fatal("nothing decided")
	}
	if again := run(); again != first {
		t.Errorf("two runs differ:\n%s\n---\n%s", first, again)
	}
}
