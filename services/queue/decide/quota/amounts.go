package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Annotation holds a namespace's budget, as "requests.cpu=4,requests.memory=8Gi,pods=10": each resource at most once;
// a resource that is left out is not limited.
const Annotation = "berth.dev/quota"

// Amounts are the resources that budgets limit.
type Amounts struct{ MilliCPU, Memory, Pods int64 }

// Plus returns the sum.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{a.MilliCPU + b.MilliCPU, a.Memory + b.Memory, a.Pods + b.Pods}
}

func (a Amounts) minus(b Amounts) Amounts {
	return Amounts{a.MilliCPU - b.MilliCPU, a.Memory - b.Memory, a.Pods - b.Pods}
}

// Within reports whether a fits a budget, in which a negative amount means no limit.
func (a Amounts) Within(budget Amounts) bool {
	fits := func(amount, limit int64) bool { return limit < 0 || amount <= limit }
	return fits(a.MilliCPU, budget.MilliCPU) && fits(a.Memory, budget.Memory) && fits(a.Pods, budget.Pods)
}

func (a Amounts) String() string {
	return fmt.Sprintf("requests.cpu=%s requests.memory=%s pods=%d",
		resource.NewMilliQuantity(a.MilliCPU, resource.DecimalSI), resource.NewQuantity(a.Memory, resource.BinarySI), a.Pods)
}

var unlimited = Amounts{-1, -1, -1}

// Requests returns what a pod requests.
func Requests(p *state.Pod) Amounts { return Amounts{p.Requests.MilliCPU, p.Requests.Memory, 1} }

// Counted returns what a pod counts against the budget of its namespace. p may be nil.
func Counted(p *state.Pod) Amounts {
	if p == nil || p.Terminal || HasGate(p) {
		return Amounts{}
	}
	return Requests(p)
}

// HasGate reports whether a pod has the quota gate.
func HasGate(p *state.Pod) bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, isQuotaGate)
}

// Waits reports whether the quota gate is the last gate of a pod.
func Waits(p *state.Pod) bool {
	return p.Gated && len(p.Template.Spec.SchedulingGates) == 1 && HasGate(p)
}

func isQuotaGate(g corev1.PodSchedulingGate) bool { return g.Name == events.QuotaGate }

// Parse parses a budget.
func Parse(text string) (Amounts, error) {
	budget := unlimited
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Sign() < 0 {
			return Amounts{}, fmt.Errorf("%s is %q, want a quantity of 0 or more", name, value)
		}
		limit, amount := &budget.Pods, q.Value()
		switch name {
		case "requests.cpu":
			limit, amount = &budget.MilliCPU, q.MilliValue()
		case "requests.memory":
			limit = &budget.Memory
		case "pods":
		default:
			return Amounts{}, fmt.Errorf("%q is unknown, want requests.cpu, requests.memory or pods", name)
		}
		if *limit >= 0 {
			return Amounts{}, fmt.Errorf("%s stands twice, want it once", name)
		}
		*limit = amount
	}
	return budget, nil
}
