package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"

	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// leases holds the shards, which pods are leased to them, and under which term. It knows no pool: a pod whose lease
// ends is put elsewhere by the caller.
type leases struct {
	leading bool
	term    int64
	shards  map[string]*shard
	// order lists the shards by id.
	order []*shard
	// tokens holds the leased pods by token.
	tokens map[string]*waiting.Entry
	// seed and issued determine the next token.
	seed, issued uint64
}

// shard is the queue's knowledge of one shard, from its requests and the partitions it holds.
type shard struct {
	id string
	// window is how many pods the shard has last asked for at a time, 0 once it is silent. leased counts its leases.
	window, leased int
	// earlyLeases counts those leases whose pods left their backoff early.
	earlyLeases int
	lastSeen    waiting.Moment
	// exclusive is the pod that is offered to the shard with no other in addition; see waiting.SuspectAfter.
	exclusive  *waiting.Entry
	partitions []int32
	// balance is the balancer's record of the shard.
	balance balance.Record
}

func newLeases(seed uint64) *leases {
	return &leases{shards: map[string]*shard{}, tokens: map[string]*waiting.Entry{}, seed: seed}
}

// shard returns a shard by id. One that is not known is added.
func (l *leases) shard(id string) *shard {
	s, ok := l.shards[id]
	if !ok {
		s = &shard{id: id}
		l.shards[id] = s
		at, _ := slices.BinarySearchFunc(l.order, s, byID)
		l.order = slices.Insert(l.order, at, s)
	}
	return s
}

func byID(a, b *shard) int { return strings.Compare(a.id, b.id) }

// leased returns the pod that a shard has leased under a token; nil for none.
func (l *leases) leased(s *shard, token string) *waiting.Entry {
	if e, ok := l.tokens[token]; ok && e.Attempt.Shard == s.id {
		return e
	}
	return nil
}

// begin leases a pod to a shard until a deadline. early means that the pod leaves its backoff early.
func (l *leases) begin(e *waiting.Entry, s *shard, early bool, until waiting.Moment) {
	e.Attempt.Token = l.newToken().String()
	e.Attempt.Shard = s.id
	e.Attempt.Deadline = until
	l.tokens[e.Attempt.Token] = e
	s.leased++
	if early {
		e.Attempt.Early = true
		s.earlyLeases++
	}
	if e.Suspect() {
		s.exclusive = e
	}
}

// End ends the lease of a pod. The pod keeps its token: a late answer is still believed.
func (l *leases) End(e *waiting.Entry) {
	delete(l.tokens, e.Attempt.Token)
	s := l.shards[e.Attempt.Shard]
	s.leased--
	if e.Attempt.Early {
		s.earlyLeases--
		e.Attempt.Early = false
	}
	if s.exclusive == e {
		s.exclusive = nil
	}
}

// setOwners records the holders of the partitions.
func (l *leases) setOwners(owners *[ledger.Partitions]string) {
	for _, s := range l.shards {
		s.partitions = nil
	}
	for p, owner := range owners {
		if owner != "" {
			s := l.shard(owner)
			s.partitions = append(s.partitions, int32(p))
		}
	}
}

// silent reports whether a shard has missed its heartbeats: then its leases did not end because it handed over its
// partitions.
func (s *shard) silent(lease time.Duration, now waiting.Moment) bool {
	return s.lastSeen.Add(lease/2) < now
}

// hasRoom reports whether a shard can take another pod.
func (s *shard) hasRoom() bool { return s.leased < s.window && s.exclusive == nil }

// forgetSilent drops the windows of shards that have requested nothing for a time, and forgets those that hold
// nothing.
func (l *leases) forgetSilent(timeout time.Duration, now waiting.Moment) {
	for _, s := range l.order {
		if s.lastSeen.Add(timeout) <= now {
			s.window = 0
		}
	}
	l.order = slices.DeleteFunc(l.order, func(s *shard) bool {
		idle := s.window == 0 && s.leased == 0 && len(s.partitions) == 0
		if idle {
			delete(l.shards, s.id)
		}
		return idle
	})
}

// newToken uses SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a bijection of
// a counter, so that one seed never repeats a token.
func (l *leases) newToken() ledger.Token {
	for {
		l.issued++
		z := l.seed + l.issued*0x9e3779b97f4a7c15
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		if z ^= z >> 31; z != 0 {
			return ledger.Token(z)
		}
	}
}

// check compares the leases with the pods that are offered.
func (l *leases) check(offered []*waiting.Entry) error {
	leased := map[string]int{}
	for _, e := range offered {
		leased[e.Attempt.Shard]++
		if l.tokens[e.Attempt.Token] != e {
			return fmt.Errorf("I5: pod %s: token %s leads elsewhere", e.Pod.UID, e.Attempt.Token)
		}
	}
	if len(l.tokens) != len(offered) {
		return fmt.Errorf("I5: %d tokens, %d offers", len(l.tokens), len(offered))
	}
	for _, s := range l.order {
		if s.earlyLeases < 0 || s.earlyLeases > min(s.leased, maxEarlyLeases) {
			return fmt.Errorf("I5: shard %s has %d early pods in hand, of %d", s.id, s.earlyLeases, s.leased)
		}
		if s.leased != leased[s.id] {
			return fmt.Errorf("I5: shard %s holds %d leases, counted %d", s.id, leased[s.id], s.leased)
		}
	}
	return nil
}
