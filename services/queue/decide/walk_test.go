package decide

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

var (
	walkSeed  = flag.Uint64("seed", 0, "replay the walk with this seed; 0: TEST_SEED")
	walkSteps = flag.Int("steps", 20_000, "random steps of TestWalk, over all walks")
)

// stepsPerWalk is the length of one life of a cluster.
const stepsPerWalk = 500

// TestWalk takes two replicas of the queue and a model of each through random lives of a cluster: pods and nodes are
// created, changed and deleted, shards request work, decide well or badly, die or repeat messages, leaders change,
// replicas are killed and start again from the logs. After every step core and model must agree on the pool of every
// pod (I5), nothing parked may have been missed (I6), and offers must be the model's, in its order; in the end every
// pod that can be placed is.
func TestWalk(t *testing.T) {
	first := seedtest.First(t, *walkSeed)
	t.Logf("one walk: go test ./decide -run TestWalk -args -seed=N -steps=%d", stepsPerWalk)
	total := map[string]int{}
	for i := range max(*walkSteps/stepsPerWalk, 1) {
		w := newWalk(t, first+uint64(i))
		for range stepsPerWalk {
			w.next()
		}
		w.finish()
		for what, n := range w.counts {
			total[what] += n
		}
	}
	t.Logf("did %v", total)
	for _, what := range []string{"woken", "quarantined", "restarted", "early", "placed", "moved", "ungated again"} {
		if total[what] == 0 && *walkSteps >= 100_000 {
			t.Errorf("the walks are lopsided: %s never happened", what)
		}
	}
}

// replica is one core and the model with which it must agree.
type replica struct {
	name  string
	core  *Core
	model *model
	leads bool
}

// walk is one random life of a cluster with two replicas of the queue.
type walk struct {
	t    *testing.T
	seed uint64
	*rand.Rand
	now time.Time
	positions
	logs
	memories []savedMemory
	names    int
	live     map[string]bool
	holders
	replicas [2]*replica
	terms    int64
	gates
	// offers holds the offers that are not answered yet, by token.
	offers map[string]given
	counts map[string]int
}

// logs is the content of the logs.
type logs struct {
	// facts is the log of facts, state the state it results in, and changes the changes it made.
	facts   []events.SequencedFact
	changes []waiting.Occurrence
	state   *state.Store
	// decisions are all decisions, and rejected the position in the facts at which the last rejection of like pods was
	// computed.
	decisions []events.SequencedDecision
	rejected  map[string]uint64
}

// gates holds the pods whose gate a binder must remove, and all that were ever let go.
type gates struct {
	ungated     []string
	everUngated map[string]bool
}

// holders are the holders of the partitions, and the requested ones.
type holders struct{ owners, wanted [ledger.Partitions]string }

type given struct {
	work.Offer
	shard string
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{
		t: t, seed: seed, Rand: rand.New(rand.NewPCG(seed, 1)),
		now:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		live: map[string]bool{}, offers: map[string]given{}, counts: map[string]int{},
	}
	w.everUngated = map[string]bool{}
	w.revision, w.state, w.rejected = 1, state.New(), map[string]uint64{}
	for i := range w.replicas {
		w.replicas[i] = &replica{name: string(rune('a' + i))}
		w.restart(w.replicas[i])
	}
	w.lead(w.replicas[0])
	w.moveOwners()
	return w
}

func (w *walk) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

// savedMemory is the memory that a replica wrote when it stopped.
type savedMemory struct {
	data      []byte
	decisions uint64
}

// restart starts a replica again with only the logs, the ledger and a memory, if there is one.
func (w *walk) restart(r *replica) {
	config := testConfig("queue-" + r.name)
	config.TokenSeed, config.DeliveryLimit = w.Uint64(), 3
	core := New(config)
	r.core, r.leads = core, false
	r.model = newModel(config, func() (uint64, int64) {
		return core.backlog.journal.Sequence, core.backlog.journal.Revision
	})
	from := uint64(0)
	if len(w.memories) > 0 && w.chance(70) {
		m := one(w, w.memories)
		known, err := memory.Decode(m.data)
		if err != nil || known.Decisions != m.decisions {
			w.fatalf("recall: %d, %v, want %d", known.Decisions, err, m.decisions)
		}
		from = m.decisions
		w.step(r, Remembered{Memory: known})
		w.counts["remembered"]++
	}
	order := []func(){
		func() { w.step(r, Decided{Decisions: slices.Clone(w.decisions[from:]), CaughtUp: true}) },
		func() { w.readFacts(r) },
		func() { w.step(r, w.ledgerList()) },
	}
	w.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, do := range order {
		do()
	}
	w.nothingMissed(r)
	w.counts["restarted"]++
	w.counts["parked again"] += r.core.backlog.pools.Parked.Len()
}

