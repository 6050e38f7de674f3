package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
)

const (
	// InFlight is how long an ask without an outcome stands. A binder settles one in
	// seconds; after this long the ask, or its outcome, is taken for lost.
	InFlight = 10 * time.Minute
	// Standing is how long binders may begin the eviction of an ask after it was decided. The rest of InFlight is for
	// the clocks of two machines that differ, and for a call on its way: what is asked for instead of a lost ask is
	// not carried out beside it.
	Standing = InFlight / 2
	// Cooldown is how long a pod is left alone after an outcome, the first of its kind: a budget that refused
	// needs time to recover (a failed eviction can hold it for two minutes), and a pod that
	// was evicted needs time to go. At least as long as the usual interval between cycles,
	// so that it bridges one.
	Cooldown = 5 * time.Minute

	// maxRest is where Cooldown ends to double, with each refusal in a row; after twice this time in peace it starts over.
	maxRest = time.Hour
	// ownerMemory is how long an owner's past is kept; its pauses are shorter
	// (policy.MaxCooldownLimit).
	ownerMemory = 24 * time.Hour
	// maxStays is how many nodes are kept that an owner's pods have left or landed on.
	maxStays = 256
	// oneStay is how long after one eviction others from (or to) the same node are as good as one.
	oneStay = time.Minute
	// comebackSlack is by how much the API server's clock may be behind, and what it cuts off, so
	// that a pod that replaces another one seems to be the older. It is for asks that do not tell
	// of the youngest pod they knew.
	comebackSlack = 5 * time.Second
	// maxRounds is how many of an owner's last rounds are kept: more double no pause.
	maxRounds = 16
)

// stage is how far an eviction has come.
type stage uint8

const (
	asked stage = iota + 1
	evicted
	refused
)

// ask is the newest eviction asked for one pod.
type ask struct {
	attempt int32
	stage   stage
	// owner of the pod, and facts, the sequence that the ask was decided at: asks of one
	// cycle have the same. The pod was to go from a node to another, which may be empty.
	owner    ownerID
	facts    uint64
	from, to string
	// youngest is when the youngest pod of the owner was made that the ask knew of; zero: not told.
	youngest time.Time
	// since is when this process first saw the stage, by its own clock; at is when it came about, as far as the log shows
	// (see Recall).
	since, at time.Time
	// refusals is how often in a row evictions of the pod were refused.
	refusals int
}

// unkept is a pod for whose replacement the ledger could keep no place, how often in a row, and when last, by the
// clock of this process.
type unkept struct {
	times int
	since time.Time
}

// past is what has been done to an owner: the rounds in which pods of it were evicted, the nodes
// that those have left, and those where their replacements were to land. Immutable.
type past struct {
	rounds       []round
	left, landed []stay
	// refused is the last round in which evictions were refused, refusals how many such rounds there were since one
	// in which pods were evicted.
	refused  round
	refusals int
}

// stay is a node and when something was about it for the first and, not long after, the last time.
// What replaces whom that concerned was made later than after, by the API server's clock; zero:
// not told.
type stay struct {
	node            string
	at, last, after time.Time
}

type round struct {
	facts uint64
	at    time.Time
}

// History holds the newest ask of each pod, and what has been done to each owner. It is
// derived from the decisions in the log and may be thrown away and read again. For one
// goroutine; the zero value is not usable.
type History struct {
	asks   map[string]ask
	owners map[ownerID]past
	// ofOwner are the pods of asks, by owner.
	ofOwner map[ownerID]map[string]bool
	// told are the pods of which it has been told that they came back.
	told map[string]bool
	// unkept are noted by this process alone: what the ledger refuses is in no log.
	unkept map[string]unkept
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		asks: map[string]ask{}, owners: map[ownerID]past{}, ofOwner: map[ownerID]map[string]bool{}, told: map[string]bool{},
		unkept: map[string]unkept{},
	}
}

// Clone returns a history that shares nothing that changes with h.
func (h *History) Clone() *History {
	c := &History{
		asks: maps.Clone(h.asks), owners: maps.Clone(h.owners), ofOwner: maps.Clone(h.ofOwner), told: maps.Clone(h.told),
		unkept: maps.Clone(h.unkept),
	}
	for owner, pods := range c.ofOwner {
		c.ofOwner[owner] = maps.Clone(pods)
	}
	return c
}

// Knows reports whether anything is remembered about a pod.
func (h *History) Knows(uid string) bool {
	_, known := h.asks[uid]
	return known
}

// Observe takes in one decision, new or delivered again, and reports whether it changed
// anything. An ask and its outcome belong together by Attempt; one that is older than what is
// known says nothing.
func (h *History) Observe(d events.Decision, now time.Time) (changed bool) {
	return h.Recall(d, now, 0)
}

