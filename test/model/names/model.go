package names

import (
	"fmt"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a scenario, with at most one part of the protocol taken away.
type model struct {
	scenario
	ablated string
}

func (m *model) without(what string) bool { return m.ablated == what }

func does(text string, args ...uint8) explore.Step {
	s := explore.Step{Text: text}
	for i, a := range args {
		*[]*uint8{&s.A, &s.B, &s.C}[i] = a
	}
	return s
}

// explored returns the model in the form that the explorer takes. At the start all facts give the name to node 1, and
// the ledger is empty.
func (m *model) explored(limit int) explore.Compact[world] {
	start := world{node: 1, left: m.limits}
	for i := range start.shards {
		start.shards[i].node = 1
	}
	if m.before {
		start.node, start.shards[1].node = 2, 2
		start.docs[1] = doc{exists: true, entries: pod(0), node: 1}
		start.docs[2] = doc{exists: true, node: 2}
		for i := range start.shards {
			start.shards[i].read = start.ledger
		}
	}
	return explore.Compact[world]{Start: start, Next: m.next, Key: key, Broken: m.broken, Limit: limit}
}

func (m *model) next(w *world, step stepFunc) {
	if w.left.registrations > 0 {
		t := *w
		t.left.registrations--
		t.node++
		step(does("the node is deleted, and registers again as node %d", t.node), t)
	}
	for i := range w.shards {
		m.learn(w, i, step)
		m.admit(w, i, step)
		for p := range m.owner {
			m.place(w, i, p, step)
		}
	}
	for uid := 1; uid < maxUIDs; uid++ {
		for p := range m.owner {
			m.leave(w, uid, p, step)
		}
		m.collect(w, uid, step)
	}
}

// learn lets a shard read something: which node has the name, the next bound pod, or the ledger.
func (m *model) learn(w *world, i int, step stepFunc) {
	s := &w.shards[i]
	if s.node < w.node {
		t := *w
		t.shards[i].node++
		step(does("shard %d reads that the name is node %d's", uint8(i), t.shards[i].node), t)
	}
	if s.progress < w.rev {
		t := *w
		t.shards[i].progress++
		step(does("shard %d reads bind %d", uint8(i), t.shards[i].progress), t)
	}
	if s.moved|s.ahead != 0 {
		t := *w
		t.shards[i].read, t.shards[i].moved, t.shards[i].gone, t.shards[i].ahead = w.ledger, 0, 0, 0
		step(does("shard %d reads the ledger", uint8(i)), t)
	}
}

// leave removes an entry: its pod is bound (to the name, whichever node has it now), it is handed over after the
// bind, or a fence takes it back.
func (m *model) leave(w *world, uid, p int, step stepFunc) {
	if w.docs[uid].entries&pod(p) == 0 {
		return
	}
	gone := *w
	d := &gone.docs[uid]
	d.entries &^= pod(p)
	if w.bound[p] != 0 {
		d.pods = max(d.pods, w.bound[p])
		gone.wrote(-1, 1<<uid)
		step(does("p%d's entry in the document of node %d is handed over", uint8(p), uint8(uid)), gone)
		return
	}
	if w.left.fences > 0 {
		gone.left.fences--
		gone.wrote(-1, 1<<uid)
		step(does("a fence takes p%d's entry in the document of node %d back", uint8(p), uint8(uid)), gone)
	}
	t := *w
	t.rev++
	t.bound[p] = t.rev
	step(does("a binder finds p%d's entry in the document of node %d, and binds it to the name", uint8(p), uint8(uid)), t)
}

// broken is I2, of the name.
func (m *model) broken(w *world) string {
	count := 0
	for p := range m.owner {
		if w.bound[p] != 0 {
			count++
			continue
		}
		for uid := 1; uid < maxUIDs; uid++ {
			count += int(w.docs[uid].entries >> p & 1)
		}
	}
	if count > 1 {
		return fmt.Sprintf("%d pods have the room of one", count)
	}
	return ""
}

// key distinguishes states by everything they hold. A shard's copy of the ledger is part of it only if keys have
// changed since it was read.
func key(w *world, buf []byte) []byte {
	l := w.left
	buf = append(buf, l.placements<<4|l.fences, l.registrations<<4|l.collections, w.node<<4|w.rev)
	buf = append(buf, w.bound[:]...)
	buf = w.key(buf)
	for i := range w.shards {
		s := &w.shards[i]
		buf = append(buf, s.node<<4|s.progress, s.moved, s.gone, s.ahead)
		if s.moved != 0 {
			buf = s.read.key(buf)
		}
	}
	return buf
}

func (l *ledger) key(buf []byte) []byte {
	for uid := 1; uid < maxUIDs; uid++ {
		d := l.docs[uid]
		buf = append(buf, bit(d.exists)|bit(d.superseded)<<1|d.entries<<2, d.pods<<4|d.node)
	}
	return append(buf, l.incarnation|bit(l.collected)<<7, l.floorPods)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
