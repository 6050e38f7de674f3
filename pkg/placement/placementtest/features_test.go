package placementtest_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// drawn holds what some seeds gave.
type drawn struct {
	waiting, placed []*corev1.Pod
	nodes           []*corev1.Node
	profiles        []placement.ProfileConfig
	events          map[string]int
}

func draw(seeds int) drawn {
	d := drawn{events: map[string]int{}}
	for seed := range uint64(seeds) {
		g := placementtest.New(seed)
		c := g.Cluster()
		d.nodes, d.placed = append(d.nodes, c.Nodes...), append(d.placed, c.Pods...)
		d.profiles = append(d.profiles, g.Profile())
		for range 20 {
			d.waiting = append(d.waiting, g.Incoming(&c))
			e := c.Apply(g.Event(&c))
			d.events[e.What]++
			if _, p := e.Pods(); p != nil {
				d.placed = append(d.placed, p)
			}
		}
	}
	return d
}

// TestFeatures checks that every feature that a rule knows is drawn. A feature that is not in the list may never be
// compared with anything.
func TestFeatures(t *testing.T) {
	d := draw(60)
	for name, pod := range waitingFeatures {
		if !slices.ContainsFunc(d.waiting, pod) {
			t.Errorf("no waiting pod has %s", name)
		}
	}
	for name, pod := range placedFeatures {
		if !slices.ContainsFunc(d.placed, pod) {
			t.Errorf("no pod on a node has %s", name)
		}
	}
	for name, node := range nodeFeatures {
		if !slices.ContainsFunc(d.nodes, node) {
			t.Errorf("no node has %s", name)
		}
	}
	for name, profile := range profileFeatures {
		if !slices.ContainsFunc(d.profiles, profile) {
			t.Errorf("no profile has %s", name)
		}
	}
	for _, what := range allEvents {
		if d.events[what] == 0 {
			t.Errorf("no event is %q", what)
		}
		delete(d.events, what)
	}
	if len(d.events) > 0 {
		t.Errorf("not in the list of events: %v", d.events)
	}
}

type podFeatures map[string]func(*corev1.Pod) bool

// spread reports whether a pod has such a constraint.
func spread(has func(corev1.TopologySpreadConstraint) bool) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, has) }
}

// terms returns the terms of a pod's inter-pod affinity by their kind.
func terms(p *corev1.Pod) map[string][]corev1.PodAffinityTerm {
	m := map[string][]corev1.PodAffinityTerm{}
	if p.Spec.Affinity == nil {
		return m
	}
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		m["required"] = a.RequiredDuringSchedulingIgnoredDuringExecution
		for _, w := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			m["preferred"] = append(m["preferred"], w.PodAffinityTerm)
		}
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		m["required anti"] = a.RequiredDuringSchedulingIgnoredDuringExecution
		for _, w := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			m["preferred anti"] = append(m["preferred anti"], w.PodAffinityTerm)
		}
	}
	return m
}

func term(has func(corev1.PodAffinityTerm) bool) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		for _, list := range terms(p) {
			if slices.ContainsFunc(list, has) {
				return true
			}
		}
		return false
	}
}

func sort(of string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return len(terms(p)[of]) > 0 }
}

// requests reports whether a container requests a resource.
func requests(name corev1.ResourceName) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
			_, ok := c.Resources.Requests[name]
			return ok
		})
	}
}

func sidecar(c corev1.Container) bool { return c.RestartPolicy != nil }

func isPolicy(p *corev1.NodeInclusionPolicy, want corev1.NodeInclusionPolicy) bool {
	return p != nil && *p == want
}

