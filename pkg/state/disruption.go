package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Ready reports whether the pod's condition Ready is true.
func (p *Pod) Ready() bool {
	return slices.ContainsFunc(p.Status().Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// DisruptionsAllowed returns how many disruptions a budget's status allows: none, if the status is older than the
// spec.
func DisruptionsAllowed(pdb *policyv1.PodDisruptionBudget) int32 {
	if pdb.Status.ObservedGeneration < pdb.Generation {
		return 0
	}
	return pdb.Status.DisruptionsAllowed
}

// SparesUnready reports whether a budget permits the eviction of pods that are not ready: its policy covers only
// the ready pods, or enough of those are healthy (registry/core/pod/storage/eviction.go).
func SparesUnready(pdb *policyv1.PodDisruptionBudget) bool {
	if p := pdb.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.DesiredHealthy > 0 && pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy
}
