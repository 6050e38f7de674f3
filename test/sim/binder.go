package sim

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	bindercore "github.com/berth-scheduler/berth/services/binder/decide"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	binderintake "github.com/berth-scheduler/berth/services/binder/intake"
)

// binder is one binder; its workers are calls under way.
type binder struct {
	proc
	streams
	outbox
	core   *bindercore.Core
	facts  *feed.Folder
	ledger *binderintake.Ledger
	ticked time.Time
	// running counts calls whose answer is outstanding.
	running int
}

// The binder's times, shortened as the leases are.
const (
	bindDeadline = 6 * time.Second
	idleDocument = time.Second
	// evictionHang is how long an eviction may still arrive: older requests are dropped (lateLimit), independently of
	// the binders' clocks.
	evictionHang = 12 * time.Second
	lateLimit    = 10 * time.Second
	// evictWithin is shorter than the difference, by more than the drift of the clocks in that time.
	evictWithin  = time.Second
	requestFor   = 6 * time.Second
	overdue      = 15 * time.Second
	planPause    = 2 * time.Second
	keepPlace    = 5 * time.Second
	collectAfter = time.Second
)

func limits() basis.Limits {
	l := basis.DefaultLimits()
	l.Binds, l.BindDeadline, l.Idle = 2, bindDeadline, idleDocument
	l.Retry.Cap = time.Second
	l.EvictionHang, l.Overdue, l.PlanPause, l.EvictionMemory = evictionHang, overdue, planPause, 30*time.Second
	l.EvictWithin, l.RequestFor = evictWithin, requestFor
	l.KeepPlace = keepPlace
	l.Collect, l.CollectEvery = collectAfter, collectAfter/2
	l.Devices.Deadline = bindDeadline
	return l
}

// markLimits are the limits for marks on nodes, shortened as the leases are.
func markLimits(l basis.MarkLimits) basis.MarkLimits {
	l.Mode = basis.MarksWrite
	l.Named, l.Least, l.Look, l.Fresh = 4*time.Second, time.Second, time.Second, 2*time.Second
	l.Every, l.Refused = 200*time.Millisecond, 2*time.Second
	return l
}

func (b *binder) base() *proc { return &b.proc }

func (b *binder) start() {
	b.begin()
	b.streams = streams{p: &b.proc}
	b.outbox = outbox{}
	l := limits()
	if b.w.marks {
		l.Marks = markLimits(l.Marks)
	}
	b.core = bindercore.NewCore(b.member(), l, func(string, string) bool { return true })
	b.facts, b.ledger = feed.NewFolder(), binderintake.NewLedger(b.member())
	b.ticked, b.running = time.Time{}, 0
}

func (b *binder) steps() []func() error {
	return []func() error{
		b.stepFacts, b.stepFacts, b.stepLedger, b.stepLedger, b.stepDecisions, b.stepTick,
		func() error { return b.flush(&b.proc) },
	}
}

func (b *binder) step(in effect.Input) error {
	for _, e := range b.core.Step(in, b.clock()) {
		switch e := e.(type) {
		case effect.Publish:
			b.add(e.Decision)
		case effect.Report, effect.Rejected:
		case effect.Stop:
			return b.w.breaks("%s: %v", b.member(), e.Err)
		case effect.Fault:
			if b.w.wentBack {
				continue // it refuses to release for a pod that is older than the one the promise was made for
			}
			return b.w.breaks("%s: %s: %v", b.member(), e.What, e.Err)
		default:
			b.perform(e)
		}
	}
	if b.draining && b.running == 0 && len(b.waiting) == 0 {
		b.w.hit("binder drained")
		b.leave()
	}
	return b.w.broken()
}

func (b *binder) stepFacts() error {
	batch, ok, err := b.readFacts()
	if err != nil || !ok {
		return err
	}
	step, err := b.facts.Fold(batch)
	if err != nil {
		return b.w.breaks("%s: %v", b.member(), err)
	}
	return b.step(binderintake.FromFacts(step))
}

