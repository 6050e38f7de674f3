package sim

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// groupKinds are the additional kinds in a cluster with groups of pods.
var groupKinds = []events.Kind{events.KindPodGroup}

const (
	// mostGroups is how many groups there are at a time, and mostMembers how many pods a group has at first.
	mostGroups, mostMembers = 3, 5
	// mostGrouped bounds the pods in a run about groups.
	mostGrouped = 2 * maxPods
)

// groupOf returns the name of a pod's group; empty for none.
func groupOf(p *corev1.Pod) string {
	if p.Spec.SchedulingGroup == nil {
		return ""
	}
	return *p.Spec.SchedulingGroup.PodGroupName
}

// groups are all groups, in the order of their UIDs.
func (a *apiServer) groups() (out []*schedulingv1alpha2.PodGroup) {
	all := a.objects[events.KindPodGroup]
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		if g, is := all[uid].(*schedulingv1alpha2.PodGroup); is {
			out = append(out, g)
		}
	}
	return out
}

// group returns the group of a name; nil for none.
func (a *apiServer) group(name string) *schedulingv1alpha2.PodGroup {
	for _, g := range a.groups() {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// members are the pods of a group, in the order of their UIDs.
func (a *apiServer) members(name string) (out []*corev1.Pod) {
	for _, p := range a.pods() {
		if groupOf(p) == name {
			out = append(out, p)
		}
	}
	return out
}

// addGroup creates a group: its object and its pods, in any order.
func (c *cluster) addGroup(w *world) {
	name := fmt.Sprintf("g%d", c.groups)
	c.groups++ // also of a group whose object never comes
	if c.ranked && w.chance(80) {
		c.important[name] = []int32{10, 10, 100}[w.rng.IntN(3)]
	}
	n := 2 + w.rng.IntN(mostMembers-1)
	before := w.rng.IntN(n + 1)
	for i := range n {
		if i == before {
			c.putGroup(w, name, n)
		}
		c.addMember(w, name)
	}
	if before == n && w.chance(80) { // otherwise it comes later
		c.putGroup(w, name, n)
	}
}

// putGroup creates the object of a group of so many pods: usually all of them are needed, often in one zone.
func (c *cluster) putGroup(w *world, name string, members int) {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("group-%s-%d", name, c.groups)), Generation: 1,
	}}
	c.groups++
	least := int32(members)
	if w.chance(40) {
		least = 1 + w.rng.Int32N(least)
	}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: least}
	if w.chance(10) {
		g.Spec.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
			Basic: &schedulingv1alpha2.BasicSchedulingPolicy{},
		}
	}
	if w.chance(30) {
		g.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha2.TopologyConstraint{{Key: corev1.LabelTopologyZone}},
		}
	}
	w.api.put(events.KindPodGroup, g)
	w.oracle.gangs.created(g)
}

// addMember creates one pod of a group.
func (c *cluster) addMember(w *world, name string) {
	p := c.newPod(1)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	if priority, is := c.important[name]; is {
		p.Spec.Priority = &priority
	}
	if w.chance(10) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	}
	w.api.put(events.KindPod, p)
	w.oracle.gangs.of[string(p.UID)] = name
}

// form models the users of groups: they create and delete whole groups, replace members, and replace objects.
func (c *cluster) form(w *world) {
	all := w.api.groups()
	if len(all) < mostGroups && len(w.api.pods())+mostMembers <= mostGrouped && w.chance(60) || len(all) == 0 {
		c.addGroup(w)
		return
	}
	if w.chance(10) {
		c.addPod(w)
		return
	}
	g := all[w.rng.IntN(len(all))]
	members := w.api.members(g.Name)
	if !meta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1alpha2.PodGroupScheduled) && w.chance(90) {
		return // its users are patient
	}
	switch w.rng.IntN(8) {
	case 0, 1, 2: // the workload has ended
		for _, p := range members {
			w.api.delete(string(p.UID))
		}
		w.api.remove(events.KindPodGroup, string(g.UID))
	case 3, 4:
		if len(members) > 0 {
			w.api.delete(string(members[w.rng.IntN(len(members))].UID))
		}
	case 5, 6:
		if len(members) < mostMembers {
			c.addMember(w, g.Name)
		}
	case 7:
		w.api.remove(events.KindPodGroup, string(g.UID))
		if w.chance(70) {
			c.putGroup(w, g.Name, max(len(members), 1))
		}
	}
}

