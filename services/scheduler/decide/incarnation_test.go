package decide_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// registerAgain deletes a node and registers another one under its name, like a kubelet that starts again: the pods
// that are bound to the name stay.
func (w *world) registerAgain(name string) {
	w.rv++
	n := w.nodeObjects[name].DeepCopy()
	w.fact(events.Fact{Kind: events.KindNode, Op: events.OpDelete, UID: string(n.UID), Name: name})
	w.rv++
	n.UID, n.ResourceVersion = types.UID(fmt.Sprintf("node-%s-%d", name, w.rv)), fmt.Sprint(w.rv)
	w.nodeObjects[name] = n
	w.nodeFact[name] = uint64(len(w.facts) + 1)
	w.publishNode(n)
}

// deliverFactsTo delivers the facts up to a number to one shard.
func (w *world) deliverFactsTo(s *shard, upTo int) {
	if s.fact < upTo {
		w.step(s, step.Input{Facts: s.fold(follow.Batch{Facts: w.facts[s.fact:upTo]})})
		s.fact = upTo
	}
}

// Two shards know different nodes of one name. Whatever each of them has read of the ledger, they do not both place
// a pod in the single room that the name has.
//
//  1. Node n0 is deleted and registers again. The first shard has not read that, the second has.
//  2. Each places a pod on n0, in either order, and with or without news of the ledger in between.
func TestNodeThatRegistersAgain(t *testing.T) {
	for _, order := range []string{"lagging first", "current first"} {
		for _, watching := range []bool{false, true} {
			for _, used := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, told %t, used before %t", order, watching, used), func(t *testing.T) {
					w := newWorld(t, 1, 2)
					w.addNode("n0", 1)
					if used {
						w.replace(ledger.NodeDoc{NodeUID: "node-n0", NodeName: "n0"}, nil)
					}
					for p := range 8 {
						w.addPod(fmt.Sprintf("p%d", p))
					}
					w.settle()
					before := len(w.facts)
					w.registerAgain("n0")
					lagging, current := w.shards[0], w.shards[1]
					w.deliverFactsTo(current, len(w.facts))
					first, second := lagging, current
					if order == "current first" {
						first, second = current, lagging
					}
					sent := []int{w.placeBy(first, watching), w.placeBy(second, watching)}
					if sent[0] == 0 || !watching && sent[1] == 0 {
						t.Errorf("the shards sent %v transactions, want both to try unless the second has seen the first's", sent)
					}
					if lagging.fact != before {
						t.Fatal("the lagging shard has read of the new node")
					}
					w.auditDocuments()
					w.settle()
					w.offer()
					w.settle()
					w.auditDocuments()
					if used := w.promisedOn()["n0"]; used != 1 {
						t.Errorf("%d pods are placed on n0 in the end, want 1", used)
					}
				})
			}
		}
	}
}

// placeBy offers a shard its pods and commits what it sends; watching: the ledger's watch reaches it first, and after
// each transaction. It returns how many transactions the shard sends. The offers have the position of the shard's
// facts: a shard waits until it has read what the queue had read.
func (w *world) placeBy(s *shard, watching bool) (sent int) {
	watch := func() {
		var in step.Input
		for ; watching && s.ledger < len(w.history); s.ledger++ {
			in.Ledger = append(in.Ledger, replica.Batch{Events: w.history[s.ledger]})
		}
		w.step(s, in)
	}
	watch()
	w.offer()
	for _, other := range w.shards {
		if other != s {
			other.offers = nil
		}
	}
	for i := range s.offers {
		s.offers[i].FactSequence = uint64(s.fact)
	}
	in := step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: s.offers}}}
	s.offers = nil
	w.step(s, in)
	for range 20 {
		if s.commit == nil {
			return sent
		}
		sent++
		c := s.commit
		s.commit = nil
		w.step(s, step.Input{Results: []step.Result{{ID: c.ID, Txn: w.commit(c.Txn)}}})
		watch()
	}
	w.t.Fatalf("%s sends one transaction after the other", s.id)
	return sent
}

// Reservations on the previous node of a name count on the name. A bind there that the facts do not show yet keeps
// the name from being used, also after its entry has left the document.
func TestPromisesOfTheNodeBeforeCount(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.addNode("n0", 2)
	w.addPod("p0")
	w.settle()
	w.reserve("pod-p0", "n0")
	w.registerAgain("n0")
	for p := range 4 {
		w.addPod(fmt.Sprintf("q%d", p))
	}
	w.settle()
	w.offer()
	w.settle()
	if used := w.promisedOn()["n0"]; used != 2 {
		t.Fatalf("%d pods are promised the room of n0, which is for 2, one of them taken by a promise before", used)
	}
	docs := w.docs()
	if len(docs) != 2 {
		t.Fatalf("%d documents, want one of each node", len(docs))
	}
	// The pod of the previous node is bound and handed over; both shards have read the hand-over, but not the bind.
	p0 := w.pods["pod-p0"]
	p0.Spec.NodeName = "n0"
	w.publish(p0)
	for _, d := range docs {
		if _, ok := d.Find("pod-p0"); ok {
			handed, changed := txns.Finish(d, truth{w})
			if !changed {
				t.Fatal("nothing was handed over")
			}
			w.replace(handed, nil)
		}
	}
	for uid := range w.pods { // the other reserved pod is deleted, so that the bound pod and one more fill the room
		if at := w.reservedAt(uid); slices.Equal(at, []string{"n0"}) {
			w.deletePod(uid)
		}
	}
	w.auditDocuments()
	for _, s := range w.shards {
		w.placeBy(s, true)
	}
	w.auditDocuments()
}

// Histories in which nodes register again at any time, with arbitrary lag.
func TestShardsNeverOvercommitNodesThatRegisterAgain(t *testing.T) {
	again, placed := 0, 0
	for seed := *incarnationFirst; seed < *incarnationFirst+*incarnationSeeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 2)
			for n := range 3 {
				w.addNode(fmt.Sprintf("n%d", n), 2)
			}
			for p := range 8 { // room for 6
				w.addPod(fmt.Sprintf("p%d", p))
			}
			w.settle()
			for range 300 {
				switch w.rng.IntN(20) {
				case 0, 1:
					w.bindOne()
				case 2, 3:
					w.offerOne()
				case 4:
					again++
					w.registerAgain(fmt.Sprintf("n%d", w.rng.IntN(3)))
				case 5:
					w.churnPod()
				default:
					w.deliver()
				}
				w.auditDocuments()
			}
			for _, s := range w.shards {
				placed += s.won
			}
		})
	}
	t.Logf("%d seeds: %d registrations, %d pods placed", *incarnationSeeds, again, placed)
}

// incarnationSeeds is how many interleavings TestShardsNeverOvercommitNodesThatRegisterAgain tries, incarnationFirst
// the seed of the first.
var (
	incarnationSeeds = flag.Uint64("incarnation-seeds", 40, "interleavings of shards whose nodes register again")
	incarnationFirst = flag.Uint64("incarnation-first", 0, "seed of the first of them")
)

// churnPod deletes a bound pod and creates another, so that there is always a pod to place.
func (w *world) churnPod() {
	for _, uid := range sortedPods(w.pods) {
		if w.pods[uid].Spec.NodeName != "" {
			w.deletePod(uid)
			w.tokens++
			w.addPod(fmt.Sprintf("r%d", w.tokens))
			return
		}
	}
}