// readFacts gives a replica the facts: a state as of some sequence, and then the rest.
func (w *walk) readFacts(r *replica) {
	if len(w.facts) == 0 {
		return
	}
	from := w.IntN(len(w.facts) + 1)
	if w.chance(50) {
		from = max(0, len(w.facts)-w.IntN(10))
	}
	store := state.New()
	apply := func(facts []events.SequencedFact) state.Changes {
		changes, err := store.Apply(facts)
		if err != nil {
			w.fatalf("apply: %v", err)
		}
		return changes
	}
	at := func() waiting.Position {
		p := store.Position()
		progress, ok := p.Progress(events.KindPod)
		return waiting.Position{Sequence: p.Sequence, PodProgress: progress, ProgressKnown: ok}
	}
	apply(w.facts[:from])
	w.step(r, FactsReset{Pods: slices.Collect(store.Snapshot().Pods()), Objects: store.Snapshot(), Position: at()})
	for from < len(w.facts) {
		to := min(from+1+w.IntN(20), len(w.facts))
		changes := apply(w.facts[from:to])
		w.step(r, FactsApplied{Changes: changes, Objects: store.Snapshot(), Position: at()})
		from = to
	}
}

// nothingMissed checks I6 against everything that ever happened to the facts, whatever a replica has seen of it:
// nothing that could help a parked pod has happened since the state from which its verdict was computed. Pods that
// have changed themselves since are left out: what helps them now may not have helped them then.
func (w *walk) nothingMissed(r *replica) {
	for _, e := range r.core.backlog.pools.Parked.All() {
		var verdict events.Decision
		answers := map[string]bool{}
		for _, d := range w.decisions {
			if d.Pod.UID == e.Pod.UID && waiting.IsAnswer(d.Kind) && d.Attempt == e.Attempt.Count {
				verdict = d.Decision
				answers[d.Token] = true
			}
		}
		if len(answers) != 1 {
			continue // two leaders offered it at the same time
		}
		moved := slices.ContainsFunc(w.changes, func(o waiting.Occurrence) bool {
			return o.Sequence > verdict.FactSequence && waiting.ChangedPod(o.Change) == e.Pod.UID
		})
		// A verdict about another pod that was rejected alike is as good.
		seen := max(verdict.FactSequence, w.rejected[rejectionKey(e.Pod, verdict.Plugins)])
		missed := slices.IndexFunc(w.changes, func(o waiting.Occurrence) bool {
			return o.Sequence > seen && concernsOthers(o.Change) && testProfile.AnyListens(o.Change) &&
				testProfile.Wakes(e.Pod, verdict.Plugins, o.Change)
		})
		if !moved && missed >= 0 {
			o := w.changes[missed]
			w.fatalf("I6: %s keeps %s parked by %v, which %s at %d could help\n%s", r.name, e.Pod.UID, verdict.Plugins,
				o.Change.Label(), o.Sequence, r.core.Describe())
		}
	}
}

// remember makes a replica write its memory, for a later life of any replica.
func (w *walk) remember() {
	data, decisions := one(w, w.replicas[:]).core.Remember()
	w.memories = append(w.memories, savedMemory{data, decisions})
}

func (w *walk) ledgerList() LedgerMoved {
	owners, wanted := w.owners, w.wanted
	in := LedgerMoved{Reset: true, Revision: w.revision, Owners: &owners, Requested: &wanted, Shards: []string{"s1", "s2"}}
	for _, uid := range slices.Sorted(maps.Keys(w.live)) {
		in.Holds = append(in.Holds, Hold{PodUID: uid, Live: true})
	}
	return in
}

func (w *walk) lead(r *replica) {
	for _, other := range w.replicas {
		if other.leads {
			other.leads = false
			w.step(other, StepDown{})
		}
	}
	w.terms++
	r.leads = true
	w.step(r, Lead{Term: w.terms})
}

