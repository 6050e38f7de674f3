package audit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// TestACleanHistoryHasNoFindings covers one pod's whole life, a fence, a pod that finishes and frees its node, a
// foreign pod, a node that shrinks, and a takeover: none of it is a finding.
func TestACleanHistoryHasNoFindings(t *testing.T) {
	s := begin(t).node("n", "2", nil)
	s.pod("a", "1").pod("b", "1").place("n", "a", "b")
	s.mark()
	s.bind("a", "n")
	s.state("n", "b", ledger.Fencing)
	s.drop("n", "b", s.fence("b"))
	s.place("n", "b")
	s.bind("b", "n")
	s.mark()
	s.update("a", succeeds)
	s.mark()
	s.pod("c", "1")
	s.edit("n", func(d *ledger.NodeDoc) {
		d.Entries, d.HW = []ledger.Entry{s.entry("c")}, map[string]uint64{ledger.KindPod: s.rv, ledger.KindNode: s.rv}
	})
	s.bind("c", "n")
	s.change("n", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1") })
	p := ledger.PartitionOf("d-uid")
	s.key(recording.LedgerEvent{Key: roster.KeyOwn(p), Deleted: true})
	s.key(recording.LedgerEvent{Key: roster.KeyOwn(p), Value: s.must(roster.EncodeOwner(roster.Owner{Member: "s2"}))})
	s.node("m", "1", nil).pod("d", "500m").pod("x", "500m")
	s.foreign("x", "m")
	s.edit("m", func(d *ledger.NodeDoc) {
		e := s.entry("d")
		e.Shard = "s2"
		d.Entries = []ledger.Entry{e}
	})
	s.bind("d", "m")
	r := s.finds()
	want := Counts{Nodes: 2, Pods: 5, Reserved: 5, Bound: 4, Foreign: 1, HandedOver: 2, Fenced: 1, Takeovers: 1}
	if r.Counts != want || !r.Complete {
		t.Errorf("counts %+v, complete %v, notes %q; want %+v and complete", r.Counts, r.Complete, r.Notes, want)
	}
}

func TestCapacity(t *testing.T) {
	t.Run("S1: two shards put two pods where one fits", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a").place("n", "b")
		s.finds("violation S1 node/n pod/d/b")
	})
	t.Run("S1: an entry left before every shard could see the bind", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a")
		s.bind("a", "n")
		s.drop("n", "a", s.podRV["a"])
		s.place("n", "b")
		s.finds("violation S1 node/n pod/d/b")
	})
	t.Run("S1: the API server alone shows it too", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a").place("n", "b")
		s.bind("a", "n")
		s.bind("b", "n")
		s.finds("violation S1 node/n pod/d/b", "violation S1 node/n pod/d/b")
	})
	t.Run("a pod that has ended makes room, if it may have ended before the decision", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a")
		s.bind("a", "n")
		s.place("n", "b") // the recorder saw this before it saw the end of a
		s.update("a", succeeds)
		s.finds()
	})
	t.Run("S1: it does not, if a mark says that it ended later", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a")
		s.bind("a", "n")
		s.place("n", "b")
		s.mark()
		s.update("a", succeeds)
		s.finds("violation S1 node/n pod/d/b")
	})
	t.Run("S1: too many pods", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1m").pod("b", "1m")
		s.change("n", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1") })
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindNode] = s.rv })
		s.place("n", "a", "b").finds("violation S1 node/n pod/d/a pod/d/b")
	})
	t.Run("S1: less is reserved than the pod asks for", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "500m")
		s.edit("n", func(d *ledger.NodeDoc) {
			e := s.entry("a")
			e.Requests = map[string]int64{"cpu": 100}
			d.Entries = []ledger.Entry{e}
		})
		s.finds("violation S1 pod/d/a node/n")
	})
	t.Run("S1: a foreign pod that every shard must have seen", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("x", "600m")
		rv := s.foreign("x", "n")
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = rv })
		s.place("n", "a").finds("violation S1 node/n pod/d/a")
	})
	t.Run("a foreign pod that a shard may not have seen is nobody's mistake", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "600m").pod("x", "600m")
		s.foreign("x", "n")
		s.place("n", "a")
		s.bind("a", "n")
		s.finds("warning S1 node/n pod/d/a")
	})
}