// Recall is Observe for a decision that may have been in the log for a while. Pauses of pods and owners
// are counted from when it was made, so that a restart does not begin all of them anew: age may
// come from the clocks of two machines, whose error is an eviction that is early or late.
// Whether an eviction is under way is never told by such an age, but from now.
func (h *History) Recall(d events.Decision, now time.Time, age time.Duration) (changed bool) {
	if d.Kind == events.DecisionReturned {
		h.told[d.Pod.UID] = true
		return true
	}
	s := stageOf(d.Kind)
	known := h.asks[d.Pod.UID]
	if s == 0 || d.Attempt < known.attempt || d.Attempt == known.attempt && s <= known.stage {
		return false
	}
	at := now.Add(-max(age, 0))
	a := known.next(s, at)
	a.attempt, a.since = d.Attempt, now
	if s == asked {
		a.owner, a.facts = ownerIn(d.Pod.Namespace, d.Owner), d.FactSequence
		a.from = d.NodeName
		a.to = d.Landing
		a.youngest = d.Youngest
	}
	h.asks[d.Pod.UID] = a
	if a.owner == (ownerID{}) {
		return true
	}
	if h.ofOwner[a.owner] == nil {
		h.ofOwner[a.owner] = map[string]bool{}
	}
	h.ofOwner[a.owner][d.Pod.UID] = true
	switch s {
	case evicted:
		h.owners[a.owner] = h.owners[a.owner].with(a, at)
	case refused:
		h.owners[a.owner] = h.owners[a.owner].without(a, at)
	}
	return true
}

// next is an ask at a new stage, which came about at a time.
func (a ask) next(s stage, at time.Time) ask {
	switch {
	case s == refused:
		a.refusals++
	case s == evicted, at.Sub(a.at) >= 2*maxRest:
		a.refusals = 0
	}
	a.stage, a.at = s, at
	return a
}

// Unkept notes that the ledger can keep no place for the replacement of a pod, by UID: it rests as after an eviction
// that was refused.
func (h *History) Unkept(uid string, now time.Time) {
	u := h.unkept[uid]
	if now.Sub(u.since) >= 2*maxRest {
		u.times = 0
	}
	h.unkept[uid] = unkept{u.times + 1, now}
}

// rest is how long to leave alone what was refused so often in a row.
func rest(refusals int) time.Duration {
	pause := Cooldown
	for ; refusals > 1 && pause < maxRest; refusals-- {
		pause *= 2
	}
	return min(pause, maxRest)
}

func stageOf(k events.DecisionKind) stage {
	switch k {
	case events.DecisionEvict:
		return asked
	case events.DecisionEvicted:
		return evicted
	case events.DecisionEvictRefused:
		return refused
	default:
		return 0
	}
}

// with adds an eviction: to the round of its cycle if that is the last one.
func (p past) with(a ask, at time.Time) past {
	rounds := slices.Clone(p.rounds)
	if n := len(rounds); n > 0 && rounds[n-1].facts == a.facts {
		rounds[n-1].at = at
	} else {
		rounds = append(rounds, round{a.facts, at})
	}
	return past{
		rounds: rounds[max(0, len(rounds)-maxRounds):],
		left:   withStay(p.left, stay{a.from, at, at, a.youngest}),
		landed: withStay(p.landed, stay{a.to, at, at, a.youngest}),
	}
}

// without adds an eviction that was refused: to the round of its cycle if that is the last one. One whose round has
// evicted other pods says nothing of the owner.
func (p past) without(a ask, at time.Time) past {
	if n := len(p.rounds); n > 0 && p.rounds[n-1].facts == a.facts {
		return p
	}
	switch {
	case at.Sub(p.refused.at) >= 2*maxRest:
		p.refusals = 1
	case p.refused.facts != a.facts:
		p.refusals++
	}
	p.refused = round{a.facts, at}
	return p
}

// refusing: whatever pod of the owner is asked for, its eviction is refused.
func (p past) refusing(now time.Time) bool {
	return p.refusals > 1 && now.Sub(p.refused.at) < rest(p.refusals-1)
}

// withStay is a list with one more, or with one that stands for it prolonged, and without the
// oldest of too many.
func withStay(list []stay, s stay) []stay {
	if s.node == "" {
		return list
	}
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(o stay) bool {
		later := s.at.Sub(o.at)
		return o.node == s.node && later >= 0 && later < oneStay
	})
	if i >= 0 {
		list[i].last = s.at
		return list
	}
	return append(list, s)[max(0, len(list)+1-maxStays):]
}

// moved says whether a pod on a node, made at a time, is the replacement of one that was moved
// there; cameBack whether it stands where the one that it replaces had left, and where none has
// been moved to since. Times of pods are the API server's, and in seconds.
func (p past) moved(node string, made time.Time) bool {
	return slices.ContainsFunc(p.landed, func(s stay) bool { return s.replaced(node, made) })
}

