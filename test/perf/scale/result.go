package scale

import (
	"fmt"
	"slices"
	"time"
)

// Result is the result of a run.
type Result struct {
	Scenario Scenario `json:"scenario"`
	// PodsPerSecond is counted from the arrival of the pods to the last bind.
	PodsPerSecond float64 `json:"podsPerSecond"`
	Seconds       float64 `json:"seconds"`
	// Steady is the same up to the bind of nearly all pods (steadyPercent): without the few that lost
	// so often that they had to be offered again.
	Steady  float64 `json:"steadyPodsPerSecond"`
	Placed  int     `json:"placed"`
	Refused int     `json:"refused"`
	// Txns are the shards' transactions, Conflicts those that the ledger refused; Lost counts the
	// pods in them, Searches the searches for a node.
	Txns      int `json:"txns"`
	Conflicts int `json:"conflicts"`
	Searches  int `json:"searches"`
	Age       Age `json:"age"`
	// Wall is the busiest process, of those of its kind the first, and Busy how much of its time it is busy.
	// Utilisation is that by kind, of the busiest of each.
	Wall        string             `json:"wall"`
	Busy        float64            `json:"busy"`
	Utilisation map[string]float64 `json:"utilisation"`
	// Micros is processor time a pod by kind of process, in microseconds.
	Micros map[string]float64 `json:"microsPerPod"`
	// MemoryBytes is a shard's memory, extrapolated from a measured shard.
	MemoryBytes float64 `json:"memoryBytes"`
}

// steadyPercent of the pods are bound when Result.Steady is counted.
const steadyPercent = 95

// Age is how old the pictures were that decisions were made on.
type Age struct {
	// LedgerP50 and LedgerP99 are for how many milliseconds there had been something in a ledger
	// that the shard did not know; 0 when it knew everything. Revisions is how many, on average.
	LedgerP50 float64 `json:"ledgerP50Ms"`
	LedgerP99 float64 `json:"ledgerP99Ms"`
	Revisions float64 `json:"revisions"`
	// FactsP50 is for how many milliseconds there had been a bind that the shard had not observed.
	FactsP50 float64 `json:"factsP50Ms"`
}

// ConflictPercent is the share of transactions that the ledger refused.
func (r Result) ConflictPercent() float64 {
	if r.Txns == 0 {
		return 0
	}
	return 100 * float64(r.Conflicts) / float64(r.Txns)
}

// tally holds the counters of a run in progress.
type tally struct {
	// bound counts binds; lastBind is when the last was, nearlyAll when steadyPercent were.
	bound               int
	lastBind, nearlyAll time.Duration
	refused             int
	txns, conflicts     int
	searches            int
	behind              float64
	ages                []age
}

type age struct {
	ledger, facts float32 // milliseconds
	decisions     int32
}

func (t *tally) tallyBind(now time.Duration, all int) {
	t.bound++
	t.lastBind = now
	if t.bound*100 <= all*steadyPercent {
		t.nearlyAll = now
	}
}

func (t *tally) tallyTxn(succeeded bool) {
	t.txns++
	if !succeeded {
		t.conflicts++
	}
}

func (t *tally) tallyAge(ledger, facts time.Duration, behind, decisions int) {
	const ms = float32(time.Millisecond)
	t.searches += decisions
	t.behind += float64(behind * decisions)
	t.ages = append(t.ages, age{float32(ledger) / ms, float32(facts) / ms, int32(decisions)})
}

// result sums up, and looks that every pod has been placed once or refused.
func (w *world) result() (Result, error) {
	r := Result{
		Scenario: w.Scenario, Seconds: w.lastBind.Seconds(), Refused: w.refused,
		Txns: w.txns, Conflicts: w.conflicts, Searches: w.searches, Age: w.age(),
		Utilisation: map[string]float64{}, Micros: map[string]float64{},
	}
	for i, p := range w.pods {
		if p.bound {
			r.Placed++
		}
		if refused := p.attempts == mostAttempts; p.bound == refused {
			return r, fmt.Errorf("scale: %s: pod %d is bound: %t, refused: %t", w.Scenario, i, p.bound, refused)
		}
	}
	if err := w.overfull(); err != nil {
		return r, err
	}
	r.PodsPerSecond = float64(r.Placed) / max(r.Seconds, time.Nanosecond.Seconds())
	for _, p := range w.everything() {
		kind := p.kind()
		r.Utilisation[kind] = max(r.Utilisation[kind], p.utilisation())
		r.Micros[kind] += float64(p.busy.Microseconds()) / float64(w.Pods)
		if u := p.utilisation(); u > r.Busy {
			r.Wall, r.Busy = kind, u
		}
	}
	r.Steady = float64(r.Placed) * steadyPercent / 100 / max(w.nearlyAll.Seconds(), time.Nanosecond.Seconds())
	nodes, held := w.Nodes, w.Pods+w.Nodes
	if w.OwnRange {
		nodes, held = nodes/w.groups(), held/w.groups()
	}
	r.MemoryBytes = w.costs.Memory(nodes, held)
	return r, nil
}

// overfull looks for nodes with more pods than fit: which the ledger must prevent.
func (w *world) overfull() error {
	counts := map[int32]int{}
	for _, p := range w.pods {
		if p.bound {
			counts[p.node]++
		}
	}
	for n, count := range counts {
		room := min(podsPerNode-1, int((1-w.standing(int(n)))*nodeCPU/podCPU))
		if count > room+1 {
			return fmt.Errorf("scale: %s: %d pods are on node %d, which has room for %d", w.Scenario, count, n, room)
		}
	}
	return nil
}

func (w *world) age() (a Age) {
	if w.searches == 0 {
		return a
	}
	a.Revisions = w.behind / float64(w.searches)
	a.LedgerP50 = w.percentile(50, func(x age) float32 { return x.ledger })
	a.LedgerP99 = w.percentile(99, func(x age) float32 { return x.ledger })
	a.FactsP50 = w.percentile(50, func(x age) float32 { return x.facts })
	return a
}

// percentile weighs each step by its decisions.
func (w *world) percentile(percent int, of func(age) float32) float64 {
	list := slices.Clone(w.ages)
	slices.SortFunc(list, func(x, y age) int {
		switch {
		case of(x) < of(y):
			return -1
		case of(x) > of(y):
			return 1
		}
		return 0
	})
	rest := w.searches * percent / 100
	for _, x := range list {
		if rest -= int(x.decisions); rest < 0 {
			return float64(of(x))
		}
	}
	return float64(of(list[len(list)-1]))
}

// kind is the name of a process without its number.
func (p *process) kind() string {
	for i, c := range p.name {
		if c == '-' {
			return p.name[:i]
		}
	}
	return p.name
}