func TestBinds(t *testing.T) {
	t.Run("I3: bound without a reservation", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.tokens["a"] = 7
		s.bind("a", "n")
		s.finds("violation I3 pod/d/a node/n")
	})
	t.Run("I3: bound to another node than reserved", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).node("m", "1", nil).pod("a", "1").place("n", "a")
		s.bind("a", "m")
		s.finds("violation I3 pod/d/a node/m")
	})
	t.Run("I3: bound while held", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.edit("n", func(d *ledger.NodeDoc) {
			e := s.entry("a")
			e.State = ledger.Held
			d.Entries = []ledger.Entry{e}
		})
		s.bind("a", "n")
		s.finds("violation I3 pod/d/a node/n")
	})
	t.Run("S2: bound after its reservation was released", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.state("n", "a", ledger.Fencing)
		s.drop("n", "a", s.fence("a"))
		s.bind("a", "n")
		s.finds("violation S2 pod/d/a node/n")
	})
	t.Run("S2: bound twice", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).node("m", "1", nil).pod("a", "1").place("n", "a")
		s.bind("a", "n")
		s.foreign("a", "m")
		s.finds("violation S2 pod/d/a node/n")
	})
	t.Run("a bind after the end of the recording of the ledger is not judged", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.mark()
		s.tokens["a"] = 7
		s.bind("a", "n")
		r, err := ReplayRecords(s.records)
		if err != nil || len(r.Findings) > 0 || r.Complete {
			t.Errorf("findings %v, complete %v, error %v; want none of them", r.Findings, r.Complete, err)
		}
	})
}

func TestReservations(t *testing.T) {
	t.Run("S3: two reservations for one pod", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).node("m", "1", nil).pod("a", "1").place("n", "a").place("m", "a")
		s.finds("violation S3 pod/d/a node/m node/n")
	})
	t.Run("S3: two of them with a take-over in between", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).node("m", "1", nil).pod("a", "1").place("n", "a")
		p := ledger.PartitionOf("a-uid")
		s.key(recording.LedgerEvent{Key: roster.KeyOwn(p), Deleted: true})
		s.key(recording.LedgerEvent{Key: roster.KeyOwn(p), Value: s.must(roster.EncodeOwner(roster.Owner{Member: "s1"}))})
		s.place("m", "a").finds("violation S3 pod/d/a node/m node/n")
	})
	t.Run("S4: a committed reservation expired", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.drop("n", "a", s.rv+10)
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("S4: released without a change of the pod", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.state("n", "a", ledger.Fencing)
		s.drop("n", "a", s.rv+10)
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("S4 and S2: handed over at a high-water below the bind", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.bind("a", "n")
		s.drop("n", "a", s.podRV["a"]-1)
		s.finds("violation S2 pod/d/a node/n", "violation S4 pod/d/a node/n")
	})
	t.Run("S4: from Fencing back to Committed", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.state("n", "a", ledger.Fencing)
		s.state("n", "a", ledger.Committed)
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("S4: taken back for another reason than it was", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.state("n", "a", ledger.Fencing)
		s.finds()
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries[0].Cause = ledger.FenceByNode })
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("S16: promoted on a node whose name stands for another", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries[0].State = ledger.Held })
		s.edit("n", func(d *ledger.NodeDoc) { d.SupersededBy = "m" })
		s.state("n", "a", ledger.Committed)
		s.finds("violation S1 node/n pod/d/a", "violation S16 pod/d/a node/n", "violation S4 pod/d/a node/n")
	})
	t.Run("S4: rewritten under its token", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries[0].PodRV++ })
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("S4: given to plugins to bind, or taken from them, while it is Committed", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.edit("n", func(d *ledger.NodeDoc) { d.Entries[0].Delegated = true })
		s.finds("violation S4 pod/d/a node/n")
	})
	t.Run("handed over because the pod is gone", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1").place("n", "a")
		s.drop("n", "a", s.remove("a"))
		s.place("n", "b").finds()
	})
}