// patchGroup sets the condition of a group.
func (w *world) patchGroup(e effect.PatchGroup) effect.Answered {
	old, ok := w.api.objects[events.KindPodGroup][e.UID].(*schedulingv1alpha2.PodGroup)
	if !ok || old.ResourceVersion != e.ResourceVersion {
		return effect.Answered{Result: effect.Gone}
	}
	g := old.DeepCopy()
	if old := meta.FindStatusCondition(old.Status.Conditions, e.Condition.Type); old != nil &&
		old.Status == metav1.ConditionTrue && e.Condition.Status != metav1.ConditionTrue {
		w.note("L11", "group %s is scheduled, and its condition went back to %s", g.Name, e.Condition.Status)
	}
	if meta.SetStatusCondition(&g.Status.Conditions, e.Condition) {
		w.api.put(events.KindPodGroup, g)
	}
	return effect.Answered{Result: effect.Done}
}

// gangs is the oracle's record of groups: what S8 needs.
type gangs struct {
	// of is the group of each pod that has ever been one's member, by UID.
	of map[string]string
	// objects are all objects that have ever had a name.
	objects map[string][]*schedulingv1alpha2.PodGroup
	// placed are the pods of each group that have ever had a place.
	placed map[string]map[string]bool
}

func newGangs() gangs {
	return gangs{
		of: map[string]string{}, objects: map[string][]*schedulingv1alpha2.PodGroup{}, placed: map[string]map[string]bool{},
	}
}

func (g *gangs) created(o *schedulingv1alpha2.PodGroup) {
	g.objects[o.Name] = append(g.objects[o.Name], o)
}

// least returns how many members an object requires to be placed together.
func least(o *schedulingv1alpha2.PodGroup) int {
	if o.Spec.SchedulingPolicy.Gang == nil {
		return 1
	}
	return int(o.Spec.SchedulingPolicy.Gang.MinCount)
}

// confined reports whether an object requires all members in one zone.
func confined(o *schedulingv1alpha2.PodGroup) bool { return o.Spec.SchedulingConstraints != nil }

