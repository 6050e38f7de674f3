package nominate

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a scenario, with at most one part of the protocol taken away.
type model struct {
	scenario
	ablated string
}

func (m *model) without(what string) bool { return m.ablated == what }

func (m *model) shards() int {
	n := 0
	for _, p := range m.pods {
		n = max(n, p.shard+1)
	}
	return n
}

// explored returns the model in the form that the explorer takes.
func (m *model) explored(limit int) explore.Compact[world] {
	start := world{left: m.limits}
	for p, spec := range m.pods {
		start.pods[p].node = spec.runs
		for i := range m.shards() {
			start.shards[i].cache[p].node = spec.runs
		}
	}
	return explore.Compact[world]{Start: start, Next: m.next, Key: m.key, Broken: m.broken, Limit: limit}
}

func (m *model) does(text string, args ...any) explore.Step {
	return explore.Step{Late: func() string { return fmt.Sprintf(text, args...) }}
}

func node(n int) string { return string(rune('a' + n)) }

// names are pods (bits) as text.
func (m *model) names(pods uint8) string {
	var out []string
	for p, spec := range m.pods {
		if pods>>p&1 == 1 {
			out = append(out, spec.name)
		}
	}
	if out == nil {
		return "nobody"
	}
	return strings.Join(out, " and ")
}

func (m *model) next(w *world, step stepFunc) {
	if w.violation != nothing {
		return
	}
	for i := range m.shards() {
		m.read(w, i, step)
	}
	for p := range m.pods {
		m.decide(w, p, step)
		m.promote(w, p, step)
		m.abort(w, p, step)
		m.evict(w, p, step)
		m.serve(w, p, step)
	}
}

func (m *model) key(w *world, buf []byte) []byte {
	buf = append(buf, w.left.plans<<4|w.left.aborts<<2|w.left.deletes, byte(w.violation))
	for p := range m.pods {
		pod, e, c := &w.pods[p], w.entries[p], w.claims[p]
		buf = append(buf, seen(pod.podView)|bit(pod.terminating)<<4|bit(pod.asked)<<5, pod.early<<4|pod.cause,
			pod.since, byte(e.state)|e.node<<2|bit(e.waited)<<4, e.victims, c.by<<1|bit(c.sent))
		for i := range m.shards() {
			buf = append(buf, seen(w.shards[i].cache[p]))
		}
	}
	for n := range m.capacity {
		buf = append(buf, w.hw[n])
	}
	for i := range m.shards() {
		buf = append(buf, w.shards[i].at)
	}
	for _, f := range w.log[:w.len] {
		buf = append(buf, f.pod<<4|seen(f.podView))
	}
	return buf
}

func seen(s podView) byte { return s.node | bit(s.gone)<<3 }

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// broken describes the violation in a state, empty for none.
func (m *model) broken(w *world) string {
	if w.violation != nothing {
		return w.violation.String()
	}
	if m.hasForeign() {
		return "" // with a foreign scheduler the only promise is not to act blindly
	}
	for n, room := range m.capacity {
		if total := m.now(w, truth(w), n, -1); total > room {
			return fmt.Sprintf("node %s is overcommitted: %d of %d", node(n), total, room)
		}
	}
	var victimOf [maxPods]string
	for p, spec := range m.pods {
		if there := m.blockers(truth(w), p); there != 0 && (w.entries[p].state == committed || w.pods[p].node != 0) {
			return fmt.Sprintf("%s may run, and %s, which it excludes, still does", spec.name, m.names(there))
		}
		if e := w.entries[p]; e.state == held && w.pods[p].pending() {
			if why := m.wastedEviction(w, p, e.victims, &victimOf); why != "" {
				return why
			}
		}
		by := int(w.pods[p].early) - 1
		if by >= 0 && w.pods[p].terminating && w.pods[by].pending() && m.crowdedOut(w, by) {
			return fmt.Sprintf("%s was evicted for %s, and its place is taken", spec.name, m.pods[by].name)
		}
	}
	return ""
}

// wastedEviction describes a violation if a victim of a Held pod also belongs to another pod, or was evicted although
// the Held pod cannot use the place any more.
func (m *model) wastedEviction(w *world, p int, victims uint8, victimOf *[maxPods]string) string {
	for q := range m.pods {
		if victims>>q&1 == 0 || w.pods[q].gone && !w.pods[q].terminating {
			continue
		}
		if victimOf[q] != "" {
			return fmt.Sprintf("%s is the victim of %s and of %s", m.pods[q].name, victimOf[q], m.pods[p].name)
		}
		victimOf[q] = m.pods[p].name
		c := plan{pod: p, node: int(w.entries[p].node), victims: victims, displaces: -1}
		if w.pods[q].terminating && !m.fitsLater(w, truth(w), c) {
			return fmt.Sprintf("%s was evicted for %s, which has no place left", m.pods[q].name, m.pods[p].name)
		}
	}
	return ""
}

// crowdedOut reports whether a pod without a reservation could not run on any of its nodes even
// if all that are being evicted were gone.
func (m *model) crowdedOut(w *world, p int) bool {
	for n := range m.capacity {
		taken := m.pods[p].size
		for q, spec := range m.pods {
			e := w.entries[q]
			stays := w.pods[q].on(n) && !w.pods[q].terminating && !w.pods[q].asked
			if stays || w.pods[q].pending() && e.state != none && int(e.node) == n {
				taken += spec.size
			}
		}
		if m.pods[p].on>>n&1 == 1 && (w.entries[p].state != none || taken <= m.capacity[n]) {
			return false
		}
	}
	return true
}

func (m *model) hasForeign() bool {
	for _, p := range m.pods {
		if p.foreign {
			return true
		}
	}
	return false
}