func (b *binder) stepLedger() error {
	batch, ok, err := b.readLedger()
	if err != nil || !ok {
		return err
	}
	ins, err := b.ledger.Fold(batch)
	if err != nil {
		return b.w.breaks("%s: %v", b.member(), err)
	}
	for _, in := range ins {
		if err := b.step(in); err != nil {
			return err
		}
	}
	return nil
}

func (b *binder) stepDecisions() error {
	batch, _, err := b.readDecisions()
	if err != nil {
		return err
	}
	for _, d := range batch {
		if err := b.seen(d.Decision); err != nil {
			return err
		}
	}
	return nil
}

func (b *binder) seen(d events.Decision) error {
	var ins []effect.Input
	if b.w.mutant.hint != nil {
		ins = b.w.mutant.hint(d)
	}
	for _, in := range append(ins, effect.DecisionSeen{Decision: d}) {
		if err := b.step(in); err != nil {
			return err
		}
	}
	return nil
}

func (b *binder) stepTick() error {
	if b.clock().Sub(b.ticked) < heartbeat/2 {
		return nil
	}
	b.ticked = b.clock()
	return b.step(effect.Tick{})
}

func (b *binder) drain() error {
	b.draining = true
	return b.step(effect.Drain{})
}

// answer feeds an answer to the core.
func (b *binder) answer(in effect.Input) error {
	b.running--
	return b.step(in)
}

// perform hands one effect to a worker.
func (b *binder) perform(e effect.Effect) {
	b.running++
	switch e := e.(type) {
	case effect.Bind:
		b.prepare(e, 0, 0)
	case effect.ReadPod:
		b.ask("read pod", e.Op, func() effect.Answered { return b.w.api.read(e.Pod.UID) })
	case effect.FencePod:
		b.fence(e)
	case effect.PatchCondition:
		b.ask("condition", e.Op, func() effect.Answered { return b.w.patchCondition(e) })
	case effect.RemoveGate:
		b.ask("ungate", e.Op, func() effect.Answered { return b.w.removeGate(e) })
	case effect.PatchGroup:
		b.ask("group condition", e.Op, func() effect.Answered { return b.w.patchGroup(e) })
	case effect.Announce:
		b.ask("announce", e.Op, func() effect.Answered { return b.w.announce(e) })
	case effect.MarkNode:
		b.ask("mark node", e.Op, func() effect.Answered { return b.w.markNode(e) })
	case effect.Nominate:
		b.ask("nominate", e.Op, func() effect.Answered { return b.w.nominate(e) })
	case effect.ReadBudget:
		b.ask("read budget", e.Op, func() effect.Answered { return b.w.api.readBudget(e.Namespace, e.Name) })
	case effect.Amend:
		b.amend(e)
	case effect.Evict:
		b.ask("evict", e.Op, func() effect.Answered { return b.w.evict(e) })
	case effect.ReadDoc:
		b.readDoc(e)
	case effect.Transact:
		b.transact(e)
	}
}

// ask sends one call to the API server.
func (b *binder) ask(what string, op effect.OpID, carry func() effect.Answered) {
	b.w.send(&call{
		who: &b.proc, to: toAPI, what: what,
		carry: func() (any, error) {
			a := carry()
			b.w.tracef("%s %s: %s", b.member(), what, a.Result)
			return a, b.w.broken()
		},
		onResult: func(result any, err error) error {
			a, ok := result.(effect.Answered)
			if err != nil || !ok {
				a = effect.Answered{Result: effect.Unknown, Problem: errUnknown.Error()}
			}
			a.Op = op
			return b.answer(a)
		},
	})
}

