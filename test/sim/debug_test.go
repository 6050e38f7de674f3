package sim

import (
	"fmt"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/membership"
)

func (w *world) dump() string {
	s := ""
	last, _ := w.log.Last(w.ctx, events.Facts)
	s += fmt.Sprintf("log last %d, ledger %d, api rv %d\n", last, w.store.Revision(), w.api.rv)
	for _, q := range w.queues {
		s += fmt.Sprintf("%s up %v paused %v lease %+v alive %v reign{cand %x running %v term %d led %v rounds %d round %+v} pos %v caught %v ready %v hist %+v listed %v\n", q.member(), q.up, q.paused(), q.lease, w.leases.alive(q.id), q.candidate, q.running, q.term, q.led, q.rounds, q.round != nil, q.facts.Snapshot().Position(), q.caughtUp, q.facts.Ready(), q.history, q.listed)
		if q.round != nil {
			s += fmt.Sprintf("   round epoch %d synced %v failed %v watched %v out %d\n", q.round.epoch, q.round.synced, q.round.failed, q.round.watched, len(q.round.out))
		}
	}
	for _, p := range w.shards {
		s += fmt.Sprintf("%s up %v lease %+v rev %d pos %v pic %d members %v keeper waiting %v ready %v idle %v\n", p.member(), p.up, p.lease, p.revision, p.core.Position(), p.keeps.picture.Revision, p.keeps.picture.Members, p.keeps.waiting, p.core.Ready(), p.idle)
	}
	for _, p := range w.binders {
		s += fmt.Sprintf("%s up %v lease %+v rev %d ready %v stats %+v\n", p.member(), p.up, p.lease, p.revision, p.core.Ready(), p.core.Stats())
	}
	s += fmt.Sprintf("calls %d, messages %d\n", len(w.calls), len(w.messages))
	return s
}

func init() {
	dumpWorld = func(w *world) {
		if w.trace != nil {
			fmt.Println(w.dump())
			w.dumpPods()
			w.dumpKeeper()
		}
	}
}

func (w *world) dumpPods() {
	for _, n := range w.api.nodes() {
		fmt.Println(n.Name, n.Labels["topology.kubernetes.io/zone"], "room", room(n), "cordoned", n.Spec.Unschedulable, "rv", n.ResourceVersion)
	}
	for _, p := range w.api.pods() {
		fmt.Print(p.Name, " app ", p.Labels["app"], " on ", p.Spec.NodeName, " rv ", p.ResourceVersion, " phase ", p.Status.Phase, " del ", p.DeletionTimestamp != nil, " gates ", len(p.Spec.SchedulingGates))
		for _, q := range w.queues {
			a, b := q.core.Where(string(p.UID))
			fmt.Print(" | ", a, ": ", b)
		}
		fmt.Println()
	}
}

func (w *world) dumpKeeper() {
	for _, s := range w.shards {
		k := s.keeps
		take, _ := membership.PlanPartitions(k.picture.Holders, k.picture.Members, s.member())
		held := map[string]int{}
		for _, h := range k.picture.Holders {
			held[h.Member]++
		}
		fmt.Println(s.member(), "picture", k.picture.Revision, "written", k.written, "take", len(take), "held", held, "registered", s.registered, "more", s.more, "pending next...")
	}
	held := map[string]int{}
	for _, o := range w.oracle.truth.Owners() {
		held[o.Member]++
	}
	fmt.Println("truth", held)
}
