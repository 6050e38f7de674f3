package descheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// world is one random cluster.
type world struct {
	now        time.Time
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	budgets    []*policyv1.PodDisruptionBudget
	claims     []*corev1.PersistentVolumeClaim
	classes    []*schedulingv1.PriorityClass
	// usage of nodes and pods, for strategies that ask for it; cpu in milli.
	nodeUse, podUse map[string][2]int64
	ratios          map[string]float64
	// ties: pods may agree in all that the strategy sorts them by.
	ties bool
}

// source draws.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0))} }

func (s source) chance(percent int) bool { return s.IntN(100) < percent }

func (s source) between(low, high int) int { return low + s.IntN(high-low+1) }

func pick[T any](s source, from ...T) T { return from[s.IntN(len(from))] }

var (
	zones      = []string{"a", "b", "c"}
	namespaces = []string{"east", "west", "north"}
	apps       = []string{"web", "db", "batch", "cache"}
)

// drawWorld draws a cluster on which the strategy has something to do.
func drawWorld(s source, strategy string) *world {
	w := &world{
		now: time.Now().Truncate(time.Second), ties: s.chance(15), nodeUse: map[string][2]int64{},
		podUse: map[string][2]int64{}, ratios: map[string]float64{},
		classes: []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high", UID: "class"}, Value: 500}},
	}
	for _, name := range namespaces {
		w.namespaces = append(w.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("ns-" + name), Labels: map[string]string{"side": pick(s, "left", "right")},
		}})
	}
	for i := range s.between(3, 7) {
		w.nodes = append(w.nodes, drawNode(s, i, strategy))
	}
	ratios := s.Perm(100)
	for i, n := range w.nodes {
		w.nodeUse[n.Name] = [2]int64{s.Int64N(16000), s.Int64N(32 << 30)}
		// In the middle of a whole percent: upstream truncates, and no two nodes may be equal.
		w.ratios[n.Name] = (float64(ratios[i]) + 0.5) / 100
	}
	for range s.between(4, 9) {
		w.addPods(s, strategy)
	}
	if strategy == policy.PluginLowNodeUtilization || strategy == policy.PluginHighNodeUtilization {
		w.addAgents()
	}
	w.rank(s)
	if strategy == policy.PluginTooManyRestarts {
		w.ties = true // restarts are drawn from a dozen numbers: pods of a node often agree in them
	}
	for i := range s.IntN(3) {
		w.budgets = append(w.budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(s, namespaces...), Name: fmt.Sprint("b", i),
				UID: types.UID(fmt.Sprint("pdb", i))},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: drawSelector(s)},
		})
	}
	for i, ns := range namespaces {
		class := pick(s, "fast", "slow", "")
		w.claims = append(w.claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data", UID: types.UID(fmt.Sprint("pvc", i))},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		})
	}
	return w
}

func drawNode(s source, i int, strategy string) *corev1.Node {
	name := fmt.Sprint("n", i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name),
		Labels: map[string]string{
			corev1.LabelHostname: name, "disk": pick(s, "ssd", "hdd"), "pool": pick(s, "one", "two", "two"),
		}}}
	if s.chance(92) {
		n.Labels["zone"] = pick(s, zones...)
	}
	tainted := 30
	if strategy == policy.PluginNodeTaints {
		tainted = 55
	}
	if s.chance(tainted) {
		n.Spec.Taints = append(n.Spec.Taints, drawTaint(s))
		if s.chance(25) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "extra", Effect: corev1.TaintEffectNoSchedule})
		}
	}
	n.Spec.Unschedulable = s.chance(8)
	if s.chance(60) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if s.chance(8) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(s.between(4, 16))*500, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(s.between(4, 16))<<30+s.Int64N(1<<20), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(int64(s.between(6, 25)), resource.DecimalSI),
	}
	if s.chance(40) {
		n.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(int64(s.between(0, 8)), resource.DecimalSI)
	}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	if s.chance(5) {
		n.Status.Allocatable = nil
	}
	return n
}

func drawTaint(s source) corev1.Taint {
	return corev1.Taint{
		Key: pick(s, "dedicated", "dedicated", "old"), Value: pick(s, "gpu", "db", ""),
		Effect: pick(s, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
	}
}

func drawSelector(s source) *metav1.LabelSelector {
	switch s.IntN(6) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{pick(s, apps...), pick(s, apps...)},
		}}}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(s, apps...)}}
	}
}