// bind posts the Binding; a refusal is looked into with a second call.
func (b *binder) bind(e effect.Bind) {
	w := b.w
	b.w.send(&call{
		who: &b.proc, to: toAPI, what: "bind",
		carry: func() (any, error) {
			outcome := w.postBinding(b, e)
			w.tracef("%s bind %s to %s at %d: %d", b.member(), e.Pod.Name, e.NodeName, e.ResourceVersion, outcome)
			return outcome, w.broken()
		},
		onResult: func(result any, err error) error {
			outcome, ok := result.(bindOutcome)
			switch {
			case err != nil || !ok:
				return b.answer(effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: errUnknown.Error()})
			case outcome == bindDone:
				w.hit("bind: done")
				return b.answer(effect.Answered{Op: e.Op, Result: effect.Done})
			}
			w.hit("bind: refused")
			w.stallAfterRefusal(&b.proc, e.Pod.UID, e.NodeUID)
			b.ask("read after bind", e.Op, func() effect.Answered { return w.lostBind(e, outcome) })
			return nil
		},
	})
}

// lostBind returns the state of a pod whose bind was refused.
func (w *world) lostBind(e effect.Bind, outcome bindOutcome) effect.Answered {
	read := w.api.read(e.Pod.UID)
	switch {
	case read.Result != effect.Done:
		return read
	case read.Pod.NodeName == e.NodeName:
		read.Result = effect.AlreadyHere
	case read.Pod.NodeName != "":
		read.Result = effect.Elsewhere
	case outcome == bindNotFound:
		read.Result = effect.Unknown
	default:
		read.Result = effect.Conflict
		w.hit("bind: moved")
	}
	read.Problem = "conflict"
	return read
}

func (a *apiServer) read(uid string) effect.Answered {
	p, ok := a.pod(uid)
	if !ok {
		return effect.Answered{Result: effect.Gone}
	}
	p = p.DeepCopy()
	strip.MarkFull(p)
	return effect.Answered{Result: effect.Done, Pod: state.NewPod(p)}
}

func (w *world) fencePod(e effect.FencePod) effect.Answered {
	if w.mutant.fence != nil {
		return w.mutant.fence(w, e)
	}
	p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) bool { return w.markFence(p, e.Value) })
	if p == nil {
		return effect.Answered{Result: effect.Gone}
	}
	return effect.Answered{Result: effect.Done, Pod: state.NewPod(p.DeepCopy())}
}

func (w *world) patchCondition(e effect.PatchCondition) effect.Answered {
	now := w.api.read(e.Pod.UID).Pod
	if e.ResourceVersion > 0 && now != nil && now.ResourceVersion != e.ResourceVersion {
		return effect.Answered{Result: effect.Conflict, Pod: now, Problem: "the pod has changed"}
	}
	p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) bool {
		before := p.Status.NominatedNodeName
		if e.NominatedNodeName != "" || e.ClearNomination {
			p.Status.NominatedNodeName = e.NominatedNodeName
		}
		return setCondition(p, e.Condition) || before != p.Status.NominatedNodeName
	})
	if p == nil {
		return effect.Answered{Result: effect.Gone}
	}
	rv, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		w.note("form", "resourceVersion of pod %s: %v", p.UID, err)
	}
	return effect.Answered{Result: effect.Done, ResourceVersion: rv}
}

func (w *world) removeGate(e effect.RemoveGate) effect.Answered {
	p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) bool {
		before := len(p.Spec.SchedulingGates)
		p.Spec.SchedulingGates = slices.DeleteFunc(p.Spec.SchedulingGates,
			func(g corev1.PodSchedulingGate) bool { return g.Name == e.Gate })
		return len(p.Spec.SchedulingGates) != before
	})
	if p == nil {
		return effect.Answered{Result: effect.Gone}
	}
	return effect.Answered{Result: effect.Done}
}

