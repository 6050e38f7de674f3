package intake

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// FromFacts turns a step of the facts into an input of the core. Replaced has the earlier versions of pods that were
// unbound and still are, for the refresh of binds. Rejected has pods that an earlier step has shown, and that their
// kubelet has rejected since: a pod that is rejected when it first shows is not reported again by every binder that
// starts. Moved is nil after a Reset.
func FromFacts(step feed.Step) effect.FactsChanged {
	facts, position := step.Snapshot, step.Snapshot.Position()
	in := effect.FactsChanged{Cluster: cluster{facts}, Sequence: position.Sequence, Epoch: position.Epoch}
	in.Exists = (&objectKeys{facts: facts}).exists
	in.PodProgress, in.PodProgressKnown = position.Progress(events.KindPod)
	if rv, known := position.Progress(events.KindDisruptionBudget); known {
		in.BudgetProgress = rv
	}
	if rv, known := position.Progress(events.KindResourceClaim); known {
		in.ClaimProgress = rv
		in.Claims = func(namespace, name string) txns.DeviceClaimFact { return view.ClaimFact(facts, namespace, name) }
		in.Claim = func(namespace, name string) *resourcev1.ResourceClaim {
			return view.Claim(facts, namespace, name)
		}
		in.Classes = func() []*resourcev1.DeviceClass { return classes(facts) }
	}
	if !step.Reset {
		in.ChangedPods = make([]string, 0, len(step.Changes.Pods))
	}
	for _, c := range step.Changes.Pods {
		in.ChangedPods = append(in.ChangedPods, cmp.Or(c.After, c.Before).UID)
		if c.Before != nil && c.After != nil && c.Before.NodeName == "" && c.After.NodeName == "" {
			in.Replaced = append(in.Replaced, c.Before)
		}
		if c.Before != nil && c.After != nil && !c.Before.Terminal {
			if _, _, rejected := c.After.Rejection(); rejected {
				in.Rejected = append(in.Rejected, c.After)
			}
		}
	}
	in.Nodes = func() int { return count(facts) }
	in.Marked, in.MarkedAll = marked(step), step.Reset
	in.Group = func(namespace, name string) *schedulingv1alpha2.PodGroup {
		group, _ := rule.Find[*schedulingv1alpha2.PodGroup](facts, events.KindPodGroup, namespace, name)
		return group
	}
	in.Groups, in.Members = groups(facts), facts.PodsOfGroup
	return in
}

// groups returns an iterator over the PodGroups of a snapshot.
func groups(facts *state.Snapshot) func() iter.Seq[*schedulingv1alpha2.PodGroup] {
	return func() iter.Seq[*schedulingv1alpha2.PodGroup] {
		return func(yield func(*schedulingv1alpha2.PodGroup) bool) {
			for o := range facts.Objects(events.KindPodGroup) {
				if group, ok := o.API.(*schedulingv1alpha2.PodGroup); ok && !yield(group) {
					return
				}
			}
		}
	}
}

// count returns the number of nodes of a snapshot.
func count(facts *state.Snapshot) (n int) {
	for range facts.Nodes() {
		n++
	}
	return n
}

// marked returns the nodes whose marks a step has changed; after a Reset, all that have some.
func marked(step feed.Step) (nodes []effect.MarkedNode) {
	if step.Reset {
		for n := range step.Snapshot.Nodes() {
			if n.Marks != "" {
				nodes = append(nodes, effect.MarkedNode{UID: n.UID, Name: n.Name, Marks: n.Marks})
			}
		}
		return nodes
	}
	for _, c := range step.Changes.Nodes {
		var was, is string
		if c.Before != nil {
			was = c.Before.Marks
		}
		if c.After != nil {
			is = c.After.Marks
		}
		if was != is {
			n := cmp.Or(c.After, c.Before)
			nodes = append(nodes, effect.MarkedNode{UID: n.UID, Name: n.Name, Marks: is})
		}
	}
	return nodes
}

// classes returns the device classes of a snapshot.
func classes(facts *state.Snapshot) (all []*resourcev1.DeviceClass) {
	for o := range facts.Objects(events.KindDeviceClass) {
		if class, ok := o.API.(*resourcev1.DeviceClass); ok {
			all = append(all, class)
		}
	}
	return all
}

// objectKeys reports which objects a snapshot has, by the ledger's keys. It is for one goroutine.
type objectKeys struct {
	facts *state.Snapshot
	// pools holds the keys of pools with a slice, collected on first use.
	pools map[string]bool
}