// addPods adds the pods of one owner.
func (w *world) addPods(s source, strategy string) {
	app := len(w.pods)
	like := drawTemplate(s, strategy, app)
	crowded := pick(s, w.nodes...)
	for i := range s.between(1, 8) {
		p := like.DeepCopy()
		p.Name = fmt.Sprintf("p%d-%d", app, i)
		p.UID = types.UID("uid-" + p.Name)
		if s.chance(6) {
			p.Name = "same"
			if slices.ContainsFunc(w.pods, func(o *corev1.Pod) bool {
				return o.Namespace == p.Namespace &&
					o.Name == "same"
			}) {
				p.Name = string(p.UID)
			}
		}
		p.Spec.NodeName = crowded.Name
		if s.chance(55) {
			p.Spec.NodeName = pick(s, w.nodes...).Name
		}
		drawOwn(s, p, strategy)
		// Distinct ages, away from thresholds: those are whole minutes. Upstream reads the clock, and a busy
		// machine may be half a minute late.
		p.CreationTimestamp = metav1.Time{Time: w.now.Add(-time.Duration(len(w.pods)*7%97+1)*time.Minute - 5*time.Second -
			time.Duration(len(w.pods)%20)*time.Second)}
		if s.chance(85) {
			p.Status.StartTime = &metav1.Time{Time: p.CreationTimestamp.Add(time.Second)}
		}
		w.podUse[p.Namespace+"/"+p.Name] = [2]int64{s.Int64N(2000), s.Int64N(4 << 30)}
		w.pods = append(w.pods, p)
	}
}

// addAgents gives each node a pod, of a size that no other has: upstream sorts nodes by what their pods
// ask for, and takes equal ones as a map gives them.
func (w *world) addAgents() {
	for i, n := range w.nodes {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaces[0], Name: "agent-" + n.Name, UID: types.UID("uid-agent-" + n.Name),
			CreationTimestamp: metav1.Time{Time: w.now.Add(-time.Hour)},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "owner-agent"}},
		}, Spec: corev1.PodSpec{NodeName: n.Name, SchedulerName: corev1.DefaultSchedulerName}}
		size := corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(i+1)<<10, resource.BinarySI)}
		p.Spec.Containers = []corev1.Container{{
			Name: "c0", Image: "agent", Resources: corev1.ResourceRequirements{Requests: size},
		}}
		p.Status.Phase = corev1.PodRunning
		w.podUse[keyOf(p)] = [2]int64{1, 1 << 10}
		w.pods = append(w.pods, p)
	}
}

func drawTemplate(s source, strategy string, app int) *corev1.Pod {
	name := fmt.Sprint("app", app)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pick(s, namespaces...), Labels: map[string]string{"app": pick(s, apps...), "own": name},
		OwnerReferences: []metav1.OwnerReference{{
			Kind: pick(s, "ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "Job",
				"DaemonSet"), Name: name, UID: types.UID("owner-" + name),
		}},
	}, Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName}}
	switch s.IntN(12) {
	case 0:
		p.OwnerReferences = nil
	case 1:
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "Second", Name: "b" + name,
			UID: types.UID("second-" + name)})
	}
	for i := range s.between(1, 2) {
		p.Spec.Containers = append(p.Spec.Containers, drawContainer(s, fmt.Sprint("c", i)))
	}
	if s.chance(25) {
		p.Spec.InitContainers = []corev1.Container{drawContainer(s, "init")}
	}
	drawPreferences(s, p)
	switch strategy {
	case policy.PluginInterPodAntiAffinity:
		p.Spec.Affinity = orNew(p.Spec.Affinity)
		if s.chance(60) {
			p.Spec.Affinity.PodAntiAffinity = drawAntiAffinity(s)
		}
	case policy.PluginTopologySpread:
		for range s.between(0, 2) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, drawConstraint(s, p))
		}
	case policy.PluginNodeAffinity:
		p.Spec.Affinity = orNew(p.Spec.Affinity)
		if s.chance(75) {
			p.Spec.Affinity.NodeAffinity = drawNodeAffinity(s)
		}
	}
	if s.chance(8) {
		p.Spec.Volumes = []corev1.Volume{pick(s,
			corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		)}
	}
	if s.chance(15) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick(s, "data", "data", "gone")}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "d",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
	}
	if s.chance(8) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device"}}
	}
	return p
}

func orNew(a *corev1.Affinity) *corev1.Affinity {
	if a == nil {
		return &corev1.Affinity{}
	}
	return a
}

func drawContainer(s source, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(s, "one", "two", "two")}
	if s.chance(15) {
		return c
	}
	c.Resources.Requests = corev1.ResourceList{}
	if s.chance(90) {
		c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(s.IntN(12))*50, resource.DecimalSI)
	}
	if s.chance(90) {
		c.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(s.Int64N(1<<30), resource.BinarySI)
	}
	if s.chance(15) {
		c.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if s.chance(40) {
		c.Resources.Limits = c.Resources.Requests.DeepCopy()
	}
	return c
}

// drawPreferences says where the pod would go.
func drawPreferences(s source, p *corev1.Pod) {
	for range s.between(0, 2) {
		if s.chance(30) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, pick(s,
				corev1.Toleration{Operator: corev1.TolerationOpExists},
				corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "gpu"},
				corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
				corev1.Toleration{Key: "old", Operator: corev1.TolerationOpExists}))
		}
	}
	if s.chance(12) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(s, "ssd", "hdd")}
	}
	if s.chance(15) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: drawNodeAffinity(s)}
	}
	if s.chance(10) {
		p.Spec.Affinity = orNew(p.Spec.Affinity)
		p.Spec.Affinity.PodAntiAffinity = drawAntiAffinity(s)
	}
	if s.chance(10) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{drawConstraint(s, p)}
	}
}