func TestClaimsAndAges(t *testing.T) {
	t.Run("S5: claimed by two plans, and relied upon", func(t *testing.T) {
		s := begin(t).node("n", "1", nil)
		s.edit("n", func(d *ledger.NodeDoc) {
			v := ledger.Entry{PodUID: "v", Namespace: "d", Name: "v", Role: ledger.RoleVictim, Plan: "1"}
			w, k := v, v
			w.Plan, k.Role = "2", ledger.RoleKeeper
			d.Entries = []ledger.Entry{v, w, k}
		})
		s.finds("violation S5 pod/d/v node/n", "violation S5 pod/d/v node/n")
	})
	t.Run("S10: a held place taken by an equal", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1")
		s.edit("n", func(d *ledger.NodeDoc) {
			e := s.entry("a")
			e.State, e.Priority = ledger.Held, 5
			d.Entries = []ledger.Entry{e}
		})
		s.edit("n", func(d *ledger.NodeDoc) {
			e := s.entry("b")
			e.Priority = 5
			d.Entries = []ledger.Entry{e}
		})
		s.finds("violation S10 pod/d/a pod/d/b node/n")
	})
	t.Run("L2: nobody resolves a reservation", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.mark()
		s.later(600)
		s.finds("warning L2 pod/d/a node/n")
	})
}

func TestDocumentsThatGo(t *testing.T) {
	t.Run("S12: a document is deleted without the floor", func(t *testing.T) {
		s := begin(t).node("n", "1", nil)
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = 9 })
		s.key(recording.LedgerEvent{Key: ledger.KeyNode("n-uid"), Deleted: true})
		s.finds("violation S12 node/n ledger/n/n-uid")
	})
	t.Run("S12: a document is deleted with a reservation in it", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.key(recording.LedgerEvent{Key: ledger.KeyFloor, Value: s.must(codec.EncodeFloor(ledger.Floor{
			HW: map[string]uint64{ledger.KindPod: 500, ledger.KindNode: 500},
		}))})
		s.key(recording.LedgerEvent{Key: ledger.KeyNode("n-uid"), Deleted: true})
		s.finds("violation S12 node/n ledger/n/n-uid")
	})
	t.Run("S12: a claim's document is deleted while the pod that has the claim is reserved", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1").place("n", "a")
		of := func(key string) recording.LedgerEvent {
			e := s.docs["n"].Entries[0]
			return recording.LedgerEvent{Key: key, Value: s.must(codec.EncodeExclusive(ledger.ExclusiveDoc{
				Key: key, Holders: []ledger.Holder{{PodUID: e.PodUID, Token: e.Token, NodeUID: "n-uid"}},
			}))}
		}
		early, late := ledger.KeyVolume("early"), ledger.KeyVolume("late")
		s.key(of(early))
		s.key(of(late))
		s.key(recording.LedgerEvent{Key: early, Deleted: true})
		s.drop("n", "a", s.bind("a", "n"))
		s.key(recording.LedgerEvent{Key: late, Deleted: true})
		s.finds("violation S12 ledger/" + early)
	})
	t.Run("S12: a document is collected, and the floor sinks", func(t *testing.T) {
		s := begin(t).node("n", "1", nil)
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = 9 })
		floor := func(rv uint64) recording.LedgerEvent {
			hw := map[string]uint64{ledger.KindPod: rv}
			return recording.LedgerEvent{Key: ledger.KeyFloor, Value: s.must(codec.EncodeFloor(ledger.Floor{HW: hw}))}
		}
		s.key(floor(9))
		s.key(recording.LedgerEvent{Key: ledger.KeyNode("n-uid"), Deleted: true})
		s.key(floor(8))
		s.finds("violation S12 ledger/floor")
	})
	t.Run("S1 and S16: two nodes of one name", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").pod("b", "1").place("n", "a")
		old := s.docs["n"]
		s.happens(recording.Object{Kind: recording.KindNode, UID: "n-uid", Gone: true})
		again := s.nodes["n"].DeepCopy()
		again.UID = "n-uid-2"
		s.happens(recording.Object{Kind: recording.KindNode, UID: "n-uid-2", Node: again})
		s.docs["n"] = ledger.NodeDoc{NodeUID: "n-uid-2", NodeName: "n"}
		s.place("n", "b")
		s.docs["n"] = old
		s.edit("n", func(d *ledger.NodeDoc) { d.SupersededBy = "n-uid-2" })
		s.pod("c", "0").place("n", "c")
		s.finds("violation S1 node/n pod/d/b", "violation S16 pod/d/c node/n")
	})
}