// checkGangs is S8, given the pods with new reservations: at least as many members as the group requires have, or have
// had, a place; and if the group is confined, they are in one zone. A shard may not know yet that a member has gone, or
// which of two objects of one name there is: the object with the lowest requirement counts.
func (o *oracle) checkGangs(fresh []string) {
	names := map[string]bool{}
	for _, uid := range fresh {
		if name := o.gangs.of[uid]; name != "" {
			if o.gangs.placed[name] == nil {
				o.gangs.placed[name] = map[string]bool{}
			}
			o.gangs.placed[name][uid], names[name] = true, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		objects := o.gangs.objects[name]
		if len(objects) == 0 {
			o.w.note("S8", "a member of group %s was reserved, which has never had an object", name)
			continue
		}
		want := least(objects[0])
		for _, other := range objects[1:] {
			want = min(want, least(other))
		}
		if n := len(o.gangs.placed[name]); n < want {
			o.w.note("S8", "%d members of group %s have or had a place, and a gang is at least %d", n, name, want)
		}
		if len(objects) == 1 && confined(objects[0]) {
			o.checkZone(name)
		}
		o.w.report.Gangs++
	}
}

// checkGangStart is S23: a plan for a member of a gang becomes Ready, after which its victims are evicted, only when as
// many members as the gang requires have, or have had, a place, or one is held for them.
func (o *oracle) checkGangStart(ev ledger.Event) {
	var r ledgerpb.Plan
	if err := proto.Unmarshal(ev.Value, &r); err != nil {
		o.w.note("form", "%s: %v", ev.Key, err)
		return
	}
	if r.GetState() != ledgerpb.PlanState_PLAN_STATE_READY {
		return
	}
	o.checkVictims(strings.TrimPrefix(ev.Key, ledger.PrefixPlan))
}

// checkGangClaims is S23 for plans without a record: their victims may be evicted as soon as they are claimed.
func (o *oracle) checkGangClaims(before, now *ledgerpb.NodeDoc) {
	for _, e := range now.GetEntries() {
		same := func(old *ledgerpb.Entry) bool { return old.GetPlan() == e.GetPlan() && uidOf(old) == uidOf(e) }
		if e.GetRole() == ledgerpb.Role_ROLE_VICTIM && !ledger.IsRecorded(e.GetPlan()) &&
			!slices.ContainsFunc(before.GetEntries(), same) {
			o.checkVictims(e.GetPlan())
		}
	}
}

// checkVictims checks that victims may be evicted for a plan.
func (o *oracle) checkVictims(plan string) {
	name := o.gangs.of[o.promised.holderOf(plan)]
	if name == "" || len(o.gangs.objects[name]) == 0 {
		return
	}
	members := map[string]bool{}
	maps.Copy(members, o.gangs.placed[name])
	for uid := range o.promised.held() {
		if o.gangs.of[uid] == name {
			members[uid] = true
		}
	}
	want := least(slices.MinFunc(o.gangs.objects[name], func(a, b *schedulingv1alpha2.PodGroup) int {
		return least(a) - least(b)
	}))
	if len(members) < want {
		o.w.note("S23", "pods are to be evicted for group %s, of which %d members have a place, and a gang is at least %d",
			name, len(members), want)
	}
	o.w.report.GangPlans++
}

// held yields the pods for which a place is held, and their plans.
func (p *promises) held() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, d := range p.docs {
			for _, e := range d.GetEntries() {
				held := e.GetRole() == ledgerpb.Role_ROLE_RESERVATION && e.GetState() == ledgerpb.State_STATE_HELD
				if held && !yield(uidOf(e), e.GetPlan()) {
					return
				}
			}
		}
	}
}

// holderOf returns the pod for which a plan holds a place; empty for none.
func (p *promises) holderOf(plan string) string {
	for uid, of := range p.held() {
		if of == plan {
			return uid
		}
	}
	return ""
}

// checkZone checks that the members of a group are in one zone: those that have a place for certain.
func (o *oracle) checkZone(name string) {
	reserved := o.promised.reservations()
	zones := map[string]string{}
	for _, p := range o.w.api.members(name) {
		node := p.Spec.NodeName
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if all := reserved[string(p.UID)]; node == "" && len(all) == 1 &&
			all[0].entry.GetState() == ledgerpb.State_STATE_COMMITTED {
			node = all[0].node
		}
		if node != "" {
			zones[zoneOf(node)] = p.Name
		}
	}
	if len(zones) > 1 {
		o.w.note("S8", "the members of group %s are in several zones: %v", name, zones)
	}
}

// zoneOf returns the zone of a node, which follows from its name.
func zoneOf(node string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(node, "n"))
	return zones[n%len(zones)]
}