func (p past) cameBack(node string, made time.Time) bool {
	return slices.ContainsFunc(p.left, func(left stay) bool {
		return left.replaced(node, made) && !slices.ContainsFunc(p.landed, func(s stay) bool {
			return s.last.After(left.last) && s.mayHaveReplaced(node, made)
		})
	})
}

// replaced: a pod made then, on that node, may replace one that the stay is about.
func (s stay) replaced(node string, made time.Time) bool {
	return s.mayHaveReplaced(node, made) && !made.Equal(s.after)
}

// mayHaveReplaced is replaced, of a pod made in the same second as the youngest of those before it, too.
func (s stay) mayHaveReplaced(node string, made time.Time) bool {
	later := made.Sub(s.at) >= -comebackSlack
	if !s.after.IsZero() {
		later = !made.Before(s.after)
	}
	return s.node == node && later && made.Sub(s.at) <= InFlight
}

// Forget drops pods that no longer exist once nothing about them can be under way, and owners
// that nothing has been done to for long. Pods that exist stay: their next ask continues the
// count.
func (h *History) Forget(exists func(uid string) bool, now time.Time) {
	for uid, a := range h.asks {
		if now.Sub(a.since) < InFlight || exists(uid) {
			continue
		}
		delete(h.asks, uid)
		delete(h.ofOwner[a.owner], uid)
		if len(h.ofOwner[a.owner]) == 0 {
			delete(h.ofOwner, a.owner)
		}
	}
	maps.DeleteFunc(h.unkept, func(uid string, _ unkept) bool { return !exists(uid) })
	maps.DeleteFunc(h.told, func(uid string, _ bool) bool { return !exists(uid) })
	maps.DeleteFunc(h.owners, func(_ ownerID, p past) bool {
		return now.Sub(p.last()) >= ownerMemory && now.Sub(p.refused.at) >= ownerMemory
	})
}

// refuse says why a pod must not be asked for now.
func (h *History) refuse(uid string, now time.Time) descheduling.Refusal {
	a, known := h.asks[uid]
	u := h.unkept[uid]
	switch {
	case known && a.stage == asked && now.Sub(a.since) < InFlight:
		return UnderWay
	case known && a.stage != asked && now.Sub(a.at) < rest(a.refusals):
		return CoolingDown
	case u.times > 0 && now.Sub(u.since) < rest(u.times):
		return Unkeepable
	default:
		return ""
	}
}

// underWay counts the pods of an owner that are going and still there.
func (h *History) underWay(owner ownerID, now time.Time, exists func(uid string) bool) int {
	n := 0
	for uid := range h.ofOwner[owner] {
		a := h.asks[uid]
		if a.stage != refused && now.Sub(a.since) < InFlight && exists(uid) {
			n++
		}
	}
	return n
}

// asking: evictions of an owner's pods have been asked for, and nobody knows yet what came of them.
func (h *History) asking(owner ownerID, now time.Time) bool {
	for uid := range h.ofOwner[owner] {
		if a := h.asks[uid]; a.stage == asked && now.Sub(a.since) < InFlight {
			return true
		}
	}
	return false
}

// Stands says whether an ask may still have its pod evicted, or has had it evicted not long ago.
func (h *History) Stands(uid string, attempt int32, now time.Time) bool {
	a, known := h.asks[uid]
	return known && a.attempt == attempt && a.stage != refused && now.Sub(a.since) < InFlight
}

// Told says whether it has been told that a pod came back (DecisionReturned).
func (h *History) Told(podUID string) bool { return h.told[podUID] }

// Next numbers the next ask for a pod, from 1.
func (h *History) Next(uid string) int32 { return h.asks[uid].attempt + 1 }

// last is the time of the last eviction; zero if there was none.
func (p past) last() time.Time {
	if len(p.rounds) == 0 {
		return time.Time{}
	}
	return p.rounds[len(p.rounds)-1].at
}

// pause is how long an owner is left alone after its last round: twice as long for every
// round before it, back to the first that came long after another.
func (p past) pause(b *policy.Berth) time.Duration {
	pause := b.Cooldown
	for i := len(p.rounds) - 1; i > 0 && pause < b.MaxCooldown; i-- {
		if p.rounds[i].at.Sub(p.rounds[i-1].at) >= 2*b.MaxCooldown {
			break
		}
		pause *= 2
	}
	return min(pause, b.MaxCooldown)
}

func (p past) resting(b *policy.Berth, now time.Time) bool {
	return len(p.rounds) > 0 && now.Sub(p.last()) < p.pause(b)
}

// recent: replacements of the last round may still be on their way. After the longest pause
// they are not waited for any more: something else is wrong with them.
func (p past) recent(b *policy.Berth, now time.Time) bool {
	return len(p.rounds) > 0 && now.Sub(p.last()) < max(b.MaxCooldown, InFlight)
}