var waitingFeatures = podFeatures{
	"a hard constraint": spread(func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}),
	"a soft constraint": spread(func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.ScheduleAnyway
	}),
	"minDomains": spread(func(c corev1.TopologySpreadConstraint) bool { return c.MinDomains != nil }),
	"nodeAffinityPolicy Ignore": spread(func(c corev1.TopologySpreadConstraint) bool {
		return isPolicy(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyIgnore)
	}),
	"nodeAffinityPolicy Honor": spread(func(c corev1.TopologySpreadConstraint) bool {
		return isPolicy(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor)
	}),
	"nodeTaintsPolicy Honor": spread(func(c corev1.TopologySpreadConstraint) bool {
		return isPolicy(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyHonor)
	}),
	"matchLabelKeys of a constraint": spread(func(c corev1.TopologySpreadConstraint) bool {
		return len(c.MatchLabelKeys) > 0
	}),
	"no constraint and an owner": func(p *corev1.Pod) bool {
		return len(p.Spec.TopologySpreadConstraints) == 0 && len(p.OwnerReferences) > 0
	},
	"required affinity": sort("required"), "required anti-affinity": sort("required anti"),
	"preferred affinity": sort("preferred"), "preferred anti-affinity": sort("preferred anti"),
	"matchLabelKeys":    term(func(t corev1.PodAffinityTerm) bool { return len(t.MatchLabelKeys) > 0 }),
	"mismatchLabelKeys": term(func(t corev1.PodAffinityTerm) bool { return len(t.MismatchLabelKeys) > 0 }),
	"namespaceSelector": term(func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }),
	"namespaces":        term(func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 }),
	"required node affinity": func(p *corev1.Pod) bool {
		return p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil &&
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	},
	"preferred node affinity": func(p *corev1.Pod) bool {
		return p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil &&
			len(p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	},
	"a node selector":    func(p *corev1.Pod) bool { return len(p.Spec.NodeSelector) > 0 },
	"tolerations":        func(p *corev1.Pod) bool { return len(p.Spec.Tolerations) > 1 },
	"a node name":        func(p *corev1.Pod) bool { return p.Spec.NodeName != "" },
	"a nominated node":   func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" },
	"gates":              func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 },
	"host ports":         func(p *corev1.Pod) bool { return len(p.Spec.Containers[0].Ports) > 0 },
	"overhead":           func(p *corev1.Pod) bool { return p.Spec.Overhead != nil },
	"pod-level requests": func(p *corev1.Pod) bool { return p.Spec.Resources != nil },
	"an init container": func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return !sidecar(c) })
	},
	"a sidecar":            func(p *corev1.Pod) bool { return slices.ContainsFunc(p.Spec.InitContainers, sidecar) },
	"an extended resource": requests("example.com/gpu"), "huge pages": requests("hugepages-2Mi"),
	"ephemeral storage": requests(corev1.ResourceEphemeralStorage),
	"an image volume":   func(p *corev1.Pod) bool { return len(p.Spec.Volumes) > 0 },
	"need of a declared feature of the host network": func(p *corev1.Pod) bool {
		return p.Spec.HostUsers != nil && p.Spec.HostNetwork
	},
	"need of a declared feature of restarts": func(p *corev1.Pod) bool {
		return len(p.Spec.Containers[0].RestartPolicyRules) > 0
	},
}

var placedFeatures = podFeatures{
	"required affinity": sort("required"), "required anti-affinity": sort("required anti"),
	"preferred affinity": sort("preferred"), "preferred anti-affinity": sort("preferred anti"),
	"namespaceSelector":    term(func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }),
	"a deletion under way": func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil },
	"an end":               func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded },
	"a resize under way":   func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 },
	"a pod-level resize":   func(p *corev1.Pod) bool { return p.Status.Resources != nil },
	"an infeasible resize": func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Reason == corev1.PodReasonInfeasible
		})
	},
	"host ports": func(p *corev1.Pod) bool { return len(p.Spec.Containers[0].Ports) > 0 },
	"an owner":   func(p *corev1.Pod) bool { return len(p.OwnerReferences) > 0 },
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == effect })
	}
}

