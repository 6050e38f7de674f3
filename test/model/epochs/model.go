package epochs

import (
	"math/bits"
	"slices"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a cluster, with parts of the protocol taken away.
type model struct {
	pods int
	limits
	ablated []string
	// counting: decisions of an ended epoch may commit; only their consequences count as violations.
	counting bool
}

func (m *model) without(what string) bool { return slices.Contains(m.ablated, what) }

func does(text string, args ...uint8) explore.Step {
	s := explore.Step{Text: text}
	for i, a := range args {
		*[]*uint8{&s.A, &s.B, &s.C}[i] = a
	}
	return s
}

func name(node int) uint8 { return 'a' + uint8(node) }

// explored returns the model in the form that the explorer takes. At the start the first shard has the partition, and
// all shards know that.
func (m *model) explored(limit int) explore.Compact[world] {
	start := world{left: m.limits, revision: 1, first: 1}
	start.now.own(1, 1)
	for i := range shards {
		start.shards[i].ledgerState, start.shards[i].at = start.now, 1
	}
	return explore.Compact[world]{Start: start, Next: m.next, Key: key, Broken: m.broken, Limit: limit}
}

func (m *model) next(w *world, step stepFunc) {
	if w.violation != 0 {
		return
	}
	m.own(w, step)
	for i := range shards {
		m.read(w, i, step)
		m.answer(w, i, step)
		for p := range m.pods {
			m.decide(w, i, p, step)
			m.submit(w, i, p, step)
		}
	}
	for n := range nodes {
		for p := range m.pods {
			if w.left.fences == 0 || w.now.docs[n].entries>>p&1 == 0 {
				continue
			}
			t := *w
			t.left.fences--
			t.write(event{node: uint8(n), entries: w.now.docs[n].entries &^ (1 << p)})
			step(does("a fence takes p%d's reservation of node %c back", uint8(p), name(n)), t)
		}
	}
}

// own lets the owner's lease end, or a shard take the partition (T13).
func (m *model) own(w *world, step stepFunc) {
	if w.now.owner != 0 {
		if w.left.takes > 0 {
			t := *w
			t.write(event{node: nodes})
			step(does("shard %d's lease ends", w.now.owner-1), t)
		}
		return
	}
	for i := range uint8(shards) {
		t := *w
		t.left.takes--
		t.write(event{node: nodes, owner: i + 1})
		step(does("shard %d takes the partition", i), t)
	}
}

// read is the next event of a shard's watch.
func (m *model) read(w *world, i int, step stepFunc) {
	if w.shards[i].at == w.revision {
		return
	}
	t := *w
	s := &t.shards[i]
	e := w.log[s.at-w.first]
	s.at++
	s.apply(e, s.at)
	t.forget()
	switch {
	case e.node < nodes:
		step(does("shard %d reads the document of node %c", uint8(i), name(int(e.node))), t)
	case e.owner == 0:
		step(does("shard %d reads that the partition has no owner", uint8(i)), t)
	default:
		step(does("shard %d reads that shard %d has the partition", uint8(i), e.owner-1), t)
	}
}

func (m *model) broken(w *world) string {
	switch w.violation {
	case overEpoch:
		return "what was decided in an epoch that is over is committed"
	case logFull:
		return "the model's log is full"
	}
	all := uint8(0)
	for n := range nodes {
		entries := w.now.docs[n].entries
		if bits.OnesCount8(entries) > 1 {
			return "a node has two pods and room for one"
		}
		if all&entries != 0 {
			return "a pod is reserved twice"
		}
		all |= entries
	}
	return ""
}

// key distinguishes states by everything they hold; of revisions only their order and equality matter.
func key(w *world, buf []byte) []byte {
	seen := uint64(0)
	all := func(visit func(r uint8)) {
		visit(w.revision)
		visit(w.first)
		w.now.revisions(visit)
		for i := range shards {
			s := &w.shards[i]
			visit(s.at)
			visit(s.over)
			s.revisions(visit)
			for _, p := range s.picks {
				visit(p.basis)
				visit(p.epoch)
			}
			visit(s.flight.basis)
			visit(s.flight.epoch)
			visit(s.flight.sent)
		}
	}
	for r := w.first; r <= w.revision; r++ {
		seen |= 1 << r
	}
	all(func(r uint8) { seen |= 1 << r })
	rank := func(r uint8) byte { return byte(bits.OnesCount64(seen & (1<<r - 1))) }
	buf = append(buf, w.left.placements<<4|w.left.takes, w.left.fences, w.violation)
	all(func(r uint8) { buf = append(buf, rank(r)) })
	buf = append(buf, w.now.owner, w.now.docs[0].entries<<4|w.now.docs[1].entries)
	for i := range shards {
		s := &w.shards[i]
		buf = append(buf, s.owner, s.docs[0].entries<<4|s.docs[1].entries, s.flight.pod<<4|s.flight.node,
			s.picks[0].node<<4|s.picks[1].node)
	}
	for _, e := range w.log[:w.revision-w.first] {
		buf = append(buf, e.node<<4|e.owner, e.entries)
	}
	return buf
}

func (p *ledgerState) revisions(visit func(r uint8)) {
	for n := range nodes {
		visit(p.docs[n].revision)
	}
	visit(p.epoch)
	visit(p.changed)
}
