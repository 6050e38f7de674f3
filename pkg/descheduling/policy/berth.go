package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// Defaults and limits of the berth block.
const (
	DefaultCooldown    = time.Minute
	DefaultMaxCooldown = time.Hour
	// DefaultMaxPerOwner is a share of the owner's pods, like a Deployment's own maxUnavailable.
	DefaultMaxPerOwner = "25%"
	// DefaultMaxPerCycle is about as many evictions as binders carry out between two cycles.
	DefaultMaxPerCycle = 1000
	// MaxCooldownLimit bounds maxCooldown: history is kept for twice as long.
	MaxCooldownLimit = 12 * time.Hour
	// MaxUsageHalfLife bounds usageHalfLife: a longer smoothing would hide changes of load.
	MaxUsageHalfLife = time.Hour
)

// defaultExcluded holds the namespaces whose pods stay, unless the file names others.
var defaultExcluded = []string{metav1.NamespaceSystem}

// Berth is the block with that name at the top of a policy, which upstream does not know. It limits how strongly
// the owners of pods are affected. An owner is a pod's controller, such as a ReplicaSet.
type Berth struct {
	// Cooldown is how long an owner is left alone after pods of it were evicted. It doubles with every further
	// time, up to MaxCooldown, until the owner was left alone for twice that. 0 means no pause.
	Cooldown, MaxCooldown time.Duration
	// MaxPerOwner is how many pods of an owner may be evicted at once: a number, or a percentage of its pods,
	// rounded up.
	MaxPerOwner intstr.IntOrString
	// MaxPerCycle is the largest number of pods that a cycle evicts, in addition to the limits of upstream; 0 means
	// no limit.
	MaxPerCycle int
	// PauseDuringRollout keeps the pods of Deployments and StatefulSets that are rolling out.
	PauseDuringRollout bool
	// WaitForReady keeps an owner's pods until the replacements of those evicted last are ready.
	WaitForReady bool
	// ExcludeNamespaces holds the namespaces all of whose pods stay.
	ExcludeNamespaces []string
	// UsageHalfLife smooths the usage reported by metrics.k8s.io: it is the time after which a sample counts half.
	// 0 means that only the last sample counts.
	UsageHalfLife time.Duration
}

// AtOnce returns how many of an owner's pods may be evicted at once, at least 1. Example: 25% of 5 pods is 2, since
// percentages are rounded up.
func (b *Berth) AtOnce(pods int) int {
	most, err := intstr.GetScaledValueFromIntOrPercent(&b.MaxPerOwner, pods, true)
	if err != nil {
		return 1 // the policy was checked
	}
	return max(most, 1)
}

// berthBlock is Berth in the file. The comments of its fields are the users' reference
// (docs/fields.md).
type berthBlock struct {
	// How long an owner (a pod's controller) is left alone after pods of it were evicted; it doubles
	// with every further time. 0s: no pause. Default 1m.
	Cooldown *metav1.Duration `json:"cooldown"`
	// Where the doubling ends, at most 12h. Default 1h.
	MaxCooldown *metav1.Duration `json:"maxCooldown"`
	// How many pods of an owner may go at once: a number, or percents of its pods, rounded up. Default 25%.
	MaxPerOwner *intstr.IntOrString `json:"maxPerOwner"`
	// How many pods a cycle evicts at most, beside the limits of upstream. 0: no limit. Default 1000.
	MaxPerCycle *int `json:"maxPerCycle"`
	// Whether the pods of Deployments and StatefulSets that are rolling out stay. Default true.
	PauseDuringRollout *bool `json:"pauseDuringRollout"`
	// Whether an owner's pods stay until the replacements of those evicted last are ready. Default true.
	WaitForReady *bool `json:"waitForReady"`
	// Namespaces all of whose pods stay. Default kube-system.
	ExcludeNamespaces *[]string `json:"excludeNamespaces"`
	// After how long a sample of metrics.k8s.io counts half, at most 1h. 0s (default): the last sample
	// alone counts.
	UsageHalfLife *metav1.Duration `json:"usageHalfLife"`
}

