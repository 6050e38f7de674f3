package duel

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// meanArrival is the mean time between two arrivals, of which every other brings a pod for
	// each scheduler; stayMin and stayMax bound how long a pod is wanted.
	meanArrival      = 3 * time.Second
	stayMin, stayMax = 15 * time.Second, 30 * time.Second
	// meanEviction is the mean time between two evictions by other clients.
	meanEviction = 8 * time.Second
)

// action is the kind of a step.
type action string

const (
	arrive action = "arrive"
	leave  action = "leave"
	// evict asks the eviction API for one pod of an application, as `kubectl drain` does.
	evict action = "evict"
)

// step is one thing that happens.
type step struct {
	at time.Duration
	do action
	// pod is its name, or the name of an application for evict.
	pod string
	// scheduler, class and cpu are those of a pod that arrives.
	scheduler, class string
	cpu              int
}

// script is all that happens in the order of time. The same seed and length give the same.
func script(seed int64, length time.Duration) []step {
	r := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // a script has to be repeatable, not secret
	wait := func(mean time.Duration) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
	var steps []step
	for at := wait(meanArrival); at < length; at += wait(meanArrival) {
		who := schedulers
		if r.IntN(2) == 0 {
			who = []string{schedulers[r.IntN(len(schedulers))]}
		}
		for _, scheduler := range who {
			s := step{
				at: at, do: arrive, pod: fmt.Sprintf("urgent-%03d", len(steps)), scheduler: scheduler,
				class: pick(r), cpu: 1 + r.IntN(nodeCPU),
			}
			steps = append(steps, s)
			if gone := at + stayMin + time.Duration(r.Int64N(int64(stayMax-stayMin))); gone < length {
				steps = append(steps, step{at: gone, do: leave, pod: s.pod})
			}
		}
	}
	for at := wait(meanEviction); at < length; at += wait(meanEviction) {
		steps = append(steps, step{at: at, do: evict, pod: quorumName(r.IntN(quorums))})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}

// pick is the priority class of a pod that arrives: half, a third and a sixth of them.
func pick(r *rand.Rand) string {
	return []string{"middle", "middle", "middle", "high", "high", "top"}[r.IntN(6)]
}
