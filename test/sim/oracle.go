package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// oracle knows the whole state at once, and looks for violations. S1 to S12 and I1 to I12 are the names of
// ARCHITECTURE.md and of pkg/ledger.
type oracle struct {
	w *world
	// truth is the ledger's true state, not a member's view of it. It serves to look up plans and claims; promised
	// counts reservations.
	truth    *replica.View
	promised promises
	rooms
	// resized are the names of nodes whose room has changed.
	resized map[string]bool
	// since is the API server's resourceVersion at which each reservation came, by token.
	since map[uint64]uint64
	// boundAt is the resourceVersion at which each pod was bound.
	boundAt map[string]uint64
	// committedAt and markedAt are when each entry came into Committed and into Fencing.
	committedAt, markedAt map[ledger.Token]timePoint
	// seen is the state that check has looked at.
	seenRV       uint64
	seenRevision int64
	// gone are the pods that were evicted for others.
	gone []evicted
	// closed are the nodes that were closed when a member began, with their resourceVersions.
	closed map[string]map[string]uint64
	// asked are the pods whose eviction was requested, with the plan that has the claim.
	asked map[string]string
	// places are kept for the replacements of pods that are moved, by token.
	places map[ledger.Token]keptPlace
	gangs  gangs
}

// timePoint is a time, and the API server's resourceVersion then.
type timePoint struct {
	at time.Duration
	rv uint64
}

// committed is a transaction as its sender meant it, who may have another life by now.
type committed struct {
	what   string
	who    *proc
	member string
	txn    ledger.Txn
	// knew is the version of the nodes that the sender knew, by the pods that it places.
	knew knowledge
	// knowsAll: it knew everything.
	knowsAll bool
}

func newOracle(w *world) (*oracle, error) {
	o := &oracle{w: w, truth: replica.NewView(), boundAt: map[string]uint64{}, closed: map[string]map[string]uint64{},
		asked: map[string]string{}, places: map[ledger.Token]keptPlace{}, promised: newPromises(), rooms: newRooms(),
		gangs:   newGangs(),
		resized: map[string]bool{}, since: map[uint64]uint64{},
		committedAt: map[ledger.Token]timePoint{}, markedAt: map[ledger.Token]timePoint{}}
	return o, o.truth.Reset(nil, w.store.Revision())
}

// observe looks at what the ledger has just done.
func (w *world) observe(c *committed) {
	o := w.oracle
	if c != nil {
		o.checkEpochs(c)
		o.checkStart(c)
	}
	batch, err := w.store.Changes(o.truth.Revision()+1, w.store.Revision())
	if err != nil || batch.Revision == 0 {
		return
	}
	o.stored(batch.Events, c)
	changes, err := o.truth.Apply(batch)
	if err != nil {
		w.note("form", "ledger: %v", err)
		return
	}
	o.followDisplaced()
	o.forgetRequests()
	for _, d := range changes.Docs {
		if d.After.NodeUID != "" {
			o.checkDoc(d)
		}
	}
}

// checkEpochs is S11: a change that names the epoch in which it was decided commits only in that epoch.
func (o *oracle) checkEpochs(c *committed) {
	for _, cmp := range c.txn.Compares {
		p, ok := roster.ParseOwn(cmp.Key)
		if !ok || cmp.Revision == 0 {
			continue
		}
		if owner, epoch, ok := o.truth.Roster().Owner(p); !ok || epoch != cmp.Revision {
			o.w.note("S11", "%s of %s: decided in epoch %d of partition %d, committed in epoch %d of %q",
				c.what, c.member, cmp.Revision, p, epoch, owner.Member)
		}
	}
}

// checkDoc is S4 and S12, and a check that needs the state of the API server too: why an entry was removed.
func (o *oracle) checkDoc(d replica.DocChange) {
	w := o.w
	for _, v := range append(invariant.CheckSuccessor(plainly(d.Before), plainly(d.After)),
		invariant.CheckDoc(d.After)...) {
		w.note(v.Invariant, "%v", v)
	}
	for _, e := range d.After.Entries {
		before, _ := d.Before.Find(e.PodUID)
		switch now := (timePoint{w.now, w.api.rv}); {
		case e.Token == before.Token && e.State == before.State:
		case e.State == ledger.Committed:
			o.committedAt[e.Token] = now
		case e.State == ledger.Fencing:
			o.markedAt[e.Token] = now
		}
	}
	o.checkPlaces(d)
	hw := d.After.HW[ledger.KindPod]
	for _, e := range d.Before.Entries {
		if now, ok := d.After.Find(e.PodUID); e.Role != ledger.RoleReservation || ok && now.Token == e.Token {
			continue
		}
		// A deleted pod needs no capacity. A process that has not read of its deletion may count it or not: it is
		// right, or too careful.
		p, exists := w.api.pod(e.PodUID)
		switch {
		case !exists:
		case p.Spec.NodeName != "":
			if hw < o.boundAt[e.PodUID] {
				w.note("S4", "pod %s left node %s bound at %d, the high-water is %d",
					e.PodUID, d.After.NodeUID, o.boundAt[e.PodUID], hw)
			}
		case e.State == ledger.Held:
		case e.State == ledger.Fencing && versionOf(p) > o.markedAt[e.Token].rv:
			o.fenced(e, p)
		case e.State != ledger.Fencing:
			w.note("S4", "pod %s left node %s from %s, and is neither bound nor gone", e.PodUID, d.After.NodeUID, e.State)
		default:
			w.note("S4", "pod %s left node %s, and has not changed since the entry was marked", e.PodUID, d.After.NodeUID)
		}
	}
}

