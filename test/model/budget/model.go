package budget

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/berth-scheduler/berth/test/model/explore"
)

type stepFunc = func(explore.Step, world)

// model is a scenario, with at most one part of the protocol taken away.
type model struct {
	scenario
	ablated string
	// down: only pods that are down count as harm, not promises that cannot be kept.
	down bool
}

func (m *model) without(what string) bool { return m.ablated == what }

// explored returns the model in the form that the explorer takes.
func (m *model) explored(limit int) explore.Compact[world] {
	allowed := uint8(m.pods - m.desired)
	start := world{rev: 1, left: m.limits, status: status{allowed: allowed}}
	for e := range components {
		start.views[e] = view{allowed: allowed, progress: 1, pods: 1}
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

func (m *model) next(w *world, step stepFunc) {
	if w.violation != nothing {
		return
	}
	for e := range components {
		m.read(w, e, step)
		for p := range m.pods {
			m.claim(w, e, p, step)
		}
	}
	for p := range m.pods {
		m.settle(w, p, step)
		m.drop(w, p, step)
		m.send(w, p, step)
		m.serve(w, p, step)
		m.others(w, p, step)
	}
	m.controller(w, step)
}

// broken checks I8 and S6: no more pods are down than the budget allows, and all claimed victims could be evicted.
// The second cannot be promised while other clients evict too.
func (m *model) broken(w *world) string {
	running, claimed := 0, 0
	for p := range m.pods {
		if w.pods[p].leaving == 0 {
			running++
		}
		if c := w.pods[p].claim; c.by != 0 && w.pods[p].leaving == 0 && !w.pods[p].swapped {
			claimed++
		}
	}
	if running < m.desired {
		return fmt.Sprintf("%d pods run, the budget wants %d", running, m.desired)
	}
	if running-claimed < m.desired && !m.down && m.foreign == 0 {
		return fmt.Sprintf("%d evictions are promised, %d can be", claimed, running-m.desired)
	}
	return w.violation.String()
}

// key distinguishes states. Pods are alike, so theirs are sorted; of resourceVersions only the order of those matters
// that a component may have to reach yet.
func (m *model) key(w *world, buf []byte) []byte {
	levels := uint64(1) << w.hw
	for p := range m.pods {
		if w.pods[p].claim.by != 0 {
			levels |= 1 << w.pods[p].leaving
		}
	}
	reached := w.rev
	for _, v := range w.views {
		reached = min(reached, v.progress, v.pods)
	}
	levels &^= 2<<reached - 1
	level := func(rv uint8) uint8 { return uint8(bits.OnesCount64(levels & (2<<rv - 1))) }

	l := w.left
	buf = append(buf, l.claims<<4|l.sends, l.drops<<6|l.timeouts<<4|l.swaps<<2|l.foreign,
		byte(w.violation), w.status.allowed, level(w.hw))
	for _, v := range w.views {
		buf = append(buf, v.allowed, level(v.progress), level(v.pods))
	}
	var pods [maxPods][4]byte
	for p := range m.pods {
		pod := &w.pods[p]
		c, r := pod.claim, pod.requests
		pods[p] = [4]byte{
			bit(pod.leaving != 0) | bit(pod.swapped)<<1 | bit(pod.disrupted)<<2 | bit(pod.controller)<<3 | pod.seen<<4,
			c.by | bit(c.evicting)<<2 | bit(c.unknown)<<3 | bit(c.refused)<<4 | bit(c.replaced)<<5,
			r.sent | r.spent<<2 | r.late<<4 | r.foreign<<6,
			level(pod.leaving),
		}
	}
	slices.SortFunc(pods[:m.pods], func(a, b [4]byte) int { return slices.Compare(a[:], b[:]) })
	for _, b := range pods[:m.pods] {
		buf = append(buf, b[:]...)
	}
	return buf
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