func drawTerm(s source) corev1.NodeSelectorTerm {
	return pick(s,
		corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(s, "ssd", "hdd")}}}},
		corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{pick(s, zones...)}}}},
		corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"one"}}}})
}

func drawNodeAffinity(s source) *corev1.NodeAffinity {
	a := &corev1.NodeAffinity{}
	if s.chance(60) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{drawTerm(s)}}
	}
	for range s.between(0, 2) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(s.between(1, 50)), Preference: drawTerm(s)})
	}
	return a
}

func drawAntiAffinity(s source) *corev1.PodAntiAffinity {
	a := &corev1.PodAntiAffinity{}
	for range s.between(1, 2) {
		t := corev1.PodAffinityTerm{TopologyKey: pick(s, corev1.LabelHostname, "zone"), LabelSelector: drawSelector(s)}
		if s.chance(20) {
			t.Namespaces = []string{pick(s, namespaces...), pick(s, namespaces...)}
		}
		if s.chance(10) {
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"side": "left"}}
		}
		if s.chance(5) {
			t.LabelSelector = nil
		}
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t)
	}
	return a
}

func drawConstraint(s source, p *corev1.Pod) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(s.between(1, 2)), TopologyKey: pick(s, corev1.LabelHostname, "zone"),
		WhenUnsatisfiable: pick(s, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
	}
	if s.chance(25) {
		c.LabelSelector = drawSelector(s)
	}
	if s.chance(20) {
		c.MatchLabelKeys = []string{"own"}
	}
	if s.chance(20) {
		honor := pick(s, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		c.NodeTaintsPolicy = &honor
	}
	if s.chance(20) {
		honor := pick(s, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		c.NodeAffinityPolicy = &honor
	}
	return c
}

// drawOwn draws what pods of one owner differ in.
func drawOwn(s source, p *corev1.Pod, strategy string) {
	p.Annotations = map[string]string{}
	for _, a := range []struct {
		name    string
		percent int
	}{
		{descheduling.AnnotationEvict, 3}, {descheduling.AnnotationNoEviction, 10}, {corev1.MirrorPodAnnotationKey, 2},
	} {
		if s.chance(a.percent) {
			p.Annotations[a.name] = pick(s, "", "true", "false")
		}
	}
	if s.chance(6) {
		p.Annotations["kubernetes.io/config.source"] = pick(s, "api", "api", "file")
	}
	if s.chance(4) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	p.Status.Phase = pick(s, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning,
		corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded, corev1.PodUnknown)
	if strategy == policy.PluginFailedPods && s.chance(40) {
		p.Status.Phase = corev1.PodFailed
	}
	if s.chance(20) {
		p.Status.QOSClass = pick(s, corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed)
	}
	if s.chance(15) {
		p.Status.Reason = pick(s, "NodeAffinity", "NodeLost", "Shutdown", "Evicted")
	}
	for range s.between(0, 2) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: pick(s, corev1.PodReady, corev1.PodScheduled), Status: pick(s, corev1.ConditionTrue, corev1.ConditionFalse),
			Reason:             pick(s, "", "ContainersNotReady"),
			LastTransitionTime: metav1.Time{Time: time.Now().Add(-time.Duration(s.IntN(60))*time.Minute - 5*time.Second)},
		})
	}
	p.Status.ContainerStatuses = drawStatuses(s, len(p.Spec.Containers))
	p.Status.InitContainerStatuses = drawStatuses(s, len(p.Spec.InitContainers))
	if s.chance(10) {
		p.Status.EphemeralContainerStatuses = drawStatuses(s, 1)
	}
}

func drawStatuses(s source, n int) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for i := range n {
		c := corev1.ContainerStatus{Name: fmt.Sprint("c", i), RestartCount: int32(s.IntN(12))}
		switch s.IntN(3) {
		case 0:
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: pick(s, "CrashLoopBackOff", "ImagePullBackOff", "")}
		case 1:
			c.State.Terminated = &corev1.ContainerStateTerminated{
				Reason: pick(s, "OOMKilled", "Error", "Completed", ""), ExitCode: int32(pick(s, 0, 1, 137))}
		default:
			c.State.Running = &corev1.ContainerStateRunning{}
		}
		all = append(all, c)
	}
	return all
}

// rank gives priorities: distinct ones, unless ties are wanted. One pod has none.
func (w *world) rank(s source) {
	order := s.Perm(len(w.pods))
	for i, p := range w.pods {
		priority := int32(order[i] * 10)
		switch {
		case w.ties && s.chance(60):
			priority = int32(s.IntN(2) * 10)
		case w.ties && s.chance(40), order[i] == 0:
			continue
		}
		if s.chance(2) {
			priority += 2_000_000_000
		}
		p.Spec.Priority = &priority
	}
}
