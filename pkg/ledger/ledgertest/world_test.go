package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// rules are the parts of the protocol that an ablation can remove.
type rules struct {
	noHighWater    bool // shards use nodes for which their facts are too old
	noPrecondition bool // binds do not carry the pod's resourceVersion
	noFencePatch   bool // a fence does not change the pod
	claimRules
	// commonTrait of the histories; drawTrait to draw one.
	commonTrait string
}

const drawTrait = "any"

// claimRules are those about holds and claims.
type claimRules struct {
	// uncompared is the prefix of keys whose compares are left out.
	uncompared string
	// noClaimCheck: victims of other plans are claimed; noPinCheck: also pods that placements rely on.
	noClaimCheck, noPinCheck bool
	// noBudgetCount: a victim that is leaving counts as reflected at once. noSettleRaise: the high-water is not
	// raised when a budget is settled. noSettleWait: it is settled at once.
	noBudgetCount, noSettleRaise, noSettleWait bool
	noNowTest                                  bool // a hold is promoted once its victims are gone
	noLarger                                   bool // all claimed victims count as gone, whichever plan claims them
	noPriority                                 bool // any pod displaces any other
	noMark                                     bool // victims are evicted as soon as they are claimed
	noHoldRaise                                bool // a volume's high-water is not raised when a holder leaves
	noOwner                                    bool // a plan's record becomes Ready whatever happened to its hold
}

const (
	worldNodes    = 3
	worldPods     = 8
	worldShards   = 3
	worldCapacity = 2
	// worldPartitions is the small number of partitions to which all pods belong, so that every shard that owns one
	// has work to do.
	worldPartitions = 3
	// worldDesired is how many of the covered pods should run.
	worldDesired = 2
	// worldPDB is the one disruption budget, worldVolume the one volume.
	worldPDB    = "pdb"
	worldVolume = ledger.PrefixVolume + "pvc"
)

// worldTerm is the one rule beyond nodes: its carriers keep apart by zone.
var worldTerm = zoneTerm("x")

// zone returns the zone of a node: the first two nodes share one.
func zone(nodeUID string) string {
	if nodeUID == "n2" {
		return "z1"
	}
	return "z0"
}

// The special traits of a pod are part of its UID: x carries worldTerm, v uses worldVolume, c is covered by
// worldPDB, f relies on a bound pod, m is created by a controller, o is bound by another scheduler. Its digit is
// its priority.
func traits(uid string) string          { return strings.Split(uid, "-")[2] }
func has(uid string, trait string) bool { return strings.Contains(traits(uid), trait) }
func priority(uid string) int32         { return int32(traits(uid)[0] - '0') }
func replacementOf() ledger.Replacement {
	return ledger.Replacement{Owner: "owner", Template: "template"}
}
func nodeUID(n int) string { return fmt.Sprintf("n%d", n) }
func budgetsOf(uid string) (out []string) {
	if has(uid, "c") {
		out = []string{worldPDB}
	}
	return out
}

// podUID returns the n-th pod's UID, in the n-th of worldPartitions.
func podUID(n int, traits string) string {
	for salt := 0; ; salt++ {
		uid := fmt.Sprintf("pod-%d-%s-%d", n, traits, salt)
		if ledger.PartitionOf(uid) == int32(n%worldPartitions) {
			return uid
		}
	}
}

// apiPod is one pod as the API server has it.
type apiPod struct {
	uid               string
	rv                uint64
	node              string
	deleting, deleted bool
}

// apiChange is a new version of a pod or, without UID, of the budget's status.
type apiChange struct {
	apiPod
	allowed int32
}

// bindRequest is a bind in flight: it may arrive at any time, any number of times.
type bindRequest struct {
	node, uid string
	rv        uint64
	token     ledger.Token
	revision  int64
}

// patched is the answer of a fence's write.
type patched struct {
	node, uid string
	token     ledger.Token
	rv        uint64
}

// attempt is a transaction of a member, whose answer may be lost.
type attempt struct {
	what string
	// uid is the pod that is decided on, empty for transactions about claims alone.
	uid    string
	epochs map[int32]int64
	txn    ledger.Txn
	losers func(ledger.TxnResult) (txns.Outcome, error)
	// hint is the bind that follows when the transaction has committed.
	hint *bindRequest
}

