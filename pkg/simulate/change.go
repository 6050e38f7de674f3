package simulate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// simulatedVersion is larger than the resourceVersion of any object: simulated objects are newer than all known
// ones.
const simulatedVersion = 1 << 62

// change applies the changes as simulated facts, in an order that gives evicted pods the added nodes.
func (w *simulation) change() error {
	for _, step := range []func() error{w.addNodes, w.addPods, w.removeNodes, w.drainNodes} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// note describes a change in the report.
func (w *simulation) note(format string, args ...any) {
	w.report.Changes = append(w.report.Changes, fmt.Sprintf(format, args...))
}

// apply applies a simulated fact to the state, at the next sequence of the current epoch, and brings view and engine
// up to date. The state accepts it as newer than any known version of the object (simulatedVersion).
func (w *simulation) apply(f events.Fact) error {
	at := w.Facts.Position()
	w.version++
	f.ResourceVersion = w.version
	f.Epoch = at.Epoch
	f.Cause = "simulated"
	changes, err := w.Facts.Apply([]events.SequencedFact{{Sequence: at.Sequence + 1, Fact: f}})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	w.view.ApplyFacts(changes)
	w.engine.SetObjects(w.view.Snapshot())
	return nil
}

// addNodes creates the nodes of Changes.Add and Changes.Nodes. A copy gets a name and a host name label of its own;
// all other labels, such as the zone, are those of the original. A name that exists is an error.
func (w *simulation) addNodes() error {
	nodes := slices.Clone(w.Changes.Nodes)
	// The names of copies contain the number of the change and of the copy, so they do not collide among themselves.
	for i, add := range w.Changes.Add {
		like, ok := w.view.Snapshot().NodeByName(add.Like)
		if !ok {
			return fmt.Errorf("node %q: not found, cannot be copied", add.Like)
		}
		if add.Count < 1 {
			return fmt.Errorf("%d nodes like %s: want 1 or more", add.Count, add.Like)
		}
		for n := range add.Count {
			node := like.Object.DeepCopy()
			node.Name = fmt.Sprintf("%s-simulated-%d-%d", add.Like, i+1, n+1)
			if _, has := node.Labels[corev1.LabelHostname]; has {
				node.Labels[corev1.LabelHostname] = node.Name
			}
			nodes = append(nodes, node)
		}
		w.note("added %d nodes like %s", add.Count, add.Like)
	}
	for _, node := range w.Changes.Nodes {
		w.note("added node %s", node.Name)
	}
	for _, node := range nodes {
		if _, ok := w.view.Snapshot().NodeByName(node.Name); ok {
			return fmt.Errorf("node %q: already exists", node.Name)
		}
		n := node.DeepCopy()
		// The object passes the same stripping as one that the queue reads, so that rules see what they see in
		// production.
		n.UID, n.ResourceVersion = types.UID("simulated-"+node.Name), ""
		strip.Strip(n)
		data, err := n.Marshal()
		if err != nil {
			return fmt.Errorf("node %q: %w", node.Name, err)
		}
		fact := events.Fact{Kind: events.KindNode, Op: events.OpUpsert, UID: string(n.UID), Name: n.Name, Object: data}
		if err := w.apply(fact); err != nil {
			return err
		}
	}
	return nil
}

// addPods creates the pods of Changes.Pods, with the defaults that matter: namespace, scheduler, priority. Pods whose
// manifest has no name get one.
func (w *simulation) addPods() error {
	for i, given := range w.Changes.Pods {
		p := given.DeepCopy()
		if p.Name == "" {
			p.Name = fmt.Sprintf("%ssimulated-%d", p.GenerateName, i+1)
		}
		if p.Namespace == "" {
			p.Namespace = metav1.NamespaceDefault
		}
		if _, ok := w.view.Snapshot().PodByName(p.Namespace, p.Name); ok {
			return fmt.Errorf("pod %s/%s: already exists", p.Namespace, p.Name)
		}
		p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("simulated-%s-%s", p.Namespace, p.Name)), ""
		p.CreationTimestamp = metav1.Time{Time: w.Now}
		// What admission and defaulting would set, as far as placement reads it.
		if p.Spec.SchedulerName == "" {
			p.Spec.SchedulerName = corev1.DefaultSchedulerName
		}
		if err := w.setPriority(p); err != nil {
			return err
		}
		strip.Strip(p)
		data, err := p.Marshal()
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		w.note("added pod %s/%s", p.Namespace, p.Name)
		fact := events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Object: data,
		}
		if err := w.apply(fact); err != nil {
			return err
		}
	}
	return nil
}

