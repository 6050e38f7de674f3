package explore

import "fmt"

// Model is the input of Run. A state must hold everything that decides which steps are possible, and nothing else, or
// the same state is visited many times.
type Model[S comparable] struct {
	Start S
	// Next calls step for everything that can happen in s.
	Next func(s S, step func(name string, to S))
	// Broken describes the violation in s, empty for none.
	Broken func(s S) string
	// Limit is how many states may be visited; more is an error, not a result.
	Limit int
}

// Result of an exploration.
type Result struct {
	// States is how many were visited, Depth how many steps the furthest is away.
	States, Depth int
	// Broken is the first violation found, empty when there is none in any state, and
	// History the steps that lead to it.
	Broken  string
	History []string
}

// arrival is how a state was reached first.
type arrival struct {
	from, depth int
	by          string
}

// Run visits every state, until one is broken, and keeps them all; RunCompact does not.
// An error means that the limit was reached
// and nothing is known.
func Run[S comparable](m Model[S]) (Result, error) {
	states, arrivals := []S{m.Start}, []arrival{{from: -1}}
	seen := map[S]struct{}{m.Start: {}}
	for at := 0; at < len(states); at++ {
		if broken := m.Broken(states[at]); broken != "" {
			return Result{
				States: len(states), Depth: arrivals[at].depth, Broken: broken, History: history(arrivals, at),
			}, nil
		}
		m.Next(states[at], func(name string, to S) {
			if _, known := seen[to]; known {
				return
			}
			seen[to] = struct{}{}
			states = append(states, to)
			arrivals = append(arrivals, arrival{from: at, depth: arrivals[at].depth + 1, by: name})
		})
		if len(states) > m.Limit {
			return Result{}, fmt.Errorf("explore: more than %d states", m.Limit)
		}
	}
	return Result{States: len(states), Depth: arrivals[len(arrivals)-1].depth}, nil
}

func history(arrivals []arrival, at int) []string {
	var steps []string
	for ; arrivals[at].from >= 0; at = arrivals[at].from {
		steps = append(steps, arrivals[at].by)
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}
