package decide

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
)

func (w *walk) labels() map[string]string {
	return map[string]string{"app": one(w, []string{"web", "db"}), "zone": one(w, []string{"a", "b"})}
}

// addPod adds a pod with some of the fields that rules use.
func (w *walk) addPod() {
	w.names++
	name := fmt.Sprintf("p%04d", w.names)
	obj := statetest.Pod("ns", name, "cpu", one(w, []string{"1", "4"}))
	obj.UID, obj.Labels = types.UID(name), w.labels()
	priority := int32(w.IntN(3))
	obj.Spec.Priority, obj.Spec.SchedulerName = &priority, ourScheduler
	if w.chance(40) { // one like many
		*obj.Spec.Priority, obj.Labels = 1, nil
		obj.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		w.putPod(obj)
		return
	}
	if w.chance(20) {
		obj.Spec.SchedulingGates = one(w, [][]corev1.PodSchedulingGate{
			{{Name: "g"}}, {{Name: events.QuotaGate}}, {{Name: events.QuotaGate}}, {{Name: events.QuotaGate}, {Name: "g"}},
		})
	}
	if w.chance(30) {
		obj.Spec.NodeSelector = map[string]string{"zone": one(w, []string{"a", "b"})}
	}
	if w.chance(30) {
		obj.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	like := &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(w, []string{"web", "db"})}}
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: like}
	switch w.IntN(4) {
	case 0:
		obj.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	case 1:
		obj.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	case 2:
		obj.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: like,
		}}
	}
	w.putPod(obj)
}

// pod returns a copy of the object of a random pod that satisfies wanted; nil if there is none.
func (w *walk) pod(wanted func(*state.Pod) bool) *corev1.Pod {
	var list []*state.Pod
	for p := range w.state.Snapshot().Pods() {
		if wanted(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return one(w, list).Object().DeepCopy()
}

func unbound(p *state.Pod) bool { return p.NodeName == "" }
func ungated(p *state.Pod) bool { return p.NodeName == "" && !p.Gated }

func (w *walk) bindPod() {
	if obj := w.pod(ungated); obj != nil {
		obj.Spec.NodeName = "n1"
		w.counts["placed"]++
		w.putPod(obj)
	}
}

func (w *walk) removePod() {
	obj := w.pod(func(*state.Pod) bool { return true })
	switch {
	case obj == nil:
	case w.chance(20):
		obj.Status.Phase = corev1.PodSucceeded
		w.putPod(obj)
	case w.chance(20):
		obj.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.putPod(obj)
	default:
		w.fact(events.KindPod, string(obj.UID), nil)
	}
}

func (w *walk) changePod() {
	obj := w.pod(func(*state.Pod) bool { return true })
	if obj == nil {
		return
	}
	switch w.IntN(4) {
	case 0:
		if n := len(obj.Spec.SchedulingGates); n > 0 {
			obj.Spec.SchedulingGates = obj.Spec.SchedulingGates[:n-1]
		}
	case 1:
		obj.Spec.Tolerations = append(obj.Spec.Tolerations, corev1.Toleration{Key: "t", Operator: corev1.TolerationOpExists})
	case 2:
		obj.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
	default:
		obj.Labels = w.labels()
	}
	w.putPod(obj)
}

func (w *walk) patchStatus() {
	if obj := w.pod(unbound); obj != nil {
		obj.Status.Message = strconv.FormatUint(w.version, 10)
		w.putPod(obj)
	}
}

func (w *walk) changeNode() {
	name := "n" + strconv.Itoa(w.IntN(3))
	obj := statetest.Node(name, "cpu", one(w, []string{"2", "8"}), "pods", "10")
	if was, ok := w.state.Snapshot().NodeByName(name); ok {
		obj = was.Object.DeepCopy()
	}
	switch w.IntN(4) {
	case 0:
		obj.Labels["zone"] = one(w, []string{"a", "b", "c"})
	case 1:
		obj.Spec.Unschedulable = !obj.Spec.Unschedulable
	case 2:
		obj.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(one(w, []string{"1", "4", "8"}))
	default:
		obj.Spec.Taints = nil
		if w.chance(50) {
			obj.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	w.putNode(obj)
}

func (w *walk) removeNode() {
	if n, ok := w.state.Snapshot().NodeByName("n" + strconv.Itoa(w.IntN(3))); ok {
		w.fact(events.KindNode, n.UID, nil)
	}
}

// changeBudget gives the namespace of all pods a budget, an invalid one, or none.
func (w *walk) changeBudget() {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns"}}
	if w.chance(80) {
		budget := one(w, []string{"pods=3", "pods=10,requests.cpu=12", "requests.cpu=2", "requests.cpu=lots"})
		obj.Annotations = map[string]string{quota.Annotation: budget}
	}
	w.fact(events.KindNamespace, "ns", obj)
}

// mayGo checks that there is room for a pod whose gate will be removed, in addition to those that any leader has let
// go. A pod that was let go before has its room.
func (w *walk) mayGo(uid string) {
	w.counts["ungated"]++
	w.ungated = append(w.ungated, uid)
	again := w.everUngated[uid]
	w.everUngated[uid] = true
	s := w.state.Snapshot()
	p, ok := s.Pod(uid)
	if !ok || !quota.Waits(p) {
		w.fatalf("pod %s may go and does not wait", uid)
	}
	ns, ok := s.ObjectByName(events.KindNamespace, "", "ns")
	if again {
		w.counts["ungated again"]++
		return
	}
	if !ok || ns.API.GetAnnotations()[quota.Annotation] == "" {
		return
	}
	budget, err := quota.Parse(ns.API.GetAnnotations()[quota.Annotation])
	used := quota.Requests(p)
	for other := range s.Pods() {
		used = used.Plus(quota.Counted(other))
		if other.UID != uid && w.everUngated[other.UID] && quota.HasGate(other) && !other.Terminal {
			used = used.Plus(quota.Requests(other))
		}
	}
	if err != nil || !used.Within(budget) {
		w.fatalf("pod %s may go: %s are in use then, of %s (%v)", uid, used, budget, err)
	}
}

// removeGate simulates a binder.
func (w *walk) removeGate() {
	if len(w.ungated) == 0 {
		return
	}
	uid := w.ungated[0]
	w.ungated = w.ungated[1:]
	if p, ok := w.state.Snapshot().Pod(uid); ok && quota.Waits(p) && w.chance(80) {
		obj := p.Object().DeepCopy()
		obj.Spec.SchedulingGates = nil
		w.putPod(obj)
	}
}
