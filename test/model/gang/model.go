package gang

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a scenario, with parts of the protocol taken away.
type model struct {
	scenario
	ablated []string
	// symmetries are the ways to rename pods and nodes that change nothing.
	symmetries []renaming
	// scratch is for the key under each of them.
	scratch []byte
}

func (m *model) without(what string) bool {
	return m.ablated != nil && slices.Contains(m.ablated, what)
}

// explored returns the model in the form that the explorer takes. At the start all shards know that the ledger is
// empty.
func (m *model) explored(limit int) explore.Compact[world] {
	start := world{left: m.limits}
	for p, s := range m.pods {
		start.pods[p].node = s.runs
	}
	return explore.Compact[world]{
		Start: start, Next: m.next, Key: m.key, Broken: m.broken, Ended: m.ended, Limit: limit,
	}
}

func does(text string, args ...uint8) explore.Step {
	s := explore.Step{Text: text}
	for i, a := range args {
		*[]*uint8{&s.A, &s.B, &s.C}[i] = a
	}
	return s
}

func node(n int) uint8 { return 'a' + uint8(n) }

func (m *model) next(w *world, step stepFunc) {
	if w.violation != nothing {
		return
	}
	for i := range shards {
		m.read(w, i, step)
		for g := range m.gangs {
			m.gang(w, i, g, step)
		}
		for p := range m.pods {
			m.place(w, i, p, step)
			for n := range m.capacity {
				m.settle(w, i, p, n, step)
			}
		}
	}
	for g := range m.gangs {
		m.abort(w, g, step)
		if w.left.takeovers > 0 {
			t := *w
			t.left.takeovers--
			t.now.epochs[g]++
			m.emit(t, does("the partition of %c moves to the other shard", m.gangs[g].name), step)
		}
	}
	for p := range m.pods {
		m.bind(w, p, step)
		m.mark(w, p, step)
		m.vanish(w, p, step)
		for n := range m.capacity {
			m.tidy(w, n, p, step)
			m.fence(w, n, p, step)
		}
	}
}

// gang is everything that a shard may do about a gang.
func (m *model) gang(w *world, i, g int, step stepFunc) {
	m.form(w, i, g, step)
	m.members(g, func(p int) { m.pledge(w, i, p, step) })
	m.extend(w, i, g, step)
	m.makeReady(w, i, g, step)
	m.commit(w, i, g, step)
	m.yield(w, i, g, step)
	m.drop(w, i, g, step)
	m.placeWhole(w, i, g, step)
}

// broken describes the violation in a state, empty for none.
func (m *model) broken(w *world) string {
	if w.violation != nothing {
		return w.violation.String()
	}
	for n, room := range m.capacity {
		total := 0
		for p := range m.pods {
			if w.pods[p].on(n) || w.pods[p].pending() && m.judge(&w.now, n, p) >= unclear {
				total++
			}
		}
		if total > room && !m.hasForeign() {
			return fmt.Sprintf("node %c is overcommitted: %d of %d", node(n), total, room)
		}
	}
	for p := range m.pods {
		if why := m.twice(w, p); why != "" {
			return why
		}
		if why := m.lost(w, p); why != "" {
			return why
		}
		if why := m.divided(w, p); why != "" {
			return why
		}
	}
	return ""
}

// twice describes a violation if a pod has two places.
func (m *model) twice(w *world, p int) string {
	places := 0
	for n := range m.capacity {
		is := m.judge(&w.now, n, p)
		if w.pods[p].on(n) || w.pods[p].pending() && is != void || !w.pods[p].gone && is == firm {
			places++
		}
	}
	if places > 1 {
		return fmt.Sprintf("%c has two places", m.pods[p].name)
	}
	return ""
}

// lost describes a violation if a victim of a place has been marked, and the place has no room when all its victims are
// gone.
func (m *model) lost(w *world, p int) string {
	for n := range m.capacity {
		if !w.pods[p].pending() || m.judge(&w.now, n, p) != waits || !m.fullLater(w, &w.now, n, p, 0) || m.hasForeign() {
			continue
		}
		for v := range m.pods {
			if o := m.claimant(&w.now, v); o == m.planOf(p) && int(m.pods[v].runs) == n+1 &&
				w.now.docs[n].entries[v].state == marked {
				return fmt.Sprintf("%c is evicted for %c, which has no place left", m.pods[v].name, m.pods[p].name)
			}
		}
	}
	return ""
}

// divided describes a violation if a pod has been evicted, and another of its unit stays.
func (m *model) divided(w *world, v int) string {
	if m.pods[v].unit == 0 || !w.pods[v].gone {
		return ""
	}
	for u := range m.pods {
		if m.pods[u].unit == m.pods[v].unit && !w.pods[u].gone &&
			w.now.docs[m.pods[u].runs-1].entries[u].state != marked {
			return fmt.Sprintf("%c was evicted, and %c stays", m.pods[v].name, m.pods[u].name)
		}
	}
	return ""
}

func (m *model) hasForeign() bool {
	return slices.ContainsFunc(m.pods, func(s spec) bool { return s.foreign })
}

// ended describes what is wrong in a state after which nothing happens any more: every history must end with every
// attempt over, and with a gang that runs if there is room for one. As nothing can happen without end, this excludes
// both a deadlock and a livelock.
func (m *model) ended(w *world) string {
	if w.violation != nothing || m.hasForeign() {
		return ""
	}
	fits := ""
	for g, s := range m.gangs {
		if w.now.records[g].live() {
			return fmt.Sprintf("%c waits for ever", s.name)
		}
		if m.strength(w, &w.now, g, firm) >= s.min {
			return ""
		}
		if m.roomFor(w, g) >= s.min {
			fits = fmt.Sprintf("%c was not started, although there is room for it", s.name)
		}
	}
	if m.mayEndEarly {
		return ""
	}
	return fits
}

// roomFor is how many members of a gang could run if all pods that are less important left.
func (m *model) roomFor(w *world, g int) (room int) {
	for n, c := range m.capacity {
		room += c
		for p := range m.pods {
			if w.pods[p].on(n) && (m.pods[p].gang == uint8(g+1) || m.pods[p].priority >= m.gangs[g].priority) {
				room--
			}
		}
	}
	m.members(g, func(p int) {
		if w.pods[p].node != 0 {
			room++
		}
	})
	return room
}
