package plan

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

const (
	// ownerMemory is how long an owner's past is kept; its pauses are shorter (policy.MaxCooldownLimit).
	ownerMemory = 24 * time.Hour
	// maxStays is how many nodes are kept that an owner's pods have left or landed on.
	maxStays = 256
	// oneStay is the time after an eviction within which others from (or to) the same node count as the same stay.
	oneStay = time.Minute
	// returnSlack is by how much the API server's clock may be behind, plus the fraction of a second that it
	// truncates, so that a replacement seems to be older than the pod it replaces. It is for requests that do not
	// report the youngest pod of their owner.
	returnSlack = 5 * time.Second
	// maxRounds is how many of an owner's last rounds are kept: more do not double the pause further.
	maxRounds = 16
)

// ownerHistory is an owner's record of evictions: the rounds in which pods of it were evicted, the nodes that those
// have left, and the nodes where their replacements were to land. Immutable: with… methods return a changed copy.
type ownerHistory struct {
	rounds       []round
	left, landed []nodeStay
	// refused is the last round in which evictions were refused; refusals is the number of such rounds since the
	// last one in which pods were evicted.
	refused  round
	refusals int
}

// nodeStay is a node, and the times of the first and, not long after, the last eviction that concerned it.
// Replacements of those pods were created later than after, by the API server's clock; zero means not reported.
type nodeStay struct {
	node            string
	at, last, after time.Time
}

// round is the cycle, by its fact sequence, in which pods of an owner were evicted or refused. at is when the last
// of them was.
type round struct {
	facts uint64
	at    time.Time
}

// withEviction adds an eviction: to the round of its cycle if that is the last one.
func (p ownerHistory) withEviction(a request, at time.Time) ownerHistory {
	rounds := slices.Clone(p.rounds)
	if n := len(rounds); n > 0 && rounds[n-1].facts == a.facts {
		rounds[n-1].at = at
	} else {
		rounds = append(rounds, round{a.facts, at})
	}
	return ownerHistory{
		rounds: rounds[max(0, len(rounds)-maxRounds):],
		left:   addStay(p.left, nodeStay{a.from, at, at, a.youngest}),
		landed: addStay(p.landed, nodeStay{a.to, at, at, a.youngest}),
	}
}

// withRefusal adds a refused eviction: to the round of its cycle if that is the last one. A refusal in a round that has
// evicted other pods says nothing about the owner.
func (p ownerHistory) withRefusal(a request, at time.Time) ownerHistory {
	if n := len(p.rounds); n > 0 && p.rounds[n-1].facts == a.facts {
		return p
	}
	switch {
	case at.Sub(p.refused.at) >= 2*maxBackoff:
		p.refusals = 1
	case p.refused.facts != a.facts:
		p.refusals++
	}
	p.refused = round{a.facts, at}
	return p
}

// refusedLately reports whether evictions are currently refused for every pod of the owner.
func (p ownerHistory) refusedLately(now time.Time) bool {
	return p.refusals > 1 && now.Sub(p.refused.at) < backoff(p.refusals-1)
}

// addStay returns a list with one more stay, or with an existing one that covers it prolonged, and without the
// oldest if there are too many. It never changes the given list.
func addStay(list []nodeStay, s nodeStay) []nodeStay {
	if s.node == "" {
		return list
	}
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(o nodeStay) bool {
		later := s.at.Sub(o.at)
		return o.node == s.node && later >= 0 && later < oneStay
	})
	if i >= 0 {
		list[i].last = s.at
		return list
	}
	return append(list, s)[max(0, len(list)+1-maxStays):]
}

// moved reports whether a pod on a node, created at a time, is the replacement of a pod that was moved there.
// Creation times of pods are the API server's, in seconds.
func (p ownerHistory) moved(node string, made time.Time) bool {
	return slices.ContainsFunc(p.landed, func(s nodeStay) bool { return s.replaces(node, made) })
}

// returned reports whether such a pod is on the node that the pod it replaces had left, and no pod has been moved
// to that node since.
func (p ownerHistory) returned(node string, made time.Time) bool {
	return slices.ContainsFunc(p.left, func(left nodeStay) bool {
		return left.replaces(node, made) && !slices.ContainsFunc(p.landed, func(s nodeStay) bool {
			return s.last.After(left.last) && s.mayReplace(node, made)
		})
	})
}

// replaces reports whether a pod created then, on that node, may replace a pod of the stay. A pod created in the
// same second as the youngest of the earlier pods may be that pod itself, and does not count.
func (s nodeStay) replaces(node string, made time.Time) bool {
	return s.mayReplace(node, made) && !made.Equal(s.after)
}

// mayReplace is replaces that also accepts a pod created in the same second as the youngest of the earlier pods.
func (s nodeStay) mayReplace(node string, made time.Time) bool {
	later := made.Sub(s.at) >= -returnSlack
	if !s.after.IsZero() {
		later = !made.Before(s.after)
	}
	return s.node == node && later && made.Sub(s.at) <= InFlight
}

// last returns the time of the last eviction; zero if there was none.
func (p ownerHistory) last() time.Time {
	if len(p.rounds) == 0 {
		return time.Time{}
	}
	return p.rounds[len(p.rounds)-1].at
}

// pause returns how long an owner is left alone after its last round: twice as long for every round before it, back
// to the first that came long after the one before.
func (p ownerHistory) pause(b *policy.Berth) time.Duration {
	pause := b.Cooldown
	for i := len(p.rounds) - 1; i > 0 && pause < b.MaxCooldown; i-- {
		if p.rounds[i].at.Sub(p.rounds[i-1].at) >= 2*b.MaxCooldown {
			break
		}
		pause *= 2
	}
	return min(pause, b.MaxCooldown)
}

// coolingDown reports whether the owner is left alone because pods of it were evicted not long ago.
func (p ownerHistory) coolingDown(b *policy.Berth, now time.Time) bool {
	return len(p.rounds) > 0 && now.Sub(p.last()) < p.pause(b)
}

// recent reports whether replacements of the last round may still be pending. After the longest pause they are no
// longer waited for: something else is wrong with them.
func (p ownerHistory) recent(b *policy.Berth, now time.Time) bool {
	return len(p.rounds) > 0 && now.Sub(p.last()) < max(b.MaxCooldown, InFlight)
}