func (w *world) nominate(e effect.Nominate) effect.Answered {
	p := w.api.changePod(e.Pod.UID, func(p *corev1.Pod) bool {
		before := p.Status.NominatedNodeName
		p.Status.NominatedNodeName = e.NodeName
		return before != e.NodeName
	})
	if p == nil {
		return effect.Answered{Result: effect.Gone}
	}
	return effect.Answered{Result: effect.Done, ResourceVersion: versionOf(p)}
}

// announce writes the node of a reservation into the pod's status, if the pod has not changed since.
func (w *world) announce(e effect.Announce) effect.Answered {
	p, ok := w.api.pod(e.Pod.UID)
	if ok && versionOf(p) == e.ResourceVersion && p.Spec.NodeName == "" {
		w.hit("announced")
		return w.nominate(effect.Nominate{Pod: e.Pod, NodeName: e.NodeName})
	}
	return w.lostBind(effect.Bind{Pod: e.Pod, NodeName: e.NodeName}, bindConflict)
}

// readDoc reads a document linearizably.
func (b *binder) readDoc(e effect.ReadDoc) {
	w := b.w
	w.send(&call{
		who: &b.proc, to: toEtcd, what: "read document",
		carry: func() (any, error) {
			if w.mutant.readDoc != nil {
				if d, ok := w.mutant.readDoc(w, b, e); ok {
					return effect.DocRead{Doc: d}, nil
				}
			}
			kvs, _, err := w.store.List(w.ctx, ledger.KeyNode(e.NodeUID))
			if err != nil {
				return nil, err
			}
			d, err := docOf(kvs, e.NodeUID)
			return effect.DocRead{Doc: d}, err
		},
		onResult: func(result any, err error) error {
			in, ok := result.(effect.DocRead)
			if err != nil || !ok {
				in = effect.DocRead{Problem: errUnknown.Error()}
			}
			in.Op = e.Op
			return b.answer(in)
		},
	})
}

func docOf(kvs []ledger.KV, nodeUID string) (*ledger.NodeDoc, error) {
	for _, kv := range kvs {
		if kv.Key != ledger.KeyNode(nodeUID) {
			continue
		}
		d, err := codec.DecodeNodeDoc(kv)
		return &d, err
	}
	return nil, nil
}

// amend runs a transaction on claims.
func (b *binder) amend(e effect.Amend) {
	w := b.w
	w.transact(&b.proc, txnName(e.Why), e.Txn, func(r ledger.TxnResult, err error) error {
		out := effect.Amended{Op: e.Op}
		var refused *ledger.TxnError
		switch {
		case isRefused(err, &refused):
			return w.breaks("%s: %s: %v", b.member(), e.Why, err)
		case err != nil:
			out.Result, out.Problem = effect.TxnUnknown, err.Error()
		case r.Succeeded:
			out.Result, out.KVs = effect.Applied, e.Txn.Committed(r)
		default:
			out.Result, out.KVs = effect.Lost, r.Current
		}
		return b.answer(out)
	})
}

// txnName is the protocol's name of a binder's change to reservations; changes to promises keep their own name.
func txnName(why string) string {
	switch why {
	case "hand-over":
		return "T5"
	case "fence-mark":
		return "T6"
	case "fence-release":
		return "T7"
	case "collect":
		return "T16"
	}
	return why
}

func (b *binder) transact(e effect.Transact) {
	w := b.w
	w.transact(&b.proc, txnName(e.Why), e.Txn, func(r ledger.TxnResult, err error) error {
		out := effect.Transacted{Op: e.Op}
		var refused *ledger.TxnError
		switch {
		case isRefused(err, &refused):
			out.Result, out.Problem = effect.TxnRefused, err.Error()
		case err != nil:
			out.Result, out.Problem = effect.TxnUnknown, err.Error()
		case r.Succeeded:
			out.Result, out.Revision = effect.Applied, r.Revision
		default:
			out.Result = effect.Lost
			if out.Current, err = docOf(r.Current, e.NodeUID); err != nil {
				return w.breaks("%s: %v", b.member(), err)
			}
		}
		return b.answer(out)
	})
}
