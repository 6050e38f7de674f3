package reserve

import (
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

// renaming gives pods and nodes new names; podAt and nodeAt are the way back.
type renaming struct{ pods, nodes, podAt, nodeAt []int }

func newModel(s scenario, ablated string) *model {
	m := &model{scenario: s, ablated: ablated}
	for _, nodes := range permutations(s.nodes) {
		for _, pods := range permutations(len(s.owner)) {
			if s.alike(pods) {
				m.symmetries = append(m.symmetries, renaming{pods, nodes, inverse(pods), inverse(nodes)})
			}
		}
	}
	return m
}

// alike reports whether each pod gets the name of one of the same shard.
func (s scenario) alike(pods []int) bool {
	for p, q := range pods {
		if s.owner[p] != s.owner[q] {
			return false
		}
	}
	return true
}

func inverse(of []int) []int {
	back := make([]int, len(of))
	for from, to := range of {
		back[to] = from
	}
	return back
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

// explored returns the model in the form that the explorer takes.
func (m *model) explored(limit int) explore.Compact[world] {
	start := world{left: m.limits, rev: 1}
	for p := range m.owner {
		start.pods[p].rv = 1
		start.log.before[p].rv = 1
		for i := range m.shards() {
			start.shards[i].cache[p].rv = 1
			start.shards[i].progress = 1
		}
	}
	return explore.Compact[world]{Start: start, Next: m.next, Key: m.key, Broken: m.broken, Limit: limit}
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
	if w.violation != nothing {
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

// broken checks I2: bound pods and those that may still be bound never exceed the capacity. And, of the full
// protocol, that a release is final.
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
	if w.violation == boundAfterRelease && m.ablated != "" {
		return ""
	}
	return w.violation.String()
}