// berth reads the berth block; a missing or empty one gives the defaults. Fields that the file does not set keep
// their defaults one by one.
func (r *resolver) berth(raw []byte) Berth {
	out := Berth{
		Cooldown: DefaultCooldown, MaxCooldown: DefaultMaxCooldown, MaxPerOwner: intstr.FromString(DefaultMaxPerOwner),
		MaxPerCycle:        DefaultMaxPerCycle,
		PauseDuringRollout: true, WaitForReady: true, ExcludeNamespaces: slices.Clone(defaultExcluded),
	}
	path := field.NewPath("berth")
	var in berthBlock
	if len(raw) == 0 || string(raw) == "null" {
		return out
	}
	strictyaml.Decode(raw, &in, path, r.Report)
	r.pauses(&in, &out, path)
	if in.MaxPerOwner != nil {
		out.MaxPerOwner = *in.MaxPerOwner
		r.checkAtOnce(out.MaxPerOwner, path.Child("maxPerOwner"))
	}
	if in.MaxPerCycle != nil {
		out.MaxPerCycle = *in.MaxPerCycle
	}
	if out.MaxPerCycle < 0 {
		r.Add(path.Child("maxPerCycle"), out.MaxPerCycle, "want 0 (no limit) or more pods")
	}
	if in.PauseDuringRollout != nil {
		out.PauseDuringRollout = *in.PauseDuringRollout
	}
	if in.WaitForReady != nil {
		out.WaitForReady = *in.WaitForReady
	}
	if in.ExcludeNamespaces != nil {
		out.ExcludeNamespaces = *in.ExcludeNamespaces
	}
	if in.UsageHalfLife != nil {
		out.UsageHalfLife = in.UsageHalfLife.Duration
	}
	if out.UsageHalfLife < 0 || out.UsageHalfLife > MaxUsageHalfLife {
		r.Add(path.Child("usageHalfLife"), out.UsageHalfLife.String(),
			fmt.Sprintf("want 0s (only the last sample counts) to %s", MaxUsageHalfLife))
	}
	for i, name := range out.ExcludeNamespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			r.Add(path.Child("excludeNamespaces").Index(i), name, "want the name of a namespace: "+strings.Join(problems, "; "))
		}
	}
	return out
}

// pauses reads the two cooldowns. A cooldown above the default maximum raises the maximum with it, so that setting
// one of the two is enough.
func (r *resolver) pauses(in *berthBlock, out *Berth, path *field.Path) {
	if in.Cooldown != nil {
		out.Cooldown = in.Cooldown.Duration
		out.MaxCooldown = max(out.MaxCooldown, out.Cooldown)
	}
	if in.MaxCooldown != nil {
		out.MaxCooldown = in.MaxCooldown.Duration
	}
	switch {
	case out.Cooldown < 0:
		r.Add(path.Child("cooldown"), out.Cooldown.String(), "want 0s (no pause) or more")
	case out.MaxCooldown < out.Cooldown:
		r.Add(path.Child("maxCooldown"), out.MaxCooldown.String(), fmt.Sprintf("want at least cooldown, %s", out.Cooldown))
	case out.MaxCooldown > MaxCooldownLimit:
		r.Add(path.Child("maxCooldown"), out.MaxCooldown.String(), fmt.Sprintf("want at most %s", MaxCooldownLimit))
	}
}

// checkAtOnce accepts what means at least one pod of an owner with 100; a percentage above 100 is a mistake.
func (r *resolver) checkAtOnce(v intstr.IntOrString, path *field.Path) {
	const wanted = "want a number of pods, 1 or more, or percents of the owner's pods, such as 25%"
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, true)
	switch {
	case err != nil, n < 1, v.Type == intstr.String && n > 100:
		r.Add(path, v.String(), wanted)
	}
}