// exists reports whether the snapshot has the object to which a key belongs. It is true for keys of other kinds, which
// are never collected.
func (e *objectKeys) exists(key string) bool {
	if strings.HasPrefix(key, ledger.PrefixPool) {
		return e.pool(key)
	}
	if namespace, name, ok := ledger.ParseVolumeClaim(key); ok {
		_, found := e.facts.ObjectByName(events.KindVolumeClaim, namespace, name)
		return found
	}
	if namespace, ok := ledger.ParseShared(key); ok {
		_, found := e.facts.ObjectByName(events.KindNamespace, "", namespace)
		return found
	}
	kinds := map[string]events.Kind{
		ledger.PrefixNode: events.KindNode, ledger.PrefixBudget: events.KindDisruptionBudget,
		ledger.PrefixVolume: events.KindVolumeClaim,
	}
	for prefix, kind := range kinds {
		uid, is := strings.CutPrefix(key, prefix)
		if !is {
			continue
		}
		if kind == events.KindNode {
			_, found := e.facts.Node(uid)
			return found
		}
		_, found := e.facts.Object(kind, uid)
		return found
	}
	return true // not a key that is collected
}

// pool reports whether any slice of the pool exists. A pool has no object of its own.
func (e *objectKeys) pool(key string) bool {
	if e.pools == nil {
		e.pools = map[string]bool{}
		for o := range e.facts.Objects(events.KindResourceSlice) {
			if slice, ok := o.API.(*resourcev1.ResourceSlice); ok {
				e.pools[ledger.KeyPool(slice.Spec.Driver, slice.Spec.Pool.Name)] = true
			}
		}
	}
	return e.pools[key]
}

// cluster presents a snapshot as a decide.Cluster.
type cluster struct{ *state.Snapshot }

// Requested implements decide.Cluster.
func (c cluster) Requested(nodeName string) resources.Resources {
	var sum resources.Resources
	for p := range c.PodsOnNode(nodeName) {
		if p.Occupies() {
			sum = sum.Add(p.Requests)
		}
	}
	return sum
}

// BudgetsOf implements decide.Cluster. As the eviction API does, it compares selectors within the namespace, and
// skips pods that have not started or have ended and, where the only budget allows it, pods that are not ready
// (registry/core/pod/storage/eviction.go). A budget whose selector cannot be parsed counts, which errs on the side of
// checking it first.
func (c cluster) BudgetsOf(p *state.Pod, promises *replica.View) []txns.BudgetRoom {
	if phase := p.Status().Phase; p.Terminal || p.Deleting || phase == corev1.PodPending {
		return nil
	}
	var covering []*policyv1.PodDisruptionBudget
	for o := range c.ObjectsIn(events.KindDisruptionBudget, p.Namespace) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil || state.MayMatch(selector, p.Template.Labels) {
			covering = append(covering, pdb)
		}
	}
	if len(covering) == 1 && !p.Ready() && state.SparesUnready(covering[0]) {
		return nil
	}
	var rooms []txns.BudgetRoom
	for _, pdb := range covering {
		rooms = append(rooms, view.BudgetsOf(c.Snapshot, promises).Room(pdb))
	}
	return rooms
}

// Ledger turns batches of the ledger into inputs of one binder's core. The core has its own view of the ledger; this
// one has the members alone. It is for one goroutine.
type Ledger struct {
	binder  string
	members *replica.View
}

// NewLedger returns the view of an empty ledger.
func NewLedger(binder string) *Ledger {
	return &Ledger{binder: binder, members: replica.NewView()}
}

// Fold applies one batch: documents first, then the partitions that this binder holds.
// PartitionsChanged follows only if the batch has changed the members. The order matters: a binder that acquires a
// partition must know the documents of that revision before it acts on them.
func (l *Ledger) Fold(b replica.Batch) ([]effect.Input, error) {
	changes, err := l.members.Fold(membersIn(b))
	if err != nil {
		return nil, fmt.Errorf("binder: ledger: %w", err)
	}
	ins := []effect.Input{effect.LedgerChanged{Batch: b}}
	if !changes.Reset && !changes.Members {
		return ins, nil
	}
	var live []string
	for _, m := range l.members.Roster().Members(membership.RoleBinder) {
		live = append(live, m.ID)
	}
	held := membership.Assign(live, membership.BinderPartitions)[l.binder]
	return append(ins, effect.PartitionsChanged{Held: slices.Clone(held)}), nil
}

// membersIn returns the part of a batch that is about members.
func membersIn(b replica.Batch) replica.Batch {
	all, changes := b.KVs, b.Events.Events
	b.KVs, b.Events.Events = nil, nil
	for _, kv := range all {
		if strings.HasPrefix(kv.Key, roster.PrefixMember) {
			b.KVs = append(b.KVs, kv)
		}
	}
	for _, ev := range changes {
		if strings.HasPrefix(ev.Key, roster.PrefixMember) {
			b.Events.Events = append(b.Events.Events, ev)
		}
	}
	return b
}
