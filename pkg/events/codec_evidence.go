package events

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventspb"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// encodeEvidence returns no bytes for no evidence, and an empty message for empty evidence. Evidence that is too
// large loses its basis, after which the decision cannot be reproduced, or is left out.
func encodeEvidence(e *evidence.Evidence) []byte {
	if e == nil {
		return nil
	}
	data := evidenceBytes(e)
	if len(data) <= maxEvidence {
		return data
	}
	small := *e
	small.Basis, small.Staged = evidence.Basis{}, nil
	if data = evidenceBytes(&small); len(data) <= maxEvidence {
		return data
	}
	return nil
}

// evidenceBytes encodes evidence. Maps are written sorted, so that equal evidence gives equal bytes; durations lose
// what is below a microsecond.
func evidenceBytes(e *evidence.Evidence) []byte {
	m := &eventspb.Evidence{
		Config: e.Config, Class: e.Class, LedgerRevision: e.LedgerRevision,
		Order: e.Order, Staged: e.Staged, Home: e.Home, Behind: e.Stale,
		Examined: e.Examined, Usable: e.Usable,
		ScoredBy: ValidAll(e.ScoredBy), Cause: Valid(e.Cause),
		WaitedMicros:     e.Waited.Microseconds(),
		ConsideredMicros: e.Considered.Microseconds(), ReservedMicros: e.Reserved.Microseconds(),
		Basis: encodeBasis(&e.Basis, e.LedgerRevision),
	}
	if len(e.Rejected) > 0 {
		m.Rejected = make([]*eventspb.PluginCount, 0, len(e.Rejected))
		for _, plugin := range slices.Sorted(maps.Keys(e.Rejected)) {
			m.Rejected = append(m.Rejected, &eventspb.PluginCount{Plugin: Valid(plugin), Nodes: e.Rejected[plugin]})
		}
	}
	if len(e.Candidates) > 0 {
		m.Candidates = make([]*eventspb.Candidate, len(e.Candidates))
		for i, c := range e.Candidates {
			m.Candidates[i] = &eventspb.Candidate{Node: Valid(c.Node), Total: c.Total, Points: c.Points}
		}
	}
	return Marshal(m)
}

// decodeEvidence is the inverse of evidenceBytes.
func decodeEvidence(m *eventspb.Evidence) *evidence.Evidence {
	e := &evidence.Evidence{
		Config: m.GetConfig(), Class: m.GetClass(), LedgerRevision: m.GetLedgerRevision(),
		Order: m.GetOrder(), Staged: m.GetStaged(), Home: m.GetHome(), Stale: m.GetBehind(),
		Examined: m.GetExamined(), Usable: m.GetUsable(),
		ScoredBy: m.GetScoredBy(), Cause: m.GetCause(),
		Waited:     time.Duration(m.GetWaitedMicros()) * time.Microsecond,
		Considered: time.Duration(m.GetConsideredMicros()) * time.Microsecond,
		Reserved:   time.Duration(m.GetReservedMicros()) * time.Microsecond,
		Basis:      decodeBasis(m.GetBasis(), m.GetLedgerRevision()),
	}
	if list := m.GetRejected(); len(list) > 0 {
		e.Rejected = make(map[string]int32, len(list))
		for _, count := range list {
			e.Rejected[count.GetPlugin()] += count.GetNodes()
		}
	}
	for _, c := range m.GetCandidates() {
		e.Candidates = append(e.Candidates, evidence.Candidate{Node: c.GetNode(), Total: c.GetTotal(), Points: c.GetPoints()})
	}
	return e
}

// encodeBasis leaves out a basis without a moment, because nothing is known then.
func encodeBasis(b *evidence.Basis, revision int64) *eventspb.Basis {
	if b.LookNumber == 0 {
		return nil
	}
	m := &eventspb.Basis{
		Moment: b.LookNumber, FactEpoch: b.FactEpoch, LeftAlone: ValidAll(b.LeftAlone), Avoided: ValidAll(b.Avoided),
		Unlisted: b.Unlisted, Preferred: Valid(b.Preferred), Start: b.Start, HomeStart: b.HomeStart,
		Alternative: b.Alternative, Way: uint32(b.Way), Whole: b.NoHomePreference,
		Spared: ValidAll(b.Spared), AllNodes: b.AllNodes, Near: b.Near, Nominations: b.Nominations,
	}
	for _, l := range b.Learned {
		m.Learned = append(m.Learned, &eventspb.Learned{Ahead: l.Revision - revision, Key: Valid(l.Key)})
	}
	return m
}

// decodeBasis is the inverse of encodeBasis; a missing basis gives the zero value.
func decodeBasis(m *eventspb.Basis, revision int64) evidence.Basis {
	b := evidence.Basis{
		LookNumber: m.GetMoment(), FactEpoch: m.GetFactEpoch(), LeftAlone: m.GetLeftAlone(), Avoided: m.GetAvoided(),
		Unlisted: m.GetUnlisted(), Preferred: m.GetPreferred(), Start: m.GetStart(), HomeStart: m.GetHomeStart(),
		Alternative: m.GetAlternative(), Way: evidence.Way(m.GetWay()), NoHomePreference: m.GetWhole(),
		Spared: m.GetSpared(), AllNodes: m.GetAllNodes(), Near: m.GetNear(),
		Nominations: m.GetNominations(),
	}
	for _, l := range m.GetLearned() {
		b.Learned = append(b.Learned, evidence.Learned{Revision: revision + l.GetAhead(), Key: l.GetKey()})
	}
	return b
}
