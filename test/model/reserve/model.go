package reserve

import (
	"bytes"
	"math/bits"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a scenario, with at most one part of the protocol taken away.
type model struct {
	scenario
	ablated string
	// symmetries are the ways to rename pods and nodes that change nothing.
	symmetries []renaming
	// scratch is for the key under each of them.
	scratch []byte
}

type renaming struct{ pods, nodes []int }

func newModel(s scenario, ablated string) *model {
	m := &model{scenario: s, ablated: ablated}
	for _, nodes := range permutations(s.nodes) {
		for _, pods := range permutations(len(s.owner)) {
			same := true
			for p, q := range pods {
				same = same && s.owner[p] == s.owner[q]
			}
			if same {
				m.symmetries = append(m.symmetries, renaming{pods: pods, nodes: nodes})
			}
		}
	}
	return m
}

func permutations(n int) [][]int {
	first := make([]uint8, n)
	for i := range first {
		first[i] = uint8(i)
	}
	var out [][]int
	for _, o := range orders(first) {
		p := make([]int, n)
		for i, x := range o {
			p[i] = int(x)
		}
		out = append(out, p)
	}
	return out
}

func (m *model) without(what string) bool { return m.ablated == what }

func (m *model) shards() int {
	n := 0
	for _, o := range m.owner {
		n = max(n, o+1)
	}
	return n
}

// explored is everything that can happen, or the shortest way to what must not.
func (m *model) explored(limit int) (explore.Result, error) {
	start := world{left: m.limits, rev: 1}
	for p := range m.owner {
		start.pods[p].rv = 1
		start.log.before[p].rv = 1
		for i := range m.shards() {
			start.shards[i].cache[p].rv = 1
			start.shards[i].progress = 1
		}
	}
	return explore.RunCompact(explore.Compact[world]{
		Start: start, Next: m.next, Key: m.key, Broken: m.broken, Limit: limit,
	})
}

func does(text string, args ...uint8) explore.Step {
	s := explore.Step{Text: text}
	for i, a := range args {
		*[]*uint8{&s.A, &s.B, &s.C}[i] = a
	}
	return s
}

func name(n int) uint8 { return 'a' + uint8(n) }

func (m *model) next(w *world, step stepFunc) {
	if w.wrong != nothing {
		return
	}
	for i := range m.shards() {
		m.read(w, i, step)
		m.readDocs(w, i, step)
		m.decide(w, i, step)
	}
	for p := range m.owner {
		m.land(w, p, step)
		for n := range m.nodes {
			m.bind(w, p, n, step)
			m.handOver(w, p, n, step)
			m.fence(w, p, n, step)
		}
		m.others(w, p, step)
	}
	m.fail(w, step)
	m.lead(w, step)
}

// broken checks I2: what is bound and what may still be bound never exceed the room there
// is. And, of the full protocol, that a release is final.
func (m *model) broken(w *world) string {
	for n := range m.nodes {
		count := 0
		for p := range m.owner {
			if w.pods[p].on(n) || w.pods[p].pending() && w.docs[n].entries[p].state != none {
				count++
			}
		}
		if count > m.capacity {
			return overcommitted.String()
		}
	}
	if w.wrong == boundAfterRelease && m.ablated != "" {
		return ""
	}
	return w.wrong.String()
}

// key tells states apart. Of resourceVersions only their order matters, and of that only who
// has reached which of those that are or may become a document's high-water.
func (m *model) key(w *world, buf []byte) []byte {
	levels := m.levels(w)
	for i, as := range m.symmetries {
		m.scratch = m.keyAs(w, as, levels, m.scratch[:0])
		if i == 0 || bytes.Compare(m.scratch, buf) < 0 {
			buf = append(buf[:0], m.scratch...)
		}
	}
	return buf
}

// levels are, as bits, the resourceVersions that somebody may have to reach yet.
func (m *model) levels(w *world) uint64 {
	var all uint64
	for n := range m.nodes {
		all |= 1 << w.docs[n].hw
		for p := range m.owner {
			all |= 1 << w.docs[n].entries[p].changed
		}
	}
	for p := range m.owner {
		if w.left.placements > 0 || w.pods[p].pick != 0 || w.reserved(m.nodes, p) {
			all |= 1 << w.pods[p].since
		}
	}
	reached := w.rev
	for i := range m.shards() {
		reached = min(reached, w.shards[i].progress)
	}
	return all &^ (2<<reached - 1)
}

// level is how many of the levels a resourceVersion has reached.
func level(levels uint64, rv uint8) byte { return byte(bits.OnesCount64(levels & (2<<rv - 1))) }

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (m *model) keyAs(w *world, as renaming, levels uint64, buf []byte) []byte {
	// node is a node by its new name.
	node := func(n uint8) byte {
		if n == 0 {
			return 0
		}
		return byte(1 + as.nodes[n-1])
	}
	mask := func(nodes uint8) (out byte) {
		for n := range m.nodes {
			out |= nodes >> n & 1 << as.nodes[n]
		}
		return out
	}
	seen := func(s sight, of *pod) byte {
		return node(s.node) | bit(s.gone)<<2 | bit(s.rv == of.rv)<<3
	}
	l := w.left
	buf = append(buf, l.placements<<4|l.fences<<2|l.outages, l.updates<<4|l.deletes<<2|bit(w.log.down)<<1, byte(w.wrong))
	inverse := [maxPods]int{}
	for p, q := range as.pods {
		inverse[q] = p
	}
	for _, p := range inverse[:len(m.owner)] {
		pod := &w.pods[p]
		asked := pod.asked
		if !pod.pending() {
			asked = 0
		}
		buf = append(buf, node(pod.node)|bit(pod.gone)<<2|mask(asked)<<3|node(pod.pick)<<5, level(levels, pod.since))
		if pod.pick != 0 {
			buf = append(buf, bit(pod.pickRV == pod.rv))
		}
		if m.ablated != "" {
			buf = append(buf, mask(pod.placed))
		}
		buf = append(buf, seen(w.log.before[p], pod))
		for i := range m.shards() {
			c := w.shards[i].cache[p]
			b := seen(c, pod)
			if !pod.pending() {
				b &^= 8 // whether it knows the last version matters for binds only
			}
			buf = append(buf, b)
		}
		for to := range m.nodes {
			for n := range m.nodes {
				if as.nodes[n] == to {
					e := w.docs[n].entries[p]
					buf = append(buf, byte(e.state)|bit(e.bound)<<2|bit(e.changed != 0)<<3, level(levels, e.changed))
				}
			}
		}
	}
	for to := range m.nodes {
		for n := range m.nodes {
			if as.nodes[n] != to {
				continue
			}
			buf = append(buf, level(levels, w.docs[n].hw))
			for i := range m.shards() {
				if r := w.shards[i].docs[n]; r != (read{}) {
					pods := byte(0)
					for p, q := range as.pods {
						pods |= r.entries >> p & 1 << q
					}
					buf = append(buf, 100+byte(i), pods, level(levels, r.hw))
				}
			}
		}
	}
	for i := range m.shards() {
		s := &w.shards[i]
		buf = append(buf, s.at<<2|bit(s.beyond)<<1|bit(s.blind), level(levels, s.progress))
	}
	for _, r := range w.log.records[:w.log.len] {
		buf = append(buf, byte(r.kind), level(levels, r.progress))
		if r.kind == fact {
			buf = append(buf, byte(as.pods[r.pod])<<4|seen(r.sight, &w.pods[r.pod]))
		}
	}
	return buf
}
