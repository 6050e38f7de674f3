package decide

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// modelLanes holds the lanes by key; each pod has the key of its lane. heard is keyed by plugin.
type modelLanes struct {
	lanes     map[string]*modelLane
	lastEvent map[string]waiting.Point
}

type modelLane struct {
	width   int
	plugins []string
	waiting.LaneVerdict
}

// toLane moves a pod from its lane to another; a lane without pods is forgotten.
func (m *model) toLane(p *modelPod, lane string) {
	was := p.lane
	p.lane, p.permit = lane, false
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.pods)), func(p *modelPod) bool { return p.lane == was }) {
		delete(m.lanes, was)
	}
	if lane == "" {
		return
	}
	plugins := p.plugins
	if len(plugins) == 0 {
		plugins = []string{""}
	}
	if m.lanes[lane] == nil {
		m.lanes[lane] = &modelLane{width: waiting.LaneWidth, plugins: plugins}
	}
	for _, plugin := range plugins {
		if _, known := m.lastEvent[plugin]; !known {
			m.lastEvent[plugin] = waiting.Point{Sequence: m.facts.Sequence, Revision: m.revision}
		}
	}
}

// openLanes visits the lanes: pods that the newest verdict covers are parked; then permits are given in order, up to
// each lane's width.
func (m *model) openLanes() {
	for key, l := range m.lanes {
		for {
			blocked := slices.DeleteFunc(m.in(waiting.PoolActive), func(p *modelPod) bool { return p.lane != key || p.permit })
			if len(blocked) == 0 {
				break
			}
			p := slices.MinFunc(blocked, offerOrder)
			if m.covered(p, l) {
				p.factSequence, p.ledgerRevision = l.FactSequence, l.LedgerRevision
				p.rejections++
				m.backOff(p)
				m.enter(p, waiting.PoolParked)
			} else if m.out(key) < l.width {
				p.permit = true
			} else {
				break
			}
		}
	}
}

func (m *model) covered(p *modelPod, l *modelLane) bool {
	sequence, revision := m.journalEnd()
	if l.FactSequence == 0 || p.sequence > l.FactSequence || p.flushed ||
		l.FactSequence < max(sequence, m.since) || l.LedgerRevision < revision {
		return false
	}
	for _, plugin := range l.plugins {
		h := m.lastEvent[plugin]
		if h.Sequence > l.FactSequence || h.Revision > l.LedgerRevision {
			return false
		}
	}
	return true
}

// out returns how many pods of a lane have a permit.
func (m *model) out(lane string) int {
	out := 0
	for _, p := range m.pods {
		if p.lane == lane && p.permit {
			out++
		}
	}
	return out
}