func versionOf(p *corev1.Pod) uint64 {
	rv, _ := strconv.ParseUint(p.ResourceVersion, 10, 64) // the model's own number
	return rv
}

// postBinding carries out a bind. S2 and I3: it succeeds only for an existing entry.
func (w *world) postBinding(who *binder, e effect.Bind) bindOutcome {
	if w.now < w.faults.changing[e.Pod.UID] {
		w.cluster.touch(w, e.Pod.UID)
	}
	outcome := w.api.bind(e, w.mutant.ignoreVersion)
	if outcome != bindDone {
		w.refused[who.member()+e.NodeUID], _ = w.oracle.truth.Doc(e.NodeUID)
		return outcome
	}
	w.report.Bound++
	w.checkAnnotations(e.Pod.UID)
	w.oracle.boundAt[e.Pod.UID] = w.api.rv
	entry := w.oracle.promised.found(e.NodeUID, e.Pod.UID)
	switch {
	case entry == nil || ledger.Token(entry.GetToken()) != e.Token:
		w.note("S2", "pod %s was bound to %s with token %s, whose entry does not stand", e.Pod.UID, e.NodeName, e.Token)
	case !live(entry):
		w.note("I3", "pod %s was bound to %s with an entry that is Held", e.Pod.UID, e.NodeName)
	}
	return outcome
}

// check looks at the state of everything, if it has moved.
func (o *oracle) check() error {
	w := o.w
	if o.seenRV == w.api.rv && o.seenRevision == o.truth.Revision() {
		return w.broke
	}
	o.seenRV, o.seenRevision = w.api.rv, o.truth.Revision()
	all := o.placements()
	o.checkRoom(all)
	o.checkKept(all)
	o.checkClaims()
	o.checkUsers(all)
	o.checkDevices()
	if w.cluster.rules {
		o.checkApart(all)
	}
	return w.broke
}

// podPlacement is a pod that is bound, or may yet be, since a resourceVersion.
type podPlacement struct {
	pod   *corev1.Pod
	node  *corev1.Node
	since uint64
}

// placements lists all of them: an unbound pod once for each of its reservations.
func (o *oracle) placements() []podPlacement {
	nodes := map[string]*corev1.Node{}
	for _, n := range o.w.api.nodes() {
		nodes[n.Name] = n
	}
	reserved := o.promised.reservations()
	var out []podPlacement
	add := func(p *corev1.Pod, name string, since uint64) {
		if n := nodes[name]; n != nil && p.Status.Phase != corev1.PodSucceeded {
			out = append(out, podPlacement{p, n, since})
		}
	}
	for _, p := range o.w.api.pods() {
		if p.Spec.NodeName != "" {
			add(p, p.Spec.NodeName, o.boundAt[string(p.UID)])
			continue
		}
		for _, r := range reserved[string(p.UID)] {
			add(p, r.node, o.since[r.entry.GetToken()])
		}
	}
	return out
}

func room(n *corev1.Node) int64 { return n.Status.Allocatable.Cpu().MilliValue() / podCPU }

// size is how many ordinary pods' room a pod takes.
func size(p *corev1.Pod) int64 {
	return p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() / podCPU
}

// checkApart is S7 for required anti-affinity, in both directions.
func (o *oracle) checkApart(all []podPlacement) {
	for _, s := range all {
		for _, t := range repelled(s.pod) {
			o.checkRepelled(s, t, all)
		}
	}
}

