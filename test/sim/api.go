package sim

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// apiServer models the checks that kube-apiserver makes on the project's writes, and nothing more: it compares UIDs
// and resourceVersions, and never looks at capacity. Objects are never changed in place.
type apiServer struct {
	rv      uint64
	kinds   []events.Kind
	objects map[events.Kind]map[string]metav1.Object
	// history is every change; compacted is the resourceVersion that a watch must not be
	// behind.
	history   []apiChange
	compacted uint64
	// deletedAt is the resourceVersion of each pod's deletion.
	deletedAt map[string]uint64
}

type apiChange struct {
	rv      uint64
	kind    events.Kind
	object  metav1.Object
	deleted bool
	added   bool
}

// ordinaryKinds are those that exist in every simulated cluster.
var ordinaryKinds = []events.Kind{
	events.KindNamespace, events.KindNode, events.KindPod, events.KindDisruptionBudget,
}

func newAPI() *apiServer {
	a := &apiServer{rv: 1, objects: map[events.Kind]map[string]metav1.Object{}, deletedAt: map[string]uint64{}}
	a.serve(ordinaryKinds)
	return a
}

// serve adds kinds. It must be called before the first watch.
func (a *apiServer) serve(kinds []events.Kind) {
	a.kinds = append(a.kinds, kinds...)
	for _, k := range kinds {
		a.objects[k] = map[string]metav1.Object{}
	}
}

// put stores an object, new or changed, under a new resourceVersion.
func (a *apiServer) put(kind events.Kind, o metav1.Object) {
	a.rv++
	o.SetResourceVersion(strconv.FormatUint(a.rv, 10))
	_, known := a.objects[kind][string(o.GetUID())]
	a.objects[kind][string(o.GetUID())] = o
	a.history = append(a.history, apiChange{rv: a.rv, kind: kind, object: o, added: !known})
}

// remove deletes an object; the watch's last event of it has the resourceVersion of the deletion.
func (a *apiServer) remove(kind events.Kind, uid string) {
	o, ok := a.objects[kind][uid]
	if !ok {
		return
	}
	a.rv++
	delete(a.objects[kind], uid)
	last := copyOf(o)
	last.SetResourceVersion(strconv.FormatUint(a.rv, 10))
	a.history = append(a.history, apiChange{rv: a.rv, kind: kind, object: last, deleted: true})
	if kind == events.KindPod {
		a.deletedAt[uid] = a.rv
	}
}

func copyOf(o metav1.Object) metav1.Object {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.DeepCopy()
	case *corev1.Node:
		return o.DeepCopy()
	case *corev1.Namespace:
		return o.DeepCopy()
	case *policyv1.PodDisruptionBudget:
		return o.DeepCopy()
	case *corev1.PersistentVolume:
		return o.DeepCopy()
	case *corev1.PersistentVolumeClaim:
		return o.DeepCopy()
	case *resourcev1.DeviceClass:
		return o.DeepCopy()
	case *resourcev1.ResourceSlice:
		return o.DeepCopy()
	case *resourcev1.ResourceClaim:
		return o.DeepCopy()
	case *schedulingv1alpha2.PodGroup:
		return o.DeepCopy()
	}
	return o
}

func (a *apiServer) pod(uid string) (*corev1.Pod, bool) {
	p, ok := a.objects[events.KindPod][uid].(*corev1.Pod)
	return p, ok
}

func (a *apiServer) node(uid string) (*corev1.Node, bool) {
	n, ok := a.objects[events.KindNode][uid].(*corev1.Node)
	return n, ok
}

// pods are all pods in the order of their UIDs.
func (a *apiServer) pods() []*corev1.Pod {
	all := a.objects[events.KindPod]
	out := make([]*corev1.Pod, 0, len(all))
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		p, _ := a.pod(uid)
		out = append(out, p)
	}
	return out
}

func (a *apiServer) nodes() []*corev1.Node {
	all := a.objects[events.KindNode]
	out := make([]*corev1.Node, 0, len(all))
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		n, _ := a.node(uid)
		out = append(out, n)
	}
	return out
}

// changePod changes a copy of the pod; without a difference no resourceVersion moves.
func (a *apiServer) changePod(uid string, change func(p *corev1.Pod) bool) *corev1.Pod {
	old, ok := a.pod(uid)
	if !ok {
		return nil
	}
	p := old.DeepCopy()
	if !change(p) {
		return old
	}
	a.put(events.KindPod, p)
	return p
}

// compact forgets changes up to a resourceVersion.
func (a *apiServer) compact(rv uint64) { a.compacted = max(a.compacted, min(rv, a.rv)) }

// since are the changes of a kind after a resourceVersion; false when that is compacted.
func (a *apiServer) since(kind events.Kind, rv uint64) ([]apiChange, bool) {
	if rv < a.compacted {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(a.history, rv+1, func(c apiChange, rv uint64) int {
		return int(int64(c.rv) - int64(rv))
	})
	var out []apiChange
	for _, c := range a.history[i:] {
		if c.kind == kind {
			out = append(out, c)
		}
	}
	return out, true
}

// list is all objects of a kind, as copies.
func (a *apiServer) list(kind events.Kind) []any {
	var out []any
	for _, uid := range slices.Sorted(maps.Keys(a.objects[kind])) {
		out = append(out, factOf(a.objects[kind][uid]))
	}
	return out
}

// bindOutcome is an answer of pods/binding.
type bindOutcome uint8

const (
	bindDone bindOutcome = iota + 1
	bindConflict
	bindNotFound
)

// bind models pods/binding: it compares UID and resourceVersion, and refuses a pod that is bound, being deleted or
// gated. It checks neither node nor capacity, nor whether annotations become too large. A pod whose annotations are
// full gets a condition before its bind; that condition is written by the same call.
func (a *apiServer) bind(e effect.Bind, ignoreVersion bool) bindOutcome {
	p, ok := a.pod(e.Pod.UID)
	switch {
	case !ok:
		return bindNotFound
	case p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0:
		return bindConflict
	case !ignoreVersion && p.ResourceVersion != strconv.FormatUint(e.ResourceVersion, 10):
		return bindConflict
	}
	a.changePod(e.Pod.UID, func(p *corev1.Pod) bool {
		p.Spec.NodeName = e.NodeName
		markAttempt(p, e)
		setCondition(p, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}) // kubelets are quick
		return true
	})
	return bindDone
}

func annotate(p *corev1.Pod, key, value string) bool {
	if p.Annotations[key] == value {
		return false
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
	return true
}

func setCondition(p *corev1.Pod, c corev1.PodCondition) bool {
	i := slices.IndexFunc(p.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return true
	}
	if p.Status.Conditions[i] == c {
		return false
	}
	p.Status.Conditions[i] = c
	return true
}

func conditionOf(p *corev1.Pod) (corev1.PodCondition, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}

// delete is a user's delete: a running pod is deleted in two steps, a pending one at once.
func (a *apiServer) delete(uid string) {
	p, ok := a.pod(uid)
	if !ok {
		return
	}
	if p.Spec.NodeName == "" {
		a.remove(events.KindPod, uid)
		return
	}
	a.changePod(uid, func(p *corev1.Pod) bool {
		if p.DeletionTimestamp != nil {
			return false
		}
		now := metav1.Unix(int64(a.rv), 0)
		p.DeletionTimestamp = &now
		return true
	})
}