func TestOwnersAndDocuments(t *testing.T) {
	t.Run("S11: reserved by a shard that does not own the partition", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.edit("n", func(d *ledger.NodeDoc) {
			e := s.entry("a")
			e.Shard = "s2"
			d.Entries = []ledger.Entry{e}
		})
		s.finds("violation S11 pod/d/a node/n")
	})
	t.Run("S11: reserved while nobody owns the partition", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.key(recording.LedgerEvent{Key: roster.KeyOwn(ledger.PartitionOf("a-uid")), Deleted: true})
		s.place("n", "a").finds("violation S11 pod/d/a node/n")
	})
	t.Run("S11: another owner under the same epoch", func(t *testing.T) {
		s := begin(t)
		s.key(recording.LedgerEvent{
			Key: roster.KeyOwn(7), Value: s.must(roster.EncodeOwner(roster.Owner{Member: "s2"})), Create: 1,
		})
		s.finds("violation S11 ledger/own/007")
	})
	t.Run("S12: a high-water sinks", func(t *testing.T) {
		s := begin(t).node("n", "1", nil)
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = 9 })
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = 8 })
		s.finds("violation S12 node/n ledger/n/n-uid")
	})
	t.Run("S12: a guard is deleted while its term is in use", func(t *testing.T) {
		s := begin(t)
		term := registry.Term{
			Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{Namespaces: []string{"d"}}},
		}
		value := s.must(registry.EncodeTerm(registry.RegisteredTerm{Term: term}))
		guard := registry.KeyGuard(term.ID(), "a", registry.Carriers)
		s.key(recording.LedgerEvent{Key: registry.KeyTerm(term.ID()), Value: value})
		s.key(recording.LedgerEvent{Key: guard, Deleted: true})
		s.finds("violation S12 ledger/" + guard)
	})
	t.Run("form: a value that nobody can read", func(t *testing.T) {
		s := begin(t)
		s.key(recording.LedgerEvent{Key: ledger.KeyNode("n-uid"), Value: []byte("?")})
		s.finds("violation form ledger/n/n-uid")
	})
}

