package podaffinity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// plugin places pods near some pods and away from others, by topology domain. The terms of both sides count:
// those of the pod, and the required anti-affinity and all preferred terms of existing pods. Source:
// plugins/interpodaffinity.
type plugin struct {
	// hardWeight is the amount that an existing pod adds to a node's score by a required affinity term that the new
	// pod matches, 0 to 100.
	hardWeight int32
	// ignoreExisting disables scoring for pods without preferred terms of their own.
	ignoreExisting bool
}

// The default and the bound of hardPodAffinityWeight. Source: pkg/scheduler/apis/config/v1/defaults.go and
// validation_pluginargs.go.
const (
	defaultHardAffinityWeight int32 = 1
	maxHardAffinityWeight     int32 = 100
)

// New is the factory of InterPodAffinity.
func New(args runtime.Object) (rule.Plugin, error) {
	a, err := rule.Args[configv1.InterPodAffinityArgs](args)
	if err != nil {
		return nil, err
	}
	p := plugin{
		hardWeight: defaultHardAffinityWeight, ignoreExisting: a.IgnorePreferredTermsOfExistingPods,
	}
	if a.HardPodAffinityWeight != nil {
		p.hardWeight = *a.HardPodAffinityWeight
	}
	if p.hardWeight < 0 || p.hardWeight > maxHardAffinityWeight {
		return nil, fmt.Errorf("hardPodAffinityWeight is %d, want 0 to %d", p.hardWeight, maxHardAffinityWeight)
	}
	return p, nil
}

// Name implements Plugin.
func (plugin) Name() string { return names.InterPodAffinity }

// Compile implements Plugin. Terms that cannot be parsed reject the pod on all nodes. The filter applies to every
// pod, because pods on nodes may have terms against it.
func (p plugin) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	own := pod.Terms
	if own == nil {
		own = &state.PodTerms{}
	}
	if own.Err != nil {
		c := rule.Compiled{Rejection: fmt.Sprintf("parsing pod: %+v", own.Err)}
		if !p.ignoreExisting || hasPreferred(&pod.Template.Spec) {
			c.ScorerErr = own.Err
		}
		return c, nil
	}
	// Affinity counts pods that certainly match, anti-affinity those that may.
	party := NewParty(pod, objects)
	c := rule.Compiled{Filter: &Filter{
		Party:        party,
		Affinity:     party.Resolve(own.RequiredAffinity, state.MustMatch),
		Loose:        party.Resolve(own.RequiredAffinity, state.MayMatch),
		AntiAffinity: party.Resolve(own.RequiredAntiAffinity, state.MayMatch),
	}}
	if prefers := len(own.PreferredAffinity) + len(own.PreferredAntiAffinity); prefers > 0 || !p.ignoreExisting {
		c.Scorer = &Scorer{
			Party: party, HardWeight: int64(p.hardWeight),
			Attracted: party.Resolve(own.PreferredAffinity, state.MustMatch),
			Repelled:  party.Resolve(own.PreferredAntiAffinity, state.MayMatch),
		}
	}
	return c, nil
}

// hasPreferred reports whether a pod has preferred terms, even if they cannot be parsed.
func hasPreferred(spec *corev1.PodSpec) bool {
	a := spec.Affinity
	return a != nil &&
		(a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}