func (w *walk) leader() *replica {
	if w.replicas[0].leads {
		return w.replicas[0]
	}
	return w.replicas[1]
}

// all gives an input to both replicas.
func (w *walk) all(in Input) {
	for _, r := range w.replicas {
		w.step(r, in)
	}
}

// step gives an input to a replica and to its model, and compares them.
func (w *walk) step(r *replica, in Input) {
	w.t.Helper()
	r.model.step(in, w.now)
	var got []offer
	var tokens []string
	var records []events.Decision
	var moves []balance.Move
	for _, effect := range r.core.Step(in, w.now) {
		switch e := effect.(type) {
		case SendOffers:
			for _, o := range e.Batch.Offers {
				got = append(got, offer{e.Shard, o.Pod.UID})
				w.offers[o.Token] = given{o, e.Shard}
				tokens = append(tokens, o.Token)
			}
		case Record:
			records = append(records, e.Decision)
		case MovePartitions:
			moves = append(moves, e.Moves...)
		case Counted:
			w.count(e)
		}
	}
	if err := r.model.dispatched(got); err != nil {
		w.fatalf("%s after %T: %v\n%s", r.name, in, err, r.core.Describe())
	}
	for i, o := range got {
		r.model.pods[o.pod].token = tokens[i]
	}
	inStep := r.core.world.Facts.Sequence == w.sequence
	if err := r.core.Check(w.state.Snapshot().Pods()); err != nil && inStep && r.core.world.Primed {
		w.fatalf("%s after %T: %v\n%s", r.name, in, err, r.core.Describe())
	}
	w.compare(r, in)
	for _, d := range records {
		if d.Kind == events.DecisionUngate {
			w.mayGo(d.Pod.UID)
		}
		w.appendDecisions(d)
	}
	w.want(moves)
}

// want writes a leader's requests for partitions to the ledger.
func (w *walk) want(moves []balance.Move) {
	if len(moves) == 0 {
		return
	}
	for _, m := range moves {
		if w.wanted[m.Partition] == m.To {
			w.fatalf("partition %d is wanted with %q already", m.Partition, m.To)
		}
		w.wanted[m.Partition] = m.To
	}
	w.counts["moved"] += len(moves)
	w.revision++
	wanted := w.wanted
	w.all(LedgerMoved{Revision: w.revision, Requested: &wanted})
}

// handOver makes shards fulfil the requests for some partitions: a holder releases, another takes.
func (w *walk) handOver() {
	for p, member := range w.wanted {
		switch {
		case member == "" || w.owners[p] == member || w.chance(50):
		case w.owners[p] == "":
			w.owners[p] = member
		default:
			w.owners[p] = ""
		}
	}
	w.revision++
	owners := w.owners
	w.all(LedgerMoved{Revision: w.revision, Owners: &owners})
}

// wantElsewhere simulates another leader's request, or an outdated one; members come and go.
func (w *walk) wantElsewhere() {
	wanted := w.wanted
	for range 1 + w.IntN(10) {
		wanted[w.IntN(len(wanted))] = one(w, []string{"s1", "s2", "s9", ""})
	}
	w.wanted = wanted
	w.revision++
	in := LedgerMoved{Revision: w.revision, Requested: &wanted, Shards: []string{"s1", "s2"}}
	if w.chance(30) {
		in.Shards = in.Shards[:w.IntN(2)]
	}
	w.all(in)
}

// quiet lets seconds pass one by one, in which only the shards request work.
func (w *walk) quiet() {
	for range 4 + w.IntN(8) {
		w.now = w.now.Add(time.Second)
		w.all(WorkRequested{Request: work.Request{Shard: "s2", Window: 6}})
		w.all(WorkRequested{Request: work.Request{Shard: "s1", Window: 1}})
	}
}

func (w *walk) count(c Counted) {
	for k, n := range c.Incoming {
		switch k.Event {
		case waiting.EventPopFromBackoff:
			w.counts["early"] += n
		case waiting.EventPodAdd, waiting.EventAttemptFailure, waiting.EventBackoffComplete,
			waiting.EventOffer, waiting.EventTimeout, waiting.EventReset:
		default:
			w.counts["woken"] += n
		}
	}
	w.counts["quarantined"] += c.Quarantined
	w.counts["expired"] += c.Expired
	w.counts["offered"] += c.Offered
}