func TestPlaces(t *testing.T) {
	zone := func(z string) map[string]string { return map[string]string{"zone": z} }
	t.Run("fit: a node that the pod does not select", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		})
		s.place("n", "a").finds("violation fit pod/d/a node/n")
	})
	t.Run("fit: a node that had been cordoned", func(t *testing.T) {
		s := begin(t).node("n", "1", nil)
		s.change("n", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindNode] = s.rv })
		s.pod("a", "1").place("n", "a").finds("violation fit pod/d/a node/n")
	})
	t.Run("a cordon that the shard may not have seen", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.change("n", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		s.place("n", "a").finds()
	})
	t.Run("S7: one port for two pods", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1m", port(80)).pod("b", "1m", port(80)).place("n", "a").place("n", "b")
		s.finds("violation S7 pod/d/b pod/d/a node/n")
	})
	t.Run("S7: anti-affinity, carried by the second", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("z"))
		s.pod("a", "1m", labelled("app", "x")).pod("b", "1m", apart("zone", "app", "x")).place("n", "a").place("m", "b")
		s.finds("violation S7 pod/d/b pod/d/a node/m node/n")
	})
	t.Run("S7: anti-affinity, carried by the first, which is bound and handed over", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("z"))
		s.pod("a", "1m", apart("zone", "app", "x")).pod("b", "1m", labelled("app", "x")).place("n", "a")
		s.drop("n", "a", s.bind("a", "n"))
		s.place("m", "b").finds("violation S7 pod/d/b pod/d/a node/m node/n")
	})
	t.Run("anti-affinity to another zone", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("y"))
		s.pod("a", "1m", labelled("app", "x")).pod("b", "1m", apart("zone", "app", "x")).place("n", "a").place("m", "b")
		s.finds()
	})
	t.Run("S7: a skew of two", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("y"))
		for _, p := range []string{"a", "b", "c"} {
			s.pod(p, "1m", labelled("app", "x"), even("zone", "app", "x"))
		}
		s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindNode] = s.rv })
		s.place("n", "a").place("n", "b").finds("violation S7 pod/d/b node/n")
	})
	t.Run("two at once, one in each zone", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("y"))
		s.pod("a", "1m", labelled("app", "x"), even("zone", "app", "x"))
		s.pod("b", "1m", labelled("app", "x"), even("zone", "app", "x"))
		s.place("n", "a").place("m", "b").finds()
	})
	t.Run("S7: affinity to nobody", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).node("m", "1", zone("y"))
		s.pod("a", "1m", labelled("app", "x")).pod("b", "1m", together("zone", "app", "x")).place("n", "a").place("m", "b")
		s.finds("violation S7 pod/d/b node/m")
	})
	t.Run("the first of its kind", func(t *testing.T) {
		s := begin(t).node("n", "1", zone("z")).pod("a", "1m", labelled("app", "x"), together("zone", "app", "x"))
		s.place("n", "a").finds()
	})
}

// TestPodOnADeletedNodeAddsNoSkew checks that a pod on a deleted node counts for no domain, so that it adds nothing
// to a skew.
func TestPodOnADeletedNodeAddsNoSkew(t *testing.T) {
	z, y := map[string]string{"zone": "z"}, map[string]string{"zone": "y"}
	s := begin(t).node("n", "1", z).node("old", "1", z).node("m", "1", y)
	for _, p := range []string{"a", "b"} {
		s.pod(p, "1m", labelled("app", "x"), even("zone", "app", "x"))
	}
	s.edit("n", func(d *ledger.NodeDoc) { d.HW[ledger.KindNode] = s.rv })
	s.place("old", "a")
	s.bind("a", "old")
	s.happens(recording.Object{Kind: recording.KindNode, UID: "old-uid", Gone: true})
	s.place("n", "b").finds()
}

// TestMissedParts checks that the report states which parts a recorder missed, and judges them only where nothing
// can excuse a finding.
func TestMissedParts(t *testing.T) {
	t.Run("of the ledger", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1")
		s.revision += 5
		s.records = append(s.records, recording.Record{Ledger: &recording.Ledger{Revision: s.revision, Listed: true}})
		s.tokens["a"] = 7
		s.bind("a", "n")
		if r := s.finds(); r.Complete || len(r.Notes) == 0 {
			t.Errorf("complete %v, notes %q: want it to say what is missing", r.Complete, r.Notes)
		}
	})
	t.Run("of a pod", func(t *testing.T) {
		s := begin(t).node("n", "1", nil).pod("a", "1").place("n", "a")
		s.state("n", "a", ledger.Fencing)
		s.drop("n", "a", s.rv+10)
		s.rv += 20
		s.records = append(s.records, recording.Record{Object: &recording.Object{
			Kind: recording.KindPod, UID: "a-uid", RV: s.rv, After: s.rv - 20, Missed: true, Pod: s.pods["a"],
		}})
		if r := s.finds(); r.Complete {
			t.Error("a history with a gap calls itself complete")
		}
	})
}