func (o *oracle) checkRepelled(s podPlacement, t corev1.PodAffinityTerm, all []podPlacement) {
	for _, other := range all {
		if other.pod != s.pod && matches(t.LabelSelector, other.pod) && together(t.TopologyKey, s.node, other.node) &&
			!o.w.cluster.boundBeforeReregistration(s) && !o.w.cluster.boundBeforeReregistration(other) {
			o.w.note("S7", "pod %s on %s repels %s on %s", s.pod.Name, s.node.Name, other.pod.Name, other.node.Name)
		}
	}
}

func repelled(p *corev1.Pod) []corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func matches(by *metav1.LabelSelector, p *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(by)
	return err == nil && s.Matches(labels.Set(p.Labels))
}

func together(key string, a, b *corev1.Node) bool {
	value, ok := a.Labels[key]
	return ok && b.Labels[key] == value
}

// unowned counts the partitions that no live shard holds (L3), or all while no queue leads.
func (o *oracle) unowned() int {
	held := 0
	for _, owner := range o.truth.Roster().Owners() {
		for _, s := range o.w.shards {
			if s.up && s.member() == owner.Member {
				held++
			}
		}
	}
	if !slices.ContainsFunc(o.w.queues, func(q *queueReplica) bool { return q.led && q.round != nil && q.round.synced }) {
		return ledger.Partitions
	}
	return ledger.Partitions - held
}

// unfinished returns which of L1 to L10 is not fulfilled yet; nil if all are.
func (o *oracle) unfinished() error {
	switch n := o.unowned(); {
	case n > 0:
		return fmt.Errorf("L3: %d partitions are vacant", n)
	case o.w.doubtful:
		return errors.New("L8: the ledger has not begun anew")
	}
	for b := range o.truth.Budgets().All() {
		for _, c := range b.Claims {
			return fmt.Errorf("L2: budget %s still has a claim on pod %s", b.Name, c.PodUID)
		}
	}
	for d := range o.truth.Docs() {
		for _, e := range d.Entries {
			return fmt.Errorf("L2, L6: node %s still has the %s of pod %s (%s)", d.NodeName, e.Role, e.PodUID, e.State)
		}
	}
	if err := o.factsDiffer(); err != nil {
		return err
	}
	if err := o.leaked(); err != nil {
		return err
	}
	if err := o.w.markedNode(); err != nil {
		return err
	}
	if err := o.uninformed(); err != nil {
		return err
	}
	all := o.placements()
	slots := o.slots(all)
	o.checkWastedEvictions()
	for _, p := range o.w.api.pods() {
		c, explained := conditionOf(p)
		if name := p.Status.NominatedNodeName; name != "" && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			return fmt.Errorf("L9: pod %s is nominated to %s, where nothing is held for it", p.Name, name)
		}
		switch {
		case p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0:
		case groupOf(p) != "":
			if err := o.waitingGang(p, slots); err != nil {
				return err
			}
		case unplaceable(p) && explained && c.Status == corev1.ConditionFalse:
		case !explained || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable:
			return fmt.Errorf("L1: pod %s is neither bound nor told why not (%v)", p.Name, c)
		default:
			if node := o.fits(p, all); node != "" {
				return fmt.Errorf("L1: pod %s waits (%s), and %s has room", p.Name, c.Message, node)
			}
		}
	}
	return nil
}

// fits names a node that a pod without rules could go to.
func (o *oracle) fits(p *corev1.Pod, all []podPlacement) string {
	constrained := len(p.Spec.Containers[0].Ports) > 0 ||
		p.Spec.Affinity != nil || len(p.Spec.TopologySpreadConstraints) > 0
	if constrained || claimTaken(p, all) {
		return ""
	}
	used, closed := map[string]int64{}, map[string]bool{}
	for _, s := range all {
		used[s.node.Name] += size(s.pod)
		for _, t := range repelled(s.pod) {
			if matches(t.LabelSelector, p) {
				closed[s.node.Labels[t.TopologyKey]] = true
			}
		}
	}
	for _, n := range o.w.api.nodes() {
		if !n.Spec.Unschedulable && used[n.Name]+size(p) <= room(n) && !closed[n.Labels[corev1.LabelTopologyZone]] &&
			!o.deviceTaken(p, n.Name) {
			return n.Name
		}
	}
	return ""
}

// factsDiffer returns an error if the facts do not match the API server (I4).
func (o *oracle) factsDiffer() error {
	want := map[string]uint64{}
	for _, p := range o.w.api.pods() {
		rv, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		want[string(p.UID)] = rv
	}
	for _, q := range o.w.queues {
		got := map[string]uint64{}
		for p := range q.facts.Snapshot().Pods() {
			got[p.UID] = p.ResourceVersion
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("I4: %s: the facts show %v, there is %v", q.member(), got, want)
		}
	}
	return nil
}