func (w *walk) compare(r *replica, in Input) {
	w.t.Helper()
	if len(r.core.backlog.pods) != len(r.model.pods) || len(r.core.backlog.unseen) != len(r.model.unseen) {
		w.fatalf("%s after %T: %d pods and %d ghosts, want %d and %d", r.name, in,
			len(r.core.backlog.pods), len(r.core.backlog.unseen), len(r.model.pods), len(r.model.unseen))
	}
	for uid, p := range r.model.pods {
		pool, why := r.core.Where(uid)
		e := r.core.backlog.pods[uid]
		if pool != p.pool || int(e.Attempt.Count) != p.attempts || int(e.Verdict.Rejections) != p.rejections {
			w.fatalf("%s after %T: pod %s is in %s (%s) after %d attempts and %d rejections, want %s after %d and %d\n%s",
				r.name, in, uid, pool, why, e.Attempt.Count, e.Verdict.Rejections, p.pool, p.attempts, p.rejections,
				r.core.Describe())
		}
	}
}

// next takes one random step.
func (w *walk) next() {
	steps := []struct {
		weight int
		do     func()
	}{
		{10, w.addPod}, {4, w.bindPod}, {3, w.removePod}, {4, w.changePod}, {2, w.patchStatus},
		{3, w.changeNode}, {1, w.removeNode}, {4, w.reserve}, {4, w.release}, {1, w.moveOwners}, {12, w.ask},
		{16, w.decide}, {3, w.redeliver}, {6, w.conditionShown}, {6, w.pass}, {1, w.changeLeader}, {1, w.kill},
		{1, w.relist}, {1, w.sendInvalid},
		{1, w.remember}, {2, w.changeBudget}, {4, w.removeGate}, {2, w.handOver}, {1, w.wantElsewhere}, {1, w.quiet},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	at := w.IntN(total)
	for _, s := range steps {
		if at -= s.weight; at < 0 {
			s.do()
			return
		}
	}
}

func (w *walk) chance(percent int) bool { return w.IntN(100) < percent }

func one[T any](w *walk, list []T) T { return list[w.IntN(len(list))] }

func (w *walk) at() waiting.Position {
	return waiting.Position{Sequence: w.sequence, PodProgress: w.progress, ProgressKnown: true}
}

// fact creates or changes an object, or deletes it with nil data, and informs both replicas.
func (w *walk) fact(kind events.Kind, uid string, obj state.APIObject) {
	w.t.Helper()
	w.version++
	w.sequence++
	w.progress = w.version
	f := events.Fact{Kind: kind, Op: events.OpDelete, UID: uid, ResourceVersion: w.version, Progress: w.version}
	if obj != nil {
		obj.SetResourceVersion(strconv.FormatUint(w.version, 10))
		data, err := obj.Marshal()
		if err != nil {
			w.fatalf("marshal: %v", err)
		}
		f.Op, f.Object = events.OpUpsert, data
	}
	w.facts = append(w.facts, events.SequencedFact{Sequence: w.sequence, Fact: f})
	changes, err := w.state.Apply(w.facts[len(w.facts)-1:])
	if err != nil {
		w.fatalf("apply: %v", err)
	}
	for _, c := range rule.Changes(changes) {
		w.changes = append(w.changes, waiting.Occurrence{Change: c, Sequence: w.sequence})
	}
	w.all(FactsApplied{Changes: changes, Objects: w.state.Snapshot(), Position: w.at()})
}

func (w *walk) putPod(obj *corev1.Pod)   { w.fact(events.KindPod, string(obj.UID), obj) }
func (w *walk) putNode(obj *corev1.Node) { w.fact(events.KindNode, string(obj.UID), obj) }

func (w *walk) holds(holds ...Hold) {
	w.revision++
	w.all(LedgerMoved{Revision: w.revision, Holds: holds})
}

func (w *walk) reserve() {
	if obj := w.pod(ungated); obj != nil {
		w.live[string(obj.UID)] = true
		w.holds(Hold{PodUID: string(obj.UID), Live: true})
	}
}

func (w *walk) release() {
	names := slices.Sorted(maps.Keys(w.live))
	if w.chance(5) {
		names = append(names, "p0001") // one that came and went unseen
	}
	if len(names) == 0 {
		return
	}
	uid := one(w, names)
	delete(w.live, uid)
	pod, ok := w.state.Snapshot().Pod(uid)
	w.holds(Hold{PodUID: uid, HW: w.progress + uint64(w.IntN(3)), Bound: ok && pod.NodeName != ""})
}

func (w *walk) moveOwners() {
	split := w.IntN(ledger.Partitions + 1)
	for p := range w.owners {
		w.owners[p] = "s1"
		if p >= split {
			w.owners[p] = one(w, []string{"s2", ""})
		}
	}
	w.revision++
	owners := w.owners
	w.all(LedgerMoved{Revision: w.revision, Owners: &owners})
}

func (w *walk) ask() {
	r := work.Request{Shard: one(w, []string{"s1", "s1", "s2", "s3", ""}), Window: int32(w.IntN(8) - 1)}
	for _, token := range slices.Sorted(maps.Keys(w.offers)) {
		switch n := w.IntN(5); {
		case poison(w.offers[token].Pod.UID):
		case n == 0:
			r.Return = append(r.Return, token)
		case n < 3:
			r.Renew = append(r.Renew, token)
		}
	}
	w.all(WorkRequested{Request: r})
}

// poison reports whether a pod is one that rarely gets an answer.
func poison(uid string) bool { return uid[len(uid)-1] == '7' }

// appendDecisions appends decisions to the log.
func (w *walk) appendDecisions(list ...events.Decision) {
	var batch []events.SequencedDecision
	for _, d := range list {
		batch = append(batch, events.SequencedDecision{Sequence: uint64(len(w.decisions)) + 1, Decision: d})
		w.decisions = append(w.decisions, batch[len(batch)-1])
		if p, ok := w.state.Snapshot().Pod(d.Pod.UID); ok && d.Kind == events.DecisionUnplaceable {
			key := rejectionKey(p, d.Plugins)
			w.rejected[key] = max(w.rejected[key], d.FactSequence)
		}
	}
	w.all(Decided{Decisions: batch})
}

// rejectionKey returns what pods that rules reject for the same reasons have in common.
func rejectionKey(p *state.Pod, plugins []string) string {
	key := fmt.Sprint(p.SchedulerName, p.Priority)
	for _, plugin := range plugins {
		key += fmt.Sprintf(" %q %q", plugin, testProfile.Interest(plugin, p).Class)
	}
	return key
}

var plugins4Walk = []string{
	"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
	"PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures", "Foreign",
}

func (w *walk) decide() {
	tokens := slices.Sorted(maps.Keys(w.offers))
	if len(tokens) == 0 {
		return
	}
	o := w.offers[one(w, tokens)]
	if poison(o.Pod.UID) && w.chance(90) {
		return
	}
	delete(w.offers, o.Token)
	if w.chance(5) {
		return // a shard that stays silent
	}
	d := events.Decision{
		Pod: o.Pod, Token: o.Token, Attempt: o.Attempt, FactSequence: w.sequence, LedgerRevision: w.revision,
		Kind: one(w, []events.DecisionKind{
			events.DecisionPlaced, events.DecisionFailed, events.DecisionReleased, events.DecisionBound,
			events.DecisionUnplaceable, events.DecisionUnplaceable, events.DecisionUnplaceable, events.DecisionUnplaceable,
		}),
	}
	d.FactSequence -= min(d.FactSequence, uint64(w.IntN(4)))
	switch d.Kind {
	case events.DecisionPlaced:
		d.LedgerRevision += int64(w.IntN(3))
	case events.DecisionUnplaceable:
		if w.chance(10) {
			d.FactSequence += 5 // the shard is ahead
		}
		d.LedgerRevision -= int64(w.IntN(3))
		if w.chance(60) {
			d.Plugins = []string{"NodeResourcesFit"}
			break
		}
		for range w.IntN(3) {
			d.Plugins = append(d.Plugins, one(w, plugins4Walk))
		}
		slices.Sort(d.Plugins)
		d.Plugins = slices.Compact(d.Plugins)
	}
	w.appendDecisions(d)
}

// redeliver checks I7: redelivery changes nothing.
func (w *walk) redeliver() {
	if len(w.decisions) == 0 {
		return
	}
	again := Decided{Decisions: []events.SequencedDecision{one(w, w.decisions)}}
	for _, r := range w.replicas {
		w.step(r, again)
		before := r.core.Describe()
		w.step(r, again)
		if after := r.core.Describe(); after != before {
			w.fatalf("I7: redelivery of %+v changed\n%s\ninto\n%s", again, before, after)
		}
	}
}

func (w *walk) conditionShown() {
	if len(w.decisions) == 0 {
		return
	}
	d := w.decisions[len(w.decisions)-1-w.IntN(min(len(w.decisions), 5))].Decision
	pod, ok := w.state.Snapshot().Pod(d.Pod.UID)
	if !ok {
		return
	}
	w.appendDecisions(events.Decision{
		Kind: events.DecisionCondition, Pod: d.Pod, Token: d.Token,
		PodResourceVersion: pod.ResourceVersion + uint64(w.IntN(2)),
	})
}

func (w *walk) pass() {
	switch w.IntN(20) {
	case 0:
		w.now = w.now.Add(-time.Hour)
	case 1:
		w.now = w.now.Add(6 * time.Minute)
	case 2, 3, 4, 5, 6, 7:
		w.now = w.now.Add(11 * time.Second)
	default:
		w.now = w.now.Add(time.Duration(w.IntN(4000)) * time.Millisecond)
	}
	w.all(Tick{})
}

func (w *walk) changeLeader() { w.lead(one(w, w.replicas[:])) }

func (w *walk) kill() {
	r := one(w, w.replicas[:])
	led := r.leads
	w.restart(r)
	if led {
		w.lead(one(w, w.replicas[:]))
	}
}

// relist makes a replica lose the facts or the ledger, and read all of it again.
func (w *walk) relist() {
	r := one(w, w.replicas[:])
	if w.chance(50) {
		w.revision++
		list := w.ledgerList()
		for _, r := range w.replicas {
			w.step(r, list)
		}
		return
	}
	s := w.state.Snapshot()
	w.step(r, FactsReset{Pods: slices.Collect(s.Pods()), Objects: s, Position: w.at()})
}

// sendInvalid sends messages that no member should send.
func (w *walk) sendInvalid() {
	w.all(WorkRequested{Request: work.Request{Shard: "s1", Window: -5, Renew: []string{"", "x"}, Return: []string{"x"}}})
	w.all(LedgerMoved{Revision: w.revision, Holds: []Hold{{PodUID: ""}, {PodUID: "nobody", HW: 1 << 60}}})
	w.all(FactsApplied{Position: w.at()})
	w.appendDecisions(events.Decision{Kind: "unheard-of", Pod: events.PodRef{UID: "p0001"}, Token: "x", Attempt: 1 << 20},
		events.Decision{Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "p0001"}, Attempt: -3},
		events.Decision{Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "never"}, Attempt: 1},
		events.Decision{Kind: events.DecisionEvict, Pod: events.PodRef{UID: "p0001"}, Attempt: 99})
}