var nodeFeatures = map[string]func(*corev1.Node) bool{
	"a NoSchedule taint":       tainted(corev1.TaintEffectNoSchedule),
	"a NoExecute taint":        tainted(corev1.TaintEffectNoExecute),
	"a PreferNoSchedule taint": tainted(corev1.TaintEffectPreferNoSchedule),
	"a cordon":                 func(n *corev1.Node) bool { return n.Spec.Unschedulable },
	"images":                   func(n *corev1.Node) bool { return len(n.Status.Images) > 0 },
	"declared features":        func(n *corev1.Node) bool { return len(n.Status.DeclaredFeatures) > 0 },
	"no room":                  func(n *corev1.Node) bool { return n.Status.Allocatable.Pods().IsZero() },
	"no zone":                  func(n *corev1.Node) bool { return n.Labels[corev1.LabelTopologyZone] == "" },
	"no hostname":              func(n *corev1.Node) bool { return n.Labels[corev1.LabelHostname] == "" },
}

// argsOf finds the arguments of one type.
func argsOf[T any](has func(T) bool) func(placement.ProfileConfig) bool {
	return func(p placement.ProfileConfig) bool {
		return slices.ContainsFunc(p.Plugins, func(c placement.PluginConfig) bool {
			args, ok := c.Args.(T)
			return ok && has(args)
		})
	}
}

func strategy(t configv1.ScoringStrategyType) func(placement.ProfileConfig) bool {
	return argsOf(func(a *configv1.NodeResourcesFitArgs) bool {
		return a.ScoringStrategy != nil && a.ScoringStrategy.Type == t
	})
}

var profileFeatures = map[string]func(placement.ProfileConfig) bool{
	"LeastAllocated": strategy(configv1.LeastAllocated), "MostAllocated": strategy(configv1.MostAllocated),
	"RequestedToCapacityRatio": strategy(configv1.RequestedToCapacityRatio),
	"ignoredResources":         argsOf(func(a *configv1.NodeResourcesFitArgs) bool { return len(a.IgnoredResources) > 0 }),
	"ignoredResourceGroups": argsOf(func(a *configv1.NodeResourcesFitArgs) bool {
		return len(a.IgnoredResourceGroups) > 0
	}),
	"resources to balance": argsOf(func(a *configv1.NodeResourcesBalancedAllocationArgs) bool {
		return len(a.Resources) > 0
	}),
	"added affinity": argsOf(func(a *configv1.NodeAffinityArgs) bool {
		return a.AddedAffinity != nil && a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	}),
	"added preference": argsOf(func(a *configv1.NodeAffinityArgs) bool {
		return a.AddedAffinity != nil && len(a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	}),
	"system defaulting": argsOf(func(a *configv1.PodTopologySpreadArgs) bool {
		return a.DefaultingType == configv1.SystemDefaulting
	}),
	"a list of default constraints": argsOf(func(a *configv1.PodTopologySpreadArgs) bool {
		return len(a.DefaultConstraints) > 0
	}),
	"no hardPodAffinityWeight": argsOf(func(a *configv1.InterPodAffinityArgs) bool {
		return *a.HardPodAffinityWeight == 0
	}),
	"hardPodAffinityWeight": argsOf(func(a *configv1.InterPodAffinityArgs) bool {
		return *a.HardPodAffinityWeight > 1
	}),
	"ignorePreferredTermsOfExistingPods": argsOf(func(a *configv1.InterPodAffinityArgs) bool {
		return a.IgnorePreferredTermsOfExistingPods
	}),
	"a plugin at some points": func(p placement.ProfileConfig) bool {
		return slices.ContainsFunc(p.Plugins, func(c placement.PluginConfig) bool { return c.Points != 0 })
	},
	"another order": func(p placement.ProfileConfig) bool { return p.Plugins[1].Name != names.PrioritySort },
}

var allEvents = []string{
	"pod added", "pod removed", "pod replaced under its name", "pod relabelled", "pod resize wanted",
	"pod resize under way", "pod resize done", "pod terminating", "pod ended",
	"node added", "node removed", "node replaced under its name", "node relabelled", "node lost a label", "node tainted",
	"node cordoned or not", "node allocatable changed", "node images changed", "node features changed",
	"namespace added", "namespace removed", "namespace changed", "service added", "service removed", "service changed",
	"replicaset added", "replicaset removed", "replicaset changed", "statefulset added", "statefulset removed",
	"statefulset changed", "replicationcontroller added", "replicationcontroller removed",
	"replicationcontroller changed",
}
