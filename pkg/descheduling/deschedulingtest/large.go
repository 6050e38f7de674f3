package deschedulingtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

const (
	podsOfOwner = 100
	namespaces  = 50
)

// Strategies holds the names of the ten strategies, in the order in which LargePolicy runs them.
var Strategies = append(slices.Clone(deschedules), balances...)

var (
	deschedules = []string{
		"PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts",
		"RemovePodsViolatingInterPodAntiAffinity", "RemovePodsViolatingNodeTaints", "RemovePodsViolatingNodeAffinity",
	}
	balances = []string{
		"RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint", "LowNodeUtilization", "HighNodeUtilization",
	}
)

// LargePolicy runs the named strategies; evictor holds the arguments of DefaultEvictor.
func LargePolicy(evictor string, strategies ...string) string {
	enabled := func(of []string) string {
		others := func(name string) bool { return !slices.Contains(strategies, name) }
		return strings.Join(slices.DeleteFunc(slices.Clone(of), others), ", ")
	}
	return fmt.Sprintf(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {%s}}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 864000}}
  - {name: RemoveFailedPods}
  - {name: RemovePodsHavingTooManyRestarts, args: {podRestartThreshold: 100}}
  - {name: RemovePodsViolatingInterPodAntiAffinity}
  - {name: RemovePodsViolatingNodeTaints}
  - name: RemovePodsViolatingNodeAffinity
    args:
      nodeAffinityType:
      - requiredDuringSchedulingIgnoredDuringExecution
      - preferredDuringSchedulingIgnoredDuringExecution
  - {name: RemoveDuplicates}
  - {name: RemovePodsViolatingTopologySpreadConstraint}
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}}
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 15, memory: 15}}}
  plugins:
    deschedule:
      enabled: [%s]
    balance:
      enabled: [%s]
`, evictor, enabled(deschedules), enabled(balances))
}

// Large returns a cluster at a time, of which the strategies select nearly every pod: most pods are old, a tenth of
// the nodes have most of what they can hold, a twentieth have a taint that no pod tolerates, and owners have many
// kinds of rules.
func Large(now time.Time, nodes, pods int) (ns []*corev1.Node, ps []*corev1.Pod) {
	for i := range nodes {
		n := statetest.Node(fmt.Sprintf("n%05d", i), "cpu", "64", "memory", "128Gi", "pods", "150")
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("z", i%3)
		if i%20 == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "taint0", Effect: corev1.TaintEffectNoSchedule}}
		}
		ns = append(ns, n)
	}
	for i := range pods {
		ps = append(ps, largePod(now, i, nodes))
	}
	return ns, ps
}

// largePod returns one of the pods of its owner; every fifth owner has anti-affinity, every fifth a spread
// constraint, every tenth a node affinity.
func largePod(now time.Time, i, nodes int) *corev1.Pod {
	owner := i / podsOfOwner
	app := fmt.Sprint("app", owner)
	p := statetest.Pod(fmt.Sprint("ns", owner%namespaces), fmt.Sprint("p", i), "cpu", "1", "memory", "1Gi")
	p.UID = types.UID("uid-" + p.Namespace + "/" + p.Name)
	p.Spec.NodeName = fmt.Sprintf("n%05d", (i*7919+i/nodes)%nodes)
	if i%7 == 0 {
		p.Spec.NodeName = fmt.Sprintf("n%05d", i%(nodes/10))
	}
	p.Labels = map[string]string{"app": app}
	p.OwnerReferences = []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)},
	}
	p.CreationTimestamp = metav1.Time{Time: now.Add(-time.Duration(i%2000) * time.Hour)}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &p.CreationTimestamp,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: int32(i % 120)}},
	}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	switch owner % 10 {
	case 0, 5:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: selector}},
		}}
	case 1, 6:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	case 2:
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"}},
				}},
			}},
		}}
	}
	return p
}