// member is a simulated shard, with views that lag behind independently.
type member struct {
	id       string
	session  ledger.Session
	view     *replica.View
	folded   int // batches of world.log
	pods     map[string]apiPod
	progress uint64
	allowed  int32
	budgets  uint64
	left     map[string]uint64 // when a pod was first missed
	trusting bool              // see claimRules.noLarger
	pending  []attempt
}

func (m *member) PodFact(uid string) (uint64, bool, bool) {
	p, ok := m.pods[uid]
	return p.rv, p.node != "", ok
}

func (m *member) PodProgress() uint64 { return m.progress }

func (m *member) BudgetProgress() uint64 { return m.budgets }

func (m *member) VictimFate(uid string, podRV uint64) (txns.Fate, uint64) {
	p, known := m.pods[uid]
	switch {
	case known && p.deleting:
		return txns.Leaving, p.rv
	case known || m.progress < podRV:
		return txns.Staying, 0
	}
	if m.left[uid] == 0 {
		m.left[uid] = m.progress
	}
	return txns.Left, m.left[uid]
}

// world is the API server, the ledger and everything in flight between them.
type world struct {
	rules  rules
	choose func(what string, n int) int
	// commonTrait is the trait that most pods of this history have, if any, so that events that need many pods of one
	// kind occur within few enough histories.
	commonTrait string

	store *mem.Store
	watch ledger.Watch
	log   []replica.Batch
	truth *replica.View
	cluster
	flight

	members []*member
	token   ledger.Token
	counts  map[string]int
}

// cluster is the content of the API server.
type cluster struct {
	history []apiChange // every version of everything, at index rv-1
	pods    map[string]apiPod
	allowed int32
	// spent are the pods of which an eviction has taken from the budget.
	spent map[string]bool
}

// flight is what is in flight, and the previous state of the documents.
type flight struct {
	hints     []bindRequest
	sent      []bindRequest
	fences    []patched
	evictions []string
	budget    ledger.BudgetDoc
	volume    ledger.ExclusiveDoc
	records   map[string]ledger.PlanRecord
	growing   map[string]growth
}

func newWorld(ctx context.Context, r rules, choose func(string, int) int) (*world, error) {
	w := &world{
		rules: r, choose: choose, store: mem.New(), truth: replica.NewView(), counts: map[string]int{},
		cluster: cluster{pods: map[string]apiPod{}, spent: map[string]bool{}},
		flight:  flight{records: map[string]ledger.PlanRecord{}, growing: map[string]growth{}},
	}
	if w.commonTrait = r.commonTrait; w.commonTrait == drawTrait {
		w.commonTrait = []string{"", "x", "v", "c"}[choose("fashion", 4)]
	}
	w.log = []replica.Batch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}}
	if _, err := w.truth.Fold(w.log[0]); err != nil {
		return nil, err
	}
	w.watch = w.store.Watch(ctx, "", 2)
	for i := range worldShards {
		m := &member{
			id: fmt.Sprintf("s%d", i), view: replica.NewView(), pods: map[string]apiPod{}, left: map[string]uint64{},
			trusting: r.noLarger,
		}
		var err error
		if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
			return nil, err
		}
		w.members = append(w.members, m)
	}
	txn, err := registry.RegisterTerms(registry.Registry{}, replica.NewView().Terms(),
		registry.RegisteredTerm{Term: worldTerm})
	if err != nil {
		return nil, err
	}
	if _, err = w.commit(ctx, txn); err != nil {
		return nil, err
	}
	return w, w.begin(ctx)
}

// begin sets up a cluster that is running already: every shard has a partition, some pods are bound, and every
// member knows it.
func (w *world) begin(ctx context.Context) error {
	for i, m := range w.members {
		txn, err := roster.TakePartition(int32(i%worldPartitions), roster.Owner{Member: m.id}, m.session.Lease())
		if err != nil {
			return err
		}
		if _, err := w.commit(ctx, txn); err != nil {
			return err
		}
	}
	pods := map[string][]string{
		"": {"0c", "0cm", "1m", "1"}, "x": {"0c"}, "v": {"0c", "1"}, "c": {"0c", "0cm", "0c"},
	}[w.commonTrait]
	for _, t := range pods {
		w.change(apiPod{uid: podUID(len(w.history), t), node: nodeUID(len(w.history) % worldNodes)})
	}
	if err := w.controller(ctx); err != nil {
		return err
	}
	for _, m := range w.members {
		m.learnFacts(w, len(w.history))
		m.learnBudgets(w, len(w.history))
		if err := m.learnLedger(w, len(w.log)); err != nil {
			return err
		}
	}
	return w.check()
}