// waitingGang returns why a member of a group ought not to wait; nil if it may. slots is the room that is left, by
// zone.
func (o *oracle) waitingGang(p *corev1.Pod, slots map[string]int64) error {
	name := groupOf(p)
	g := o.w.api.group(name)
	if g == nil {
		return nil // it waits for the object
	}
	known, waiting, placed, zones := 0, 0, 0, map[string]bool{}
	for _, m := range o.w.api.members(name) {
		switch {
		case m.Status.Phase == corev1.PodSucceeded:
			continue
		case m.DeletionTimestamp != nil || len(m.Spec.SchedulingGates) > 0:
		case m.Spec.NodeName != "":
			placed++
			zones[zoneOf(m.Spec.NodeName)] = true
		default:
			waiting++
		}
		known++
	}
	switch {
	case known < least(g):
		return nil // held back, without a condition
	case confined(g) && len(zones) > 1:
		return nil // an error: the object is another one than the one under which they were placed
	}
	if c, explained := conditionOf(p); !explained || c.Reason != corev1.PodReasonUnschedulable {
		return fmt.Errorf("L1: pod %s of group %s is neither bound nor told why not (%v)", p.Name, name, c)
	}
	want := int64(max(least(g)-placed, 1))
	if int64(waiting) < want {
		return nil
	}
	free := int64(0)
	for zone, n := range slots {
		switch {
		case !confined(g):
			free += n
		case len(zones) == 0 || zones[zone]:
			free = max(free, n)
		}
	}
	if free >= want {
		return fmt.Errorf("L1: pod %s of group %s waits, %d of at least %d members are placed, and there is room for %d",
			p.Name, name, placed, least(g), free)
	}
	return nil
}

// slots is the room that is left for new pods, by zone.
func (o *oracle) slots(all []podPlacement) map[string]int64 {
	used := map[string]int64{}
	for _, s := range all {
		used[s.node.Name] += size(s.pod)
	}
	out := map[string]int64{}
	for _, n := range o.w.api.nodes() {
		if !n.Spec.Unschedulable {
			out[n.Labels[corev1.LabelTopologyZone]] += max(room(n)-used[n.Name], 0)
		}
	}
	return out
}

// uninformed returns an error if a group has a member on a node and its condition does not say so (L11).
func (o *oracle) uninformed() error {
	for _, g := range o.w.api.groups() {
		for _, p := range o.w.api.members(g.Name) {
			if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded &&
				!meta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1alpha2.PodGroupScheduled) {
				return fmt.Errorf("L11: pod %s of group %s is bound, and the group's condition is not True: %v",
					p.Name, g.Name, g.Status.Conditions)
			}
		}
	}
	return nil
}

func gangMutants() []Mutant {
	return []Mutant{{
		Name: "gang-whole", expected: expected{rare: true, family: grouped},
		Missing: "a transaction reserves for a part of the members of a gang",
		txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
			if what != "T1" {
				return t
			}
			return w.partOfGang(t)
		},
	}, {
		Name: "gang-start", expected: expected{rare: true, family: grouped},
		Missing: "the plans of a gang's members wait for each other",
		txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
			if what != "T2" {
				return t
			}
			return readyAtOnce(t)
		},
	}}
}

// readyAtOnce is a transaction with the records of plans Ready instead of Forming.
func readyAtOnce(t ledger.Txn) ledger.Txn {
	t.Puts = slices.Clone(t.Puts)
	for i, put := range t.Puts {
		r, err := codec.DecodePlan(ledger.KV{Key: put.Key, Value: put.Value, ModRevision: 1})
		if err != nil || r.State != ledger.PlanForming {
			continue
		}
		r.State = ledger.PlanReady
		if value, err := codec.EncodePlan(r); err == nil {
			t.Puts[i].Value = value
		}
	}
	return t
}

// partOfGang is a transaction without the documents in which it reserves for members of a gang alone, but for the
// first.
func (w *world) partOfGang(t ledger.Txn) ledger.Txn {
	first := true
	alone := func(put ledger.Put) bool {
		uids := newReservations(ledger.Txn{Puts: []ledger.Put{put}})
		before := w.oracle.promised.docs[put.Key]
		fresh := 0
		for _, uid := range uids {
			stays := slices.ContainsFunc(before.GetEntries(), func(e *ledgerpb.Entry) bool { return uidOf(e) == uid })
			switch {
			case stays:
			case w.oracle.gangs.of[uid] == "":
				return false
			default:
				fresh++
			}
		}
		if fresh > 0 && first {
			first = false
			return false
		}
		return fresh > 0
	}
	t.Puts = slices.DeleteFunc(slices.Clone(t.Puts), alone)
	return t
}