// finish requires progress once everything works: every pod that can be placed is.
func (w *walk) finish() {
	w.lead(w.leader())
	for p := range w.owners {
		w.owners[p] = "s1"
	}
	owners := w.owners
	var holds []Hold
	for uid := range w.live {
		holds = append(holds, Hold{PodUID: uid})
	}
	clear(w.live)
	w.revision += 10
	w.all(LedgerMoved{Revision: w.revision, Owners: &owners, Holds: holds})
	w.version += 10 // past every high-water
	w.changeNode()
	w.now = w.now.Add(24 * time.Hour)
	core := w.leader().core
	for range 400 { // suspects are tried one at a time, and the flush comes after 300
		w.all(WorkRequested{Request: work.Request{
			Shard: "s1", Window: 10_000, Renew: slices.Sorted(maps.Keys(core.leases.tokens)),
		}})
		left := 0
		for _, e := range core.backlog.pods {
			if e.Pool() != waiting.PoolGated && e.In != core.backlog.pools.Quarantine {
				left++
			}
		}
		if left == 0 {
			return
		}
		for _, e := range waiting.InOrder(core.backlog.pools.Offered) {
			obj := e.Pod.Object().DeepCopy()
			obj.Spec.NodeName = "n1"
			w.putPod(obj)
		}
		w.now = w.now.Add(time.Second)
	}
	w.fatalf("no progress\n%s", core.Describe())
}