// commit runs a transaction and checks what it changed.
func (w *world) commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	if p := w.rules.uncompared; p != "" {
		t.Compares = slices.DeleteFunc(slices.Clone(t.Compares), func(c ledger.Compare) bool {
			return strings.HasPrefix(c.Key, p)
		})
	}
	r, err := w.store.Commit(ctx, t)
	return r, errors.Join(err, w.sync(ctx))
}

// sync waits until the watch has delivered all changes of the ledger, and checks them.
func (w *world) sync(ctx context.Context) error {
	_, revision, err := w.store.List(ctx, identity.KeyCluster)
	if err != nil {
		return err
	}
	for w.truth.Revision() < revision {
		b := replica.Batch{Events: <-w.watch.Batches()}
		changes, err := w.truth.Fold(b)
		if err != nil {
			return err
		}
		w.log = append(w.log, b)
		if v := w.violations(changes); len(v) > 0 {
			return v[0]
		}
	}
	return w.check()
}

// violations returns those of one revision's changes, document by document.
func (w *world) violations(changes replica.Changes) []invariant.Violation {
	var out []invariant.Violation
	for _, c := range changes.Docs {
		out = append(out, invariant.CheckSuccessor(c.Before, c.After)...)
		out = append(out, invariant.CheckDoc(c.After)...)
	}
	budget, volume := w.truth.Budgets().Of(worldPDB), w.truth.Exclusives().Of(worldVolume)
	out = append(out, invariant.CheckBudgetSuccessor(w.budget, budget)...)
	out = append(out, invariant.CheckExclusiveSuccessor(w.volume, volume)...)
	w.budget, w.volume = budget, volume
	for _, plan := range changes.Plans {
		r, _ := w.truth.Plans().Record(plan)
		out = append(out, invariant.CheckPlanSuccessor(w.records[plan], r)...)
		w.records[plan] = r
	}
	out = append(out, invariant.CheckClaims(w.truth.Docs())...)
	return append(out, invariant.CheckUnique(w.truth.Docs())...)
}

// check is S1, in its strict form, S6 and S7. Pods that other schedulers have bound, bypassing the ledger, are not
// Berth's responsibility.
func (w *world) check() error {
	used := map[string][]string{}
	for uid, p := range w.pods {
		if has(uid, "o") {
			continue
		}
		if p.node != "" {
			used[p.node] = append(used[p.node], uid)
			continue
		}
		if d, e, ok := w.truth.Entry(uid); ok && e.State != ledger.Held {
			used[d.NodeUID] = append(used[d.NodeUID], uid)
		}
	}
	volumes, zones := []string{}, map[string][]string{}
	for _, n := range slices.Sorted(maps.Keys(used)) {
		slices.Sort(used[n])
		if len(used[n]) > worldCapacity {
			return fmt.Errorf("S1: node %s with room for %d has %v", n, worldCapacity, used[n])
		}
		for _, uid := range used[n] {
			if has(uid, "v") {
				volumes = append(volumes, uid)
			}
			if has(uid, "x") {
				zones[zone(n)] = append(zones[zone(n)], uid)
			}
		}
	}
	if len(volumes) > 1 {
		return fmt.Errorf("S7: one volume is used by %v", volumes)
	}
	for z, uids := range zones {
		if len(uids) > 1 {
			return fmt.Errorf("S7: zone %s has %v, which keep apart", z, uids)
		}
	}
	if err := w.checkRoom(); err != nil {
		return err
	}
	return w.checkBudget()
}