// setPriority gives a pod the priority of its class, as admission does.
func (w *simulation) setPriority(p *corev1.Pod) error {
	if p.Spec.Priority != nil {
		return nil
	}
	// A named class, or the default class of the cluster for a pod that names none.
	for o := range w.view.Snapshot().Objects(events.KindPriorityClass) {
		class, ok := o.API.(*schedulingv1.PriorityClass)
		if !ok || class.Name != p.Spec.PriorityClassName && (p.Spec.PriorityClassName != "" || !class.GlobalDefault) {
			continue
		}
		value := class.Value
		p.Spec.Priority = &value
		p.Spec.PriorityClassName = class.Name
		p.Spec.PreemptionPolicy = class.PreemptionPolicy
		return nil
	}
	if p.Spec.PriorityClassName != "" {
		return fmt.Errorf("pod %s/%s: priorityClassName %q: not found in the cluster",
			p.Namespace, p.Name, p.Spec.PriorityClassName)
	}
	return nil
}

// removeNodes evicts all pods of each node, DaemonSets' included, and deletes it. No budget is asked: a node that
// fails asks none.
func (w *simulation) removeNodes() error {
	for _, name := range w.Changes.Remove {
		node, ok := w.view.Snapshot().NodeByName(name)
		if !ok {
			return fmt.Errorf("node %q: not found, cannot be removed", name)
		}
		w.note("removed node %s", name)
		for _, p := range w.podsOn(name) {
			w.evict(p, name, Eviction{By: "node removal"})
		}
		err := w.apply(events.Fact{Kind: events.KindNode, Op: events.OpDelete, UID: node.UID, Name: name})
		if err != nil {
			return err
		}
	}
	return nil
}

// podsOn returns the pods that count on a node, in the order of their names.
func (w *simulation) podsOn(name string) []*state.Pod {
	var pods []*state.Pod
	for _, n := range w.view.Nodes() {
		if n.Node.Name != name {
			continue
		}
		for p := range n.Pods() {
			if p.Described() {
				pods = append(pods, p)
			}
		}
	}
	slices.SortFunc(pods, func(a, b *state.Pod) int { return cmp.Compare(a.Key(), b.Key()) })
	return pods
}

// drainNodes cordons nodes and evicts the pods that kubectl drain --ignore-daemonsets would evict, as far as
// disruption budgets allow it.
func (w *simulation) drainNodes() error {
	// All nodes are cordoned before the first pod is evicted: a replacement must not move to a node that is drained
	// next.
	for _, name := range w.Changes.Drain {
		if err := w.cordon(name); err != nil {
			return err
		}
	}
	for _, name := range w.Changes.Drain {
		for _, p := range w.podsOn(name) {
			if tiedToNode(p) {
				continue
			}
			if budget := w.chargeBudgets(p); budget != "" {
				w.report.Kept = append(w.report.Kept, Eviction{
					Pod: p.Key(), Node: name, By: "drain", Why: "disruption budget " + budget + " allows no further disruption",
				})
				continue
			}
			w.evict(p, name, Eviction{By: "drain"})
		}
	}
	return nil
}

// cordon makes a node unschedulable, with the taint that the node controller adds.
func (w *simulation) cordon(name string) error {
	node, ok := w.view.Snapshot().NodeByName(name)
	if !ok {
		return fmt.Errorf("node %q: not found, cannot be drained", name)
	}
	w.note("drained node %s", name)
	n := node.Object.DeepCopy()
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable
	}), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	data, err := n.Marshal()
	if err != nil {
		return fmt.Errorf("node %q: %w", name, err)
	}
	return w.apply(events.Fact{Kind: events.KindNode, Op: events.OpUpsert, UID: node.UID, Name: name, Object: data})
}

