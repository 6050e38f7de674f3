package plan

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling"
)

// Report is a plan for people and programs: which pods would be moved and where to, and which pods stay and why.
type Report struct {
	// Facts is the sequence in the log at which the plan was made: the same facts and the same history give the
	// same plan.
	Facts uint64 `json:"facts"`
	// Nodes is how many nodes were considered; Picked is how many pods strategies picked.
	Nodes  int `json:"nodes"`
	Picked int `json:"picked"`
	// Skipped explains why there is no plan.
	Skipped string `json:"skipped,omitempty"`
	// Paused reports that descheduling is paused: a dry run then shows what would be done otherwise.
	Paused string `json:"paused,omitempty"`
	// Evict is in the order of execution; Kept is sorted by pod, then strategy.
	Evict  []PlannedEviction `json:"evict"`
	Kept   []KeptPod         `json:"kept"`
	Failed []FailedStrategy  `json:"failed,omitempty"`
	// Strategies holds the strategies in the order in which they ran, with their explanations.
	Strategies []descheduling.StrategyReport `json:"strategies"`
}

// PlannedEviction is a pod to evict.
type PlannedEviction struct {
	// Pod is "namespace/name".
	Pod string `json:"pod"`
	// Node is the node that it leaves. Landing is the node where its replacement is expected; empty if the policy
	// does not require one.
	Node     string `json:"node"`
	Landing  string `json:"landing,omitempty"`
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	Reason   string `json:"reason"`
}

// KeptPod is a pod that a strategy picked but that stays.
type KeptPod struct {
	Pod      string `json:"pod"`
	Node     string `json:"node"`
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	Reason   string `json:"reason"`
	// Because is the reason why it stays.
	Because descheduling.Refusal `json:"because"`
}

// FailedStrategy is a strategy that could not run, with its error as text.
type FailedStrategy struct {
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	Error    string `json:"error"`
}

// Explain makes the plan and a report of it. It costs an entry for every pod that stays. The plan is the same as
// that of Make.
func Explain(in Input) (Plan, Report) {
	r := Report{Evict: []PlannedEviction{}, Kept: []KeptPod{}} // empty lists rather than null, for programs
	in.Kept = func(c descheduling.Candidate, against descheduling.Refusal) {
		r.Kept = append(r.Kept, KeptPod{
			Pod: c.Pod.Key(), Node: c.Pod.NodeName, Profile: c.Profile, Strategy: c.Strategy, Reason: c.Reason, Because: against,
		})
	}
	p := Make(in)
	slices.SortStableFunc(r.Kept, func(a, b KeptPod) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Strategy, b.Strategy))
	})
	r.Facts = in.Cluster.Position().Sequence
	r.Nodes = p.Nodes
	r.Picked = p.Picked
	r.Skipped = p.Skipped
	r.Strategies = p.Reports
	for i := range p.Moves {
		m := &p.Moves[i]
		going := PlannedEviction{
			Pod: m.Pod.Key(), Node: m.Pod.NodeName, Profile: m.Profile, Strategy: m.Strategy, Reason: m.Reason,
		}
		if m.To != nil {
			going.Landing = m.To.Name
		}
		r.Evict = append(r.Evict, going)
	}
	for _, f := range p.Failed {
		r.Failed = append(r.Failed, FailedStrategy{Profile: f.Profile, Strategy: f.Strategy, Error: f.Err.Error()})
	}
	return p, r
}
