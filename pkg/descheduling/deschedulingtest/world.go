package deschedulingtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// Began is the time at which every world begins.
var Began = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// World is a cluster whose pods are created again when they are evicted. It is not safe for concurrent use.
type World struct {
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Sets  []*appsv1.ReplicaSet
	// Now is the creation time of new pods, initially Began.
	Now time.Time
	// Strategy is the strategy for which the cluster is unbalanced, as a policy's plugin name, or All.
	Strategy string

	profile *placement.Profile
	seed    uint64
	serial  int
	// evictions counts the evictions of each pod and of the pods it replaces, by its name.
	evictions map[string]int
}

// Strategies that worlds are drawn for. All stands for the three together.
const (
	Low        = "LowNodeUtilization"
	Duplicates = "RemoveDuplicates"
	Spread     = "RemovePodsViolatingTopologySpreadConstraint"
	All        = "all"
)

// Thresholds of LowNodeUtilization in Policy, in percent.
const (
	under = 30
	over  = 60
)

// Policy returns the file for the world's strategy, with an extra line at the top level and extra arguments of the
// evictor.
func (w *World) Policy(top, evictor string) string {
	args := map[string]string{
		Low: fmt.Sprintf("{thresholds: {cpu: %d, memory: %d}, targetThresholds: {cpu: %d, memory: %d}}",
			under, under, over, over),
		Duplicates: "{}", Spread: "{}",
	}
	names := []string{w.Strategy}
	if w.Strategy == All {
		names = []string{Duplicates, Spread, Low}
	}
	var configs []string
	for _, name := range names {
		configs = append(configs, fmt.Sprintf("{name: %s, args: %s}", name, args[name]))
	}
	return fmt.Sprintf(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
%s
profiles: [{name: p, pluginConfig: [{name: DefaultEvictor, args: {%s}}, %s], plugins: {balance: {enabled: [%s]}}}]
`,
		top, evictor, strings.Join(configs, ", "), strings.Join(names, ", "))
}

// Unbalanced draws a cluster that was filled while some of its nodes were unavailable.
func Unbalanced(seed uint64) (*World, error) {
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		return nil, err
	}
	w := &World{Now: Began, profile: profile, seed: seed, evictions: map[string]int{}}
	r := rand.New(rand.NewPCG(seed, 0))
	w.Strategy = []string{Low, Duplicates, Spread, All}[r.IntN(4)]
	away := w.drawNodes(r)
	for i := range 2 + r.IntN(6) {
		w.drawSet(r, i)
	}
	for _, i := range away {
		w.Nodes[i].Spec.Unschedulable = true
	}
	if err := w.placeAll(); err != nil {
		return nil, err
	}
	for _, i := range away {
		w.Nodes[i].Spec.Unschedulable = false
	}
	w.dropUnplaceable()
	return w, nil
}

// dropUnplaceable removes pods that fit nowhere, and lowers the replicas of their owners accordingly.
func (w *World) dropUnplaceable() {
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	for _, s := range w.Sets {
		var left int32
		for _, p := range w.Pods {
			if p.OwnerReferences[0].UID == s.UID {
				left++
			}
		}
		s.Spec.Replicas = &left
	}
}

// drawNodes returns the indexes of the nodes that are unavailable at first.
func (w *World) drawNodes(r *rand.Rand) (away []int) {
	n := 4 + r.IntN(8)
	for i := range n {
		name := fmt.Sprintf("n%02d", i)
		node := statetest.Node(name, "cpu", []string{"8", "8", "16"}[r.IntN(3)], "memory", "32Gi", "pods", "40")
		node.Labels = map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("z", i%(2+int(w.seed%2))),
		}
		w.Nodes = append(w.Nodes, node)
		if i > 0 && r.IntN(2) == 0 {
			away = append(away, i)
		}
	}
	return away
}

func (w *World) drawSet(r *rand.Rand, i int) {
	name := fmt.Sprintf("app%d", i)
	replicas := int32(1 + r.IntN(16))
	w.Sets = append(w.Sets, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	})
	template := statetest.Pod("default", "", "cpu", fmt.Sprint(100*(2+r.IntN(15)), "m"),
		"memory", fmt.Sprint(256*(1+r.IntN(12)), "Mi"))
	template.Labels = map[string]string{"app": name}
	template.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID("uid-" + name), Controller: new(true)},
	}
	w.drawRules(r, template)
	for range replicas {
		w.create(template, 0)
	}
}

// drawRules gives some templates a rule about where their pods are placed.
func (w *World) drawRules(r *rand.Rand, template *corev1.Pod) {
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	spread := func(key string, when corev1.UnsatisfiableConstraintAction) {
		template.Spec.TopologySpreadConstraints = append(template.Spec.TopologySpreadConstraints,
			corev1.TopologySpreadConstraint{
				MaxSkew: int32(1 + r.IntN(2)), TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selector,
			})
	}
	kind := r.IntN(8)
	if w.Strategy == Spread {
		kind %= 3
	}
	switch kind {
	case 0:
		spread(corev1.LabelTopologyZone, corev1.DoNotSchedule)
	case 1:
		spread(corev1.LabelHostname, corev1.DoNotSchedule)
	case 2:
		spread(corev1.LabelTopologyZone, corev1.DoNotSchedule)
		spread(corev1.LabelHostname, corev1.DoNotSchedule)
	case 3:
		spread(corev1.LabelTopologyZone, corev1.ScheduleAnyway)
	case 4:
		template.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z0"}
	}
}

// create adds a pod of a template that waits for placement.
func (w *World) create(template *corev1.Pod, lives int) {
	p := template.DeepCopy()
	w.serial++
	p.Name = fmt.Sprintf("%s-%04d", p.Labels["app"], w.serial)
	p.UID = types.UID("uid-" + p.Name)
	p.Spec.NodeName, p.Spec.SchedulerName = "", corev1.DefaultSchedulerName
	p.DeletionTimestamp = nil
	p.CreationTimestamp = metav1.Time{Time: w.Now}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: w.Now},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	w.evictions[p.Name] = lives
	w.Pods = append(w.Pods, p)
}

// Evictions returns how often a pod and the pods it replaces have been evicted since Recount.
func (w *World) Evictions(name string) int { return w.evictions[name] }

// ResetEvictions resets the counts of Lives.
func (w *World) ResetEvictions() { clear(w.evictions) }

// Evict deletes pods by name, and places their replacements: on the node that is kept for the replacement of a
// name, if there is one. Replacements that find no room while the victims terminate are tried again when the
// victims are gone.
func (w *World) Evict(names []string, kept map[string]string) error {
	for _, name := range names {
		i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("deschedulingtest: no pod %s", name)
		}
		w.Pods[i].DeletionTimestamp = &metav1.Time{Time: w.Now}
		w.create(w.Pods[i], w.evictions[name]+1)
		w.Pods[len(w.Pods)-1].Spec.NodeName = kept[name]
	}
	if err := w.placeAll(); err != nil {
		return err
	}
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	return w.placeAll()
}

// Unplaced returns the number of pods without a node.
func (w *World) Unplaced() (n int) {
	for _, p := range w.Pods {
		if p.Spec.NodeName == "" {
			n++
		}
	}
	return n
}

// placeAll places the waiting pods, in order. Pods that fit nowhere continue to wait.
func (w *World) placeAll() error {
	cluster, err := w.Snapshot()
	if err != nil {
		return err
	}
	nodes := nodesOf(cluster)
	for i, p := range w.Pods {
		if p.Spec.NodeName != "" {
			continue
		}
		result := w.profile.Evaluate(placement.Input{
			Pod: state.NewPod(p), Nodes: nodes, Objects: cluster, Seed: w.seed + uint64(i), Limit: 1,
		})
		if result.Err != nil {
			return result.Err
		}
		if len(result.Feasible) > 0 {
			p.Spec.NodeName = result.Feasible[0].Node.Node.Name
			result.Feasible[0].Node.AddPod(state.NewPod(p))
		}
	}
	return nil
}

func nodesOf(cluster *state.Snapshot) []*state.NodeInfo {
	var all []*state.NodeInfo
	for n := range cluster.Nodes() {
		info := state.NewNodeInfo(n)
		for p := range cluster.PodsOnNode(n.Name) {
			info.AddPod(p)
		}
		all = append(all, info)
	}
	return all
}

// Snapshot returns the current cluster.
func (w *World) Snapshot() (*state.Snapshot, error) {
	var h statetest.History
	for _, n := range w.Nodes {
		h.Upsert(events.KindNode, n)
	}
	for _, s := range w.Sets {
		h.Upsert(events.KindReplicaSet, s)
	}
	for _, p := range w.Pods {
		h.Upsert(events.KindPod, p)
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		return nil, err
	}
	return store.Snapshot(), nil
}
