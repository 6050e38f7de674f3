package explore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Step is what happened between two states. It becomes text only when a history is printed: a model takes a hundred
// million steps and prints ten.
type Step struct {
	// Text has a verb for each argument that it uses, in order.
	Text    string
	A, B, C uint8
	// Late, if set, makes the text instead, for a step with more details.
	Late func() string
}

// String is the step as a person reads it.
func (s Step) String() string {
	if s.Late != nil {
		return s.Late()
	}
	args := []any{s.A, s.B, s.C}
	return fmt.Sprintf(s.Text, args[:strings.Count(s.Text, "%")]...)
}

// Compact is a model with more states than memory has room for. Only fingerprints of the
// states seen are kept, and those states that have not been looked at yet.
type Compact[S any] struct {
	Start S
	// Next calls step for every possible step from s. It must be a function of s: a history is reconstructed by
	// taking its steps again.
	Next func(s *S, step func(Step, S))
	// Key appends the part of s that distinguishes it from all states that behave differently. States with the same
	// key are treated as one, so symmetry and irrelevant detail are removed here.
	Key func(s *S, buf []byte) []byte
	// Broken describes the violation in s, empty for none.
	Broken func(s *S) string
	// Ended, if set, describes what is wrong in a state in which nothing can happen any more, empty for nothing.
	Ended func(s *S) string
	// Limit is how many states may be visited; more is an error, not a result.
	Limit int
}

// fingerprint represents a key. With a hundred million states, the chance that any two of 128 bits are the same is 1
// in 10^22.
type fingerprint [2]uint64

// Odd numbers without a pattern (the fractions of the square roots of 2, 3, 5 and 7).
const (
	mixA, mixB = 0x6a09e667f3bcc909, 0xbb67ae8584caa73b
	mixC, mixD = 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1
)

// fingerprintOf folds a key, eight bytes at a time, into two sums that share nothing.
func fingerprintOf(key []byte) fingerprint {
	a, b := uint64(mixA)^uint64(len(key)), uint64(mixC)+uint64(len(key))
	for len(key) > 0 {
		var word [8]byte
		n := copy(word[:], key)
		key = key[n:]
		w := binary.LittleEndian.Uint64(word[:])
		a = fold(a^w, mixB)
		b = fold(b+w*mixD, mixA^w)
	}
	return fingerprint{fold(a, mixD), fold(b, mixC)}
}

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// predecessors is how each state was reached first: from which, by which of its steps.
type predecessors struct {
	from []uint32
	step []uint16
}

// search is a RunCompact under way.
type search[S any] struct {
	m     Compact[S]
	seen  map[fingerprint]struct{}
	trail predecessors
	next  []S
	key   []byte
	// broken describes the violation in the state at.
	broken string
	at     uint32
}

// RunCompact visits every state, a step further each round, until one is broken. An error
// means that the limit was reached and nothing is known.
func RunCompact[S any](m Compact[S]) (Result, error) {
	if m.Limit <= 0 || m.Limit > math.MaxUint32 {
		return Result{}, fmt.Errorf("explore: limit of %d states: want 1 to %d", m.Limit, uint32(math.MaxUint32))
	}
	s := &search[S]{m: m, seen: map[fingerprint]struct{}{}}
	s.arrive(0, 0, &m.Start)
	for depth, first := 0, uint32(0); ; depth++ {
		level := s.next
		if s.broken != "" || len(level) == 0 {
			return s.result(depth), nil
		}
		s.next = nil
		for i := range level {
			s.expand(first+uint32(i), &level[i])
			if s.broken != "" {
				break
			}
			if len(s.trail.from) > m.Limit {
				return Result{}, fmt.Errorf("explore: more than %d states, the furthest %d steps away", m.Limit, depth+1)
			}
		}
		first += uint32(len(level))
	}
}

// expand takes every step from one state, until one breaks something.
func (s *search[S]) expand(from uint32, state *S) {
	n := uint16(0)
	s.m.Next(state, func(_ Step, to S) {
		if s.broken == "" {
			s.arrive(from, n, &to)
		}
		n++
	})
	if n == 0 && s.m.Ended != nil {
		s.broken, s.at = s.m.Ended(state), from
	}
}

// arrive keeps a state if it is new.
func (s *search[S]) arrive(from uint32, step uint16, state *S) {
	s.key = s.m.Key(state, s.key[:0])
	fp := fingerprintOf(s.key)
	if _, known := s.seen[fp]; known {
		return
	}
	s.seen[fp] = struct{}{}
	s.trail.from = append(s.trail.from, from)
	s.trail.step = append(s.trail.step, step)
	s.next = append(s.next, *state)
	s.broken, s.at = s.m.Broken(state), uint32(len(s.trail.from)-1)
}

func (s *search[S]) result(depth int) Result {
	r := Result{States: len(s.trail.from), Depth: depth, Broken: s.broken}
	if s.broken == "" {
		r.Depth = depth - 1 // the last round found nothing new
		return r
	}
	var steps []uint16
	for at := s.at; at != 0; at = s.trail.from[at] {
		steps = append(steps, s.trail.step[at])
	}
	r.Depth = len(steps)
	state := s.m.Start
	for i := len(steps) - 1; i >= 0; i-- {
		n, took := uint16(0), state
		s.m.Next(&took, func(by Step, to S) {
			if n == steps[i] {
				r.History = append(r.History, by.String())
				state = to
			}
			n++
		})
	}
	return r
}