// checkRoom is S1 for promises: however plans end, every pod on a node has room.
func (w *world) checkRoom() error {
	all := map[string][]string{}
	plans := ledgerPlans{}
	add := func(node, plan, what string, held bool) {
		if plan == "" {
			all[node] = append(all[node], what)
			return
		}
		plans.add(node, plan, what, held)
	}
	for uid, p := range w.pods {
		if p.node == "" || has(uid, "o") {
			continue
		}
		plan := ""
		if _, v, ok := w.truth.Plans().Victim(uid); ok && w.truth.Plans().VictimOfLivePlan(v) {
			plan = v.Plan
		}
		add(p.node, plan, uid, false)
	}
	for d := range w.truth.Docs() {
		for _, e := range d.Entries {
			p, alive := w.pods[e.PodUID]
			if r, _ := w.truth.Plans().Record(e.Plan); ledger.IsRecorded(e.Plan) && r.State != ledger.PlanReady {
				continue // nothing is promised yet, or nothing is promised any more
			}
			if e.Role == ledger.RoleMove || e.Role == ledger.RoleReservation && alive && p.node == "" {
				add(d.NodeUID, e.Plan, e.Token.String(), true)
			}
		}
	}
	plans.larger(all)
	for n, what := range all {
		if len(what) > worldCapacity {
			slices.Sort(what)
			return fmt.Errorf("S1: node %s with room for %d is promised to %v", n, worldCapacity, what)
		}
	}
	return nil
}

// checkBudget is S6 when no other client uses the budget: what is claimed and has not been taken from the budget
// yet can be taken.
func (w *world) checkBudget() error {
	var open []string
	for _, c := range w.truth.Budgets().Of(worldPDB).Claims {
		if p, ok := w.pods[c.PodUID]; ok && !p.deleting && !w.spent[c.PodUID] {
			open = append(open, c.PodUID)
		}
	}
	if len(open) > int(w.allowed) {
		return fmt.Errorf("S6: the budget allows %d, and is claimed for %v", w.allowed, open)
	}
	return nil
}

// change is a write to the API server.
func (w *world) change(p apiPod) apiPod {
	p.rv = uint64(len(w.history) + 1)
	w.history = append(w.history, apiChange{apiPod: p, allowed: w.allowed})
	if p.deleted {
		delete(w.pods, p.uid)
	} else {
		w.pods[p.uid] = p
	}
	return p
}

func (w *world) writeBudget(allowed int32) {
	w.allowed = allowed
	w.history = append(w.history, apiChange{allowed: allowed})
}

func pick[T any](w *world, what string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[w.choose(what, len(from))], true
}

func (w *world) pod() (apiPod, bool) {
	uid, ok := pick(w, "pod", slices.Sorted(maps.Keys(w.pods)))
	return w.pods[uid], ok
}

// steps returns everything that can happen next; steps that suit the fashion occur more often. Each returns a
// violation, or nil.
func (w *world) steps() []func(context.Context) error {
	all := []func(context.Context) error{
		w.createPod, w.createPod, w.createPod, w.touchPod, w.deletePod, w.controller, w.kubelet, w.kubelet,
		w.take, w.expire,
		w.learnFacts, w.learnFacts, w.learnFacts, w.learnFacts,
		w.learnLedger, w.learnLedger, w.learnLedger, w.learnLedger, w.learnLedger,
		w.place, w.place, w.place, w.resolve, w.checkHint, w.checkHint, w.bind, w.bind, w.bind,
		w.handOver, w.handOver, w.fenceMark, w.fencePatch, w.fenceRelease,
		w.nominate, w.nominate, w.mark, w.mark, w.sendEviction, w.evict, w.evict, w.promote, w.promote,
		w.displace, w.displace, w.displace, w.abort, w.settle, w.settle, w.move, w.sweep, w.finishHolders, w.finishHolders,
		w.growPlan, w.growPlan,
	}
	switch w.commonTrait {
	case "c":
		return append(all, w.nominate, w.nominate, w.nominate, w.move, w.mark, w.sendEviction, w.evict, w.evict, w.evict,
			w.settle, w.settle, w.settle, w.learnLedger, w.learnLedger, w.learnLedger)
	case "v":
		return append(all, w.place, w.place, w.place, w.place, w.checkHint, w.bind, w.bind, w.handOver, w.handOver,
			w.finishHolders, w.finishHolders, w.finishHolders, w.learnLedger, w.learnLedger, w.learnLedger)
	case "x":
		return append(all, w.place, w.place, w.deletePod, w.createPod)
	default:
		return append(all, w.foreign, w.nominate, w.nominate, w.promote, w.displace, w.displace, w.displace,
			w.abort, w.growPlan)
	}
}

