package decide

import (
	"math"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
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

// occurrence is one change that can matter to a waiting pod.
type occurrence struct {
	change placement.Change
	// own means that the occurrence matters to the changed pod alone. blind means that it is not known which pod has
	// gone.
	own, blind bool
	// above limits a blind occurrence about budgets: it helps only pods of a higher priority (see Freed).
	above int32
	// sequence is the position of the facts after the occurrence, and revision that of the ledger (0 for facts).
	sequence uint64
	revision int64
	at       moment
}

// concerns reports whether an occurrence can help a pod of this priority.
func (o *occurrence) concerns(e *entry) bool {
	return o.change.Kind != events.KindDisruptionBudget || !o.blind || e.pod.Priority > o.above ||
		o.above == math.MinInt32
}

// news reports whether an occurrence is later than what a verdict saw: the shard may have been ahead of the queue.
func news(o *occurrence, v *verdict) bool {
	if o.revision != 0 {
		return o.revision > v.ledgerRevision
	}
	return o.sequence > v.factSequence
}

// journal holds occurrences, and when each rule was last concerned.
type journal struct {
	facts  []occurrence // by sequence
	ledger []occurrence
	// sequence and revision are where the forgotten occurrences end.
	sequence uint64
	revision int64
	// heard is the position of the last occurrence that each rule of a lane listens to.
	heard map[ruleKey]position
	// world is where the facts and the ledger are now.
	world *world
}

// position is a state of the facts and of the ledger.
type position struct {
	sequence uint64
	revision int64
}

func newJournal(w *world) *journal { return &journal{world: w, heard: map[ruleKey]position{}} }

// listen makes the journal record occurrences for the given rules. What happened before is not known; it is treated
// as if it had happened just now.
func (j *journal) listen(rules []ruleKey) {
	for _, key := range rules {
		if _, known := j.heard[key]; !known {
			j.heard[key] = position{j.world.facts.Sequence, j.world.revision}
		}
	}
}

// hear records an occurrence for the rules that listen to it. A rule is known from its first rejection on.
func (j *journal) hear(o *occurrence, profiles map[string]*placement.Profile) {
	for key, h := range j.heard {
		if !profiles[key.profile].Listens(key.plugin, o.change) {
			continue
		}
		if o.revision != 0 {
			h.revision = max(h.revision, o.revision)
		} else {
			h.sequence = max(h.sequence, o.sequence)
		}
		j.heard[key] = h
	}
}

// quiet reports whether nothing that the rules listen to has happened since a state of the facts and of the ledger.
func (j *journal) quiet(rules []ruleKey, sequence uint64, revision int64) bool {
	if sequence < j.sequence || revision < j.revision {
		return false
	}
	for _, key := range rules {
		if h := j.heard[key]; h.sequence > sequence || h.revision > revision {
			return false
		}
	}
	return true
}

func (j *journal) add(o occurrence) {
	list := &j.facts
	if o.revision != 0 {
		list = &j.ledger
	}
	*list = append(*list, o)
	if len(*list) >= 2*journalLimit {
		j.forget(list, len(*list)-journalLimit)
	}
}

// trim forgets old occurrences.
func (j *journal) trim(now moment) {
	for _, list := range []*[]occurrence{&j.facts, &j.ledger} {
		old := func(o occurrence) bool { return o.at.add(journalAge) < now }
		// It works in big steps, because trimming moves the rest of the slice: only once more than half of it is old.
		if len(*list) == 0 || !old((*list)[len(*list)/2]) {
			continue
		}
		n := slices.IndexFunc(*list, func(o occurrence) bool { return !old(o) })
		if n < 0 {
			n = len(*list)
		}
		j.forget(list, n)
	}
}

func (j *journal) forget(list *[]occurrence, n int) {
	for _, o := range (*list)[:n] {
		j.revision = max(j.revision, o.revision)
		if o.revision == 0 {
			j.sequence = max(j.sequence, o.sequence)
		}
	}
	*list = slices.Delete(*list, 0, n)
}

// clear forgets everything up to a sequence of the facts.
func (j *journal) clear(sequence uint64) {
	j.facts = nil
	j.sequence = sequence
}

// void reports whether the verdict was computed from facts that are lost.
func (v *verdict) void() bool { return v.factSequence == 0 && v.factEpoch != 0 }

// forgot reports whether the journal no longer reaches back to the state from which a verdict was computed.
func (j *journal) forgot(v *verdict) bool {
	return v.void() || v.factSequence < j.sequence || v.ledgerRevision < j.revision
}

// since visits what happened after the state from which a verdict was computed, until visit returns false.
func (j *journal) since(v *verdict, visit func(o *occurrence) bool) {
	for i := range j.ledger {
		if o := &j.ledger[i]; o.revision > v.ledgerRevision && !visit(o) {
			return
		}
	}
	first, _ := slices.BinarySearchFunc(j.facts, v.factSequence+1, func(o occurrence, s uint64) int {
		if o.sequence < s {
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

// missed reports whether something that can help the pod happened after the state from which its verdict was
// computed, so that waiting for it would be in vain.
func (j *journal) missed(e *entry, profile *placement.Profile) bool {
	return j.forgot(&e.verdict) || j.sawHelp(e, profile)
}

// sawHelp is missed, limited to what the journal still holds.
func (j *journal) sawHelp(e *entry, profile *placement.Profile) bool {
	helped := false
	j.since(&e.verdict, func(o *occurrence) bool {
		if o.own != (changedPod(o.change) == e.pod.UID) || !o.concerns(e) {
			return true
		}
		change := o.change
		change.Objects = j.world.objects
		if o.blind {
			helped = listensBlind(profile, e.verdict.plugins, change)
		} else {
			helped = profile.Wakes(e.pod, e.verdict.plugins, change)
		}
		return !helped
	})
	return helped
}

// listensBlind reports whether any of the rules listens to a change of which no details are known.
func listensBlind(profile *placement.Profile, plugins []string, change placement.Change) bool {
	for _, plugin := range plugins {
		if profile.Listens(plugin, change) {
			return true
		}
	}
	return len(plugins) == 0
}

// changedPod returns the UID of the pod that a change is of; "" for none.
func changedPod(c placement.Change) string {
	switch {
	case c.NewPod != nil:
		return c.NewPod.UID
	case c.OldPod != nil:
		return c.OldPod.UID
	}
	return ""
}
