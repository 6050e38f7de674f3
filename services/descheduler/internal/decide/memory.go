package decide

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// InFlight is how long an ask without an outcome stands. A binder settles one in
	// seconds; after this long the ask, or its outcome, is taken for lost.
	InFlight = 10 * time.Minute
	// Cooldown is how long a pod is left alone after an outcome: a budget that refused
	// needs time to recover (a failed eviction can hold it for two minutes), and a pod that
	// was evicted needs time to go. At least as long as the usual interval between cycles,
	// so that it bridges one.
	Cooldown = 5 * time.Minute
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
	// since is when this process first saw the stage, by its own clock: asks of another
	// replica, or from before a restart, count from when they were read.
	since time.Time
}

// Memory holds the newest ask of each pod. It is derived from the decisions in the log and
// may be thrown away and read again. For one goroutine; the zero value is not usable.
type Memory struct {
	asks map[string]ask
}

// NewMemory returns an empty memory.
func NewMemory() Memory { return Memory{asks: map[string]ask{}} }

// Clone returns a memory that shares nothing with m.
func (m Memory) Clone() Memory { return Memory{asks: maps.Clone(m.asks)} }

// Knows reports whether anything is remembered about a pod.
func (m Memory) Knows(uid string) bool {
	_, known := m.asks[uid]
	return known
}

// Observe takes in one decision, new or delivered again, and reports whether it changed
// anything. An ask and its outcome belong together by Attempt; one that is older than what
// is known says nothing.
func (m Memory) Observe(d events.Decision, now time.Time) (changed bool) {
	s := stageOf(d.Kind)
	known := m.asks[d.Pod.UID]
	if s == 0 || d.Attempt < known.attempt || d.Attempt == known.attempt && s <= known.stage {
		return false
	}
	m.asks[d.Pod.UID] = ask{attempt: d.Attempt, stage: s, since: now}
	return true
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

// Forget drops pods that no longer exist once nothing about them can be under way. Those
// that exist stay: their next ask continues the count.
func (m Memory) Forget(exists func(uid string) bool, now time.Time) {
	maps.DeleteFunc(m.asks, func(uid string, a ask) bool {
		return now.Sub(a.since) >= InFlight && !exists(uid)
	})
}

// refuse says why a pod must not be asked for now.
func (m Memory) refuse(uid string, now time.Time) descheduling.Refusal {
	a, known := m.asks[uid]
	age := now.Sub(a.since)
	switch {
	case known && a.stage == asked && age < InFlight:
		return UnderWay
	case known && a.stage != asked && age < Cooldown:
		return CoolingDown
	default:
		return ""
	}
}

// next numbers the next ask for a pod, from 1.
func (m Memory) next(uid string) int32 { return m.asks[uid].attempt + 1 }

// token names one ask. It is derived rather than drawn so that every replica that makes
// the same ask gives it the same name.
func token(uid string, attempt int32) ledger.Token {
	sum := sha256.Sum256([]byte("evict/" + uid + "/" + strconv.Itoa(int(attempt))))
	return ledger.Token(max(binary.BigEndian.Uint64(sum[:]), 1)) // 0 is no token
}
