package descheduling

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	benchNodes       = 5000
	benchPods        = 150_000
	benchPodsOfOwner = 100
	benchNamespaces  = 50
)

// BenchmarkRun is a cycle of all ten strategies over 5,000 nodes and 150,000 pods.
func BenchmarkRun(b *testing.B) {
	objects := make([]state.APIObject, 0, benchNodes+benchPods)
	for i := range benchNodes {
		n := node(fmt.Sprintf("n%04d", i), labelled(corev1.LabelTopologyZone, fmt.Sprint("z", i%3)))
		n.Status.Allocatable[corev1.ResourcePods] = n.Status.Allocatable[corev1.ResourcePods].DeepCopy()
		if i%20 == 0 {
			tainted(corev1.TaintEffectNoSchedule)(n)
		}
		objects = append(objects, n)
	}
	for i := range benchPods {
		objects = append(objects, benchPod(i))
	}
	cluster := clusterOf(b, objects...)
	p := profileOf(b, "deschedule", "nodeFit: false",
		"PodLifeTime: {maxPodLifeTimeSeconds: 864000}", "RemoveFailedPods: {}",
		"RemovePodsHavingTooManyRestarts: {podRestartThreshold: 100}", "RemovePodsViolatingInterPodAntiAffinity: {}",
		"RemovePodsViolatingNodeTaints: {}",
		"RemovePodsViolatingNodeAffinity: {nodeAffinityType: ["+
			policy.RequiredNodeAffinity+", "+policy.PreferredNodeAffinity+"]}")
	balance := profileOf(b, "balance", "nodeFit: false", "RemoveDuplicates: {}",
		"RemovePodsViolatingTopologySpreadConstraint: {}",
		"LowNodeUtilization: {thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}",
		"HighNodeUtilization: {thresholds: {cpu: 15, memory: 15}}")
	p.Profiles[0].Balance = balance.Profiles[0].Balance
	for b.Loop() {
		accepted, out := Collect(Input{Cluster: cluster, Policy: p, Now: now})
		if len(accepted) == 0 || len(out.Failed) > 0 {
			b.Fatalf("accepted %d, failed %v", len(accepted), out.Failed)
		}
		b.ReportMetric(float64(len(accepted)), "evictions")
	}
}

// benchPod is one of the pods of its owner; every fifth owner has anti-affinity, every fifth
// a spread constraint, every tenth a node affinity.
func benchPod(i int) *corev1.Pod {
	owner := i / benchPodsOfOwner
	p := pod(fmt.Sprintf("ns%d/p%d", owner%benchNamespaces, i), fmt.Sprintf("n%04d", (i*7919+i/benchNodes)%benchNodes))
	app := fmt.Sprint("app", owner)
	p.Labels = map[string]string{"app": app}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, UID: types.UID(app)}}
	p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Duration(i%2000) * time.Hour)}
	p.Status.StartTime = &p.CreationTimestamp
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: int32(i % 120)}}
	if i%7 == 0 {
		p.Spec.NodeName = fmt.Sprintf("n%04d", i%(benchNodes/10))
	}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	switch owner % 10 {
	case 0, 5:
		repelling(corev1.PodAffinityTerm{})(p)
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = selector
	case 1, 6:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	case 2:
		preferring(corev1.LabelTopologyZone, "z1")(p)
	}
	return p
}
