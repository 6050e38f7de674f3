package waiting

import (
	"math"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// The journal holds recent occurrences, so that a change that happens while a pod is being tried is not lost on the
// pod: a verdict is compared with what happened since the state it was computed from, not since it arrived
// (upstream's in-flight events). An occurrence that the journal has already forgotten counts as one that would have
// helped.
const (
	// journalAge is how long occurrences are kept: longer than attempts take.
	journalAge = 30 * time.Second
	// journalLimit bounds their number. Each keeps an old version of an object alive.
	journalLimit = 16384
)

// Occurrence is one change that can matter to a waiting pod.
type Occurrence struct {
	Change rule.Change
	// Own means that the occurrence matters to the changed pod alone. Blind means that it is not known which pod has
	// gone.
	Own, Blind bool
	// Above limits a blind occurrence about budgets: it helps only pods of a higher priority (see Freed).
	Above int32
	// Sequence is the position of the facts after the occurrence, and Revision that of the ledger (0 for facts).
	Sequence uint64
	Revision int64
	At       Moment
}

// Concerns reports whether an occurrence can help a pod of this priority.
func (o *Occurrence) Concerns(e *Entry) bool {
	return o.Change.Kind != events.KindDisruptionBudget || !o.Blind || e.Pod.Priority > o.Above ||
		o.Above == math.MinInt32
}

// LaterThan reports whether an occurrence is later than what a verdict saw: the shard may have been ahead of the queue.
func LaterThan(o *Occurrence, v *Verdict) bool {
	if o.Revision != 0 {
		return o.Revision > v.LedgerRevision
	}
	return o.Sequence > v.FactSequence
}

// Journal holds occurrences, and when each rule was last concerned. Occurrences in the facts and in the ledger are kept
// apart, because a verdict names a position in each of them, and the two are not ordered against each other.
type Journal struct {
	facts  []Occurrence // by sequence
	ledger []Occurrence
	// sequence and Revision are where the forgotten occurrences end.
	Sequence uint64
	Revision int64
	// lastEvent is the position of the last occurrence that each rule of a lane listens to.
	lastEvent map[ruleKey]Point
	// world is where the facts and the ledger are now.
	world *World
}

// Point is a state of the facts and of the ledger.
type Point struct {
	Sequence uint64
	Revision int64
}

// NewJournal returns an empty journal.
func NewJournal(w *World) *Journal { return &Journal{world: w, lastEvent: map[ruleKey]Point{}} }

// track makes the journal record occurrences for the given rules. What happened before is not known; it is treated
// as if it had happened just now.
func (j *Journal) track(rules []ruleKey) {
	for _, key := range rules {
		if _, known := j.lastEvent[key]; !known {
			j.lastEvent[key] = Point{j.world.Facts.Sequence, j.world.Revision}
		}
	}
}

// RecordFor records an occurrence for the rules that listen to it. A rule is known from its first rejection on.
func (j *Journal) RecordFor(o *Occurrence, profiles map[string]*placement.Profile) {
	for key, h := range j.lastEvent {
		if !profiles[key.profile].Listens(key.plugin, o.Change) {
			continue
		}
		if o.Revision != 0 {
			h.Revision = max(h.Revision, o.Revision)
		} else {
			h.Sequence = max(h.Sequence, o.Sequence)
		}
		j.lastEvent[key] = h
	}
}

// unchanged reports whether nothing that the rules listen to has happened since a state of the facts and of the ledger.
func (j *Journal) unchanged(rules []ruleKey, sequence uint64, revision int64) bool {
	if sequence < j.Sequence || revision < j.Revision {
		return false
	}
	for _, key := range rules {
		if h := j.lastEvent[key]; h.Sequence > sequence || h.Revision > revision {
			return false
		}
	}
	return true
}

// Add records an occurrence.
func (j *Journal) Add(o Occurrence) {
	list := &j.facts
	if o.Revision != 0 {
		list = &j.ledger
	}
	*list = append(*list, o)
	if len(*list) >= 2*journalLimit {
		j.forget(list, len(*list)-journalLimit)
	}
}

// Trim forgets old occurrences.
func (j *Journal) Trim(now Moment) {
	for _, list := range []*[]Occurrence{&j.facts, &j.ledger} {
		old := func(o Occurrence) bool { return o.At.Add(journalAge) < now }
		// It works in big steps, because trimming moves the rest of the slice: only once more than half of it is old.
		if len(*list) == 0 || !old((*list)[len(*list)/2]) {
			continue
		}
		n := slices.IndexFunc(*list, func(o Occurrence) bool { return !old(o) })
		if n < 0 {
			n = len(*list)
		}
		j.forget(list, n)
	}
}

// forget drops the first n occurrences of a list, and records where the forgotten ones end.
func (j *Journal) forget(list *[]Occurrence, n int) {
	for _, o := range (*list)[:n] {
		j.Revision = max(j.Revision, o.Revision)
		if o.Revision == 0 {
			j.Sequence = max(j.Sequence, o.Sequence)
		}
	}
	*list = slices.Delete(*list, 0, n)
}

// Count returns the number of occurrences that are kept, by kube-scheduler's name of the event. It looks at each of
// them.
func (j *Journal) Count() map[string]int {
	names := map[string]int{}
	for _, list := range [][]Occurrence{j.facts, j.ledger} {
		for i := range list {
			if list[i].Change.Actions != 0 {
				names[list[i].Change.Label()]++
			}
		}
	}
	return names
}

// Clear forgets everything up to a sequence of the facts.
func (j *Journal) Clear(sequence uint64) {
	j.facts = nil
	j.Sequence = sequence
}

// Void reports whether the verdict was computed from facts that are lost.
func (v *Verdict) Void() bool { return v.FactSequence == 0 && v.FactEpoch != 0 }

// since visits what happened after the state from which a verdict was computed, until visit returns false.
func (j *Journal) since(v *Verdict, visit func(o *Occurrence) bool) {
	for i := range j.ledger {
		if o := &j.ledger[i]; o.Revision > v.LedgerRevision && !visit(o) {
			return
		}
	}
	first, _ := slices.BinarySearchFunc(j.facts, v.FactSequence+1, func(o Occurrence, s uint64) int {
		if o.Sequence < s {
			return -1
		}
		return 1
	})
	for i := first; i < len(j.facts); i++ {
		if !visit(&j.facts[i]) {
			return
		}
	}
}

// mayHaveHelp reports whether something that can help the pod happened after the state from which its verdict was
// computed, so that waiting for it would be in vain.
func (j *Journal) mayHaveHelp(e *Entry, profile *placement.Profile) bool {
	v := &e.Verdict
	if v.Void() || v.FactSequence < j.Sequence || v.LedgerRevision < j.Revision {
		return true // the journal does not reach back that far
	}
	return j.SawHelp(e, profile)
}

// SawHelp is missed, limited to what the journal still holds.
func (j *Journal) SawHelp(e *Entry, profile *placement.Profile) bool {
	helped := false
	j.since(&e.Verdict, func(o *Occurrence) bool {
		if o.Own != (ChangedPod(o.Change) == e.Pod.UID) || !o.Concerns(e) {
			return true
		}
		change := o.Change
		change.Objects = j.world.Objects
		if o.Blind {
			helped = ListensBlind(profile, e.Verdict.Plugins, change)
		} else {
			helped = profile.Wakes(e.Pod, e.Verdict.Plugins, change)
		}
		return !helped
	})
	return helped
}

// ListensBlind reports whether any of the rules listens to a change of which no details are known.
func ListensBlind(profile *placement.Profile, plugins []string, change rule.Change) bool {
	for _, plugin := range plugins {
		if profile.Listens(plugin, change) {
			return true
		}
	}
	return len(plugins) == 0
}

// ChangedPod returns the UID of the pod that a change is of; "" for none.
func ChangedPod(c rule.Change) string {
	switch {
	case c.NewPod != nil:
		return c.NewPod.UID
	case c.OldPod != nil:
		return c.OldPod.UID
	}
	return ""
}