// tiedToNode reports whether a pod belongs to its node: a DaemonSet's pod, or one that the kubelet created.
func tiedToNode(p *state.Pod) bool {
	owner := metav1.GetControllerOf(p.Template)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") ||
		p.Annotation(corev1.MirrorPodAnnotationKey) != ""
}

// chargeBudgets charges the eviction of a pod to its budgets; if one of them is exhausted, take returns the first such
// budget and charges none.
func (w *simulation) chargeBudgets(p *state.Pod) (exhausted string) {
	charged := w.budgets().Charged(p)
	for _, b := range charged {
		if b.Left <= 0 {
			return b.Namespace + "/" + b.Name
		}
	}
	for _, b := range charged {
		w.charged[b.UID]++
	}
	return ""
}

// evict removes a pod and lets its owner create a replacement.
func (w *simulation) evict(p *state.Pod, node string, e Eviction) {
	// A pod may be evicted by two changes; it has one replacement.
	if w.evicted[p.UID] {
		return
	}
	w.evicted[p.UID] = true
	e.Pod, e.Node = p.Key(), node
	w.report.Evicted = append(w.report.Evicted, e)
	w.view.Unstage(p.UID)
	if _, known := w.view.Pod(p.UID); known {
		fact := events.Fact{Kind: events.KindPod, Op: events.OpDelete, UID: p.UID, Namespace: p.Namespace, Name: p.Name}
		if err := w.apply(fact); err != nil {
			w.note("pod %s could not be removed: %v", p.Key(), err)
			return
		}
	}
	// A pod without a controller is not created again, and neither is one that was leaving already.
	if view.OwnerOf(p) != "" && !tiedToNode(p) && !p.Deleting {
		w.enqueue(queuedPod{pod: w.replacementOf(p), replaces: node})
	}
}

// replacementOf returns the replacement of a pod as its owner creates it: the same template, created now, on no node,
// with a UID that no other object has.
func (w *simulation) replacementOf(p *state.Pod) *state.Pod {
	obj := p.Object()
	obj.Spec.NodeName = ""
	obj.Status = corev1.PodStatus{}
	obj.DeletionTimestamp = nil
	obj.CreationTimestamp = metav1.Time{Time: w.Now}
	fresh := *state.NewPod(obj)
	w.version++
	fresh.UID, fresh.ResourceVersion = "anew-"+p.UID, w.version
	return &fresh
}

// deschedule runs one descheduling cycle of the policy, by the planner of the descheduler. It sees what the changes so
// far have left, and its evictions charge the same budgets. Pods of schedulers without a profile are judged by the
// default profile, as the descheduler does.
func (w *simulation) deschedule() error {
	if w.Policy == nil {
		return nil
	}
	w.view.Settle()
	fallback, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		return fmt.Errorf("simulate: default profile: %w", err)
	}
	// The planner moves pods between nodes while it plans, so it gets copies.
	nodes := make([]*state.NodeInfo, 0, len(w.view.Nodes()))
	for _, n := range w.view.Nodes() {
		nodes = append(nodes, n.Clone())
	}
	made, report := plan.Explain(plan.Input{
		Cluster: w.view.Snapshot(), Nodes: nodes, Policy: w.Policy, Now: w.Now,
		Placement: func(scheduler string) *placement.Profile {
			if p, ok := w.profiles[scheduler]; ok {
				return p
			}
			return fallback
		},
		Claimed:  func(uid string) int32 { return w.charged[uid] },
		Promised: func(uid string) bool { _, _, victim := w.Ledger.Plans().Victim(uid); return victim },
	})
	w.note("applied the policy: %d pods picked, %d to evict", report.Picked, len(made.Moves))
	if report.Skipped != "" {
		w.note("descheduling cycle skipped: %s", report.Skipped)
	}
	// The reasons why pods stay are the planner's; they are part of the answer to "what would the policy do".
	for _, k := range report.Kept {
		w.report.Kept = append(w.report.Kept, Eviction{Pod: k.Pod, Node: k.Node, By: k.Strategy, Why: string(k.Because)})
	}
	for i := range made.Moves {
		m := &made.Moves[i]
		for _, uid := range m.Budgets {
			w.charged[uid]++
		}
		w.evict(m.Pod.Pod, m.Pod.NodeName, Eviction{By: m.Strategy, Why: m.Reason})
	}
	return nil
}