func (w *world) createPod(context.Context) error {
	if len(w.pods) >= worldPods {
		return nil
	}
	t := string(rune('0' + w.choose("priority", 3)))
	for _, trait := range []string{"x", "v", "c", "f", "m"} {
		if trait == w.commonTrait && w.choose("fashion", 3) != 0 || w.choose("trait", 4) == 0 {
			t += trait
		}
	}
	w.change(apiPod{uid: podUID(len(w.history), t)})
	return nil
}

// foreign is a pod that another scheduler binds, bypassing the ledger.
func (w *world) foreign(context.Context) error {
	if len(w.pods) < worldPods && w.choose("foreign", 3) == 0 {
		w.change(apiPod{uid: podUID(len(w.history), "0o"), node: nodeUID(w.choose("node", worldNodes))})
	}
	return nil
}

func (w *world) touchPod(context.Context) error {
	if p, ok := w.pod(); ok && w.choose("touch", 4) == 0 {
		w.change(p)
	}
	return nil
}

// deletePod is a deletion by another client. It spares covered pods that run alone: a client that deletes them
// without the eviction API may take more than a budget allows.
func (w *world) deletePod(context.Context) error {
	if p, ok := w.pod(); ok && w.choose("delete", 6) == 0 && (p.node == "" || !has(p.uid, "c")) {
		p.deleted = true
		w.change(p)
	}
	return nil
}

// controller brings the budget's status up to date.
func (w *world) controller(context.Context) error {
	healthy := int32(0)
	for uid, p := range w.pods {
		if p.node != "" && !p.deleting && has(uid, "c") && !w.spent[uid] {
			healthy++
		}
	}
	if allowed := max(healthy-worldDesired, 0); allowed != w.allowed {
		w.writeBudget(allowed)
	}
	return nil
}

// kubelet ends a pod that is being deleted.
func (w *world) kubelet(context.Context) error {
	var leaving []string
	for uid, p := range w.pods {
		if p.deleting {
			leaving = append(leaving, uid)
		}
	}
	slices.Sort(leaving)
	uid, ok := pick(w, "leaving", leaving)
	if !ok {
		return nil
	}
	p := w.pods[uid]
	p.deleted = true
	w.change(p)
	return w.check()
}

func (w *world) member() *member { return w.members[w.choose("member", len(w.members))] }

func (w *world) learnFacts(context.Context) error {
	m := w.member()
	m.learnFacts(w, w.some("facts", len(w.history)-int(m.progress)))
	m.learnBudgets(w, w.some("budgets", len(w.history)-int(m.budgets)))
	return nil
}

// some returns how many of n are learned now: all of them half of the time.
func (w *world) some(what string, n int) int {
	if w.choose(what+" all", 2) == 0 {
		return n
	}
	return w.choose(what, n+1)
}

func (m *member) learnFacts(w *world, n int) {
	for ; n > 0; n-- {
		p := w.history[m.progress]
		m.progress++
		switch {
		case p.uid == "":
		case p.deleted:
			delete(m.pods, p.uid)
		default:
			m.pods[p.uid] = p.apiPod
		}
	}
}

func (m *member) learnBudgets(w *world, n int) {
	if n > 0 {
		m.budgets += uint64(n)
		m.allowed = w.history[m.budgets-1].allowed
	}
}

func (w *world) learnLedger(context.Context) error {
	m := w.member()
	return m.learnLedger(w, w.some("ledger", len(w.log)-m.folded))
}

func (m *member) learnLedger(w *world, n int) error {
	for ; n > 0; n-- {
		if _, err := m.view.Fold(w.log[m.folded]); err != nil {
			return err
		}
		m.folded++
	}
	return nil
}

func (w *world) take(ctx context.Context) error {
	m := w.member()
	p := int32(w.choose("partition", worldPartitions))
	txn, err := roster.TakePartition(p, roster.Owner{Member: m.id}, m.session.Lease())
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// expire ends a member's lease; the member does not notice before its next decision fails.
func (w *world) expire(ctx context.Context) error {
	m := w.member()
	if w.choose("expire", 8) != 0 {
		return nil
	}
	w.store.Expire(m.session.Lease())
	var err error
	if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
		return err
	}
	return w.sync(ctx)
}
