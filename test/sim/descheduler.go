package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	descore "github.com/berth-scheduler/berth/services/descheduler/decide"
)

// descheduler is one replica of the descheduler; one of them leads.
type descheduler struct {
	proc
	streams
	outbox
	facts    *feed.Folder
	promised *replica.View
	history  *plan.History
	// candidate is the session with which it runs for leadership, term the term of its leadership.
	candidate, term int64
	leading         bool
	// next is when the next cycle begins, cycle the rest of the present one.
	next  time.Time
	cycle *cycle
}

// cycle is the remaining work of one plan: places to give up, then moves, in order.
type cycle struct {
	promises *descore.Promises
	leave    []txns.Change
	moves    []descore.Eviction
	// waiting: a transaction is under way. tries counts the races that the first move has lost.
	waiting bool
	tries   int
}

const (
	descheduling = roster.PrefixElection + "descheduler/"
	// cycleInterval is how often the leader plans.
	cycleInterval = 1500 * time.Millisecond
	// keepTries is how many races the keeping of one place may lose, as in production.
	keepTries = 5
)

// movesOld wants every pod elsewhere that it finds a better place for. Without nodeFit it keeps
// no places, and asks for evictions only.
func movesOld(nodeFit bool) (*policy.Policy, error) {
	return policy.Parse("simulation", []byte(fmt.Sprintf(`
{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy,
berth: {cooldown: 0s, maxPerOwner: 100%%, maxPerCycle: 2, pauseDuringRollout: false, waitForReady: false},
profiles: [{name: p, pluginConfig: [
{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 1}}, {name: DefaultEvictor, args: {nodeFit: %t}}],
plugins: {deschedule: {enabled: [PodLifeTime]}}}]}`, nodeFit)))
}

func (d *descheduler) base() *proc { return &d.proc }

func (d *descheduler) start() {
	d.begin()
	d.streams = streams{p: &d.proc, decisions: 1}
	d.outbox = outbox{}
	d.facts, d.promised, d.history = feed.NewFolder(), replica.NewView(), plan.NewHistory()
	d.candidate, d.term, d.leading = 0, 0, false
	d.next, d.cycle = time.Time{}, nil
}

func (d *descheduler) steps() []func() error {
	return []func() error{
		d.stepFacts, d.stepFacts, d.stepLedger, d.stepLedger, d.stepDecisions, d.stepLead, d.stepCycle,
		func() error { return d.flush(&d.proc) },
	}
}

func (d *descheduler) stepFacts() error {
	b, ok, err := d.readFacts()
	if err != nil || !ok {
		return err
	}
	if _, err := d.facts.Fold(b); err != nil {
		return d.w.breaks("%s: %v", d.member(), err)
	}
	return nil
}

func (d *descheduler) stepLedger() error {
	b, ok, err := d.readLedger()
	if err != nil || !ok {
		return err
	}
	if _, err := d.promised.Fold(b); err != nil {
		return d.w.breaks("%s: %v", d.member(), err)
	}
	return nil
}

func (d *descheduler) stepDecisions() error {
	batch, _, err := d.readDecisions()
	for _, x := range batch {
		d.history.Observe(x.Decision, d.clock())
	}
	return err
}

// stepLead runs for leadership, and finds out that it does not lead any more.
func (d *descheduler) stepLead() error {
	w := d.w
	key := descheduling + strconv.FormatInt(d.id, 16)
	switch {
	case d.id == 0 || d.id != d.candidate && d.leading:
		d.leading, d.cycle = false, nil
		return nil
	case !d.registered || w.down(&d.proc, toEtcd):
		return nil
	case d.candidate != d.id:
		d.candidate = d.id
		w.transact(&d.proc, "campaign", ledger.Txn{
			Compares: []ledger.Compare{{Key: key, Target: ledger.CreateRevision}},
			Puts:     []ledger.Put{{Key: key, Value: []byte(d.member()), Lease: d.id}},
		}, func(_ ledger.TxnResult, err error) error {
			if err != nil {
				d.candidate = 0 // not known: try again
			}
			return nil
		})
		return nil
	}
	led := d.leading
	if d.term, d.leading = w.leads(descheduling, key); d.leading && !led {
		w.hit("descheduler takes over")
	}
	return nil
}

// stepCycle computes a plan, or continues the present one.
func (d *descheduler) stepCycle() error {
	w := d.w
	switch {
	case !d.leading || w.cluster.settled || !d.promised.IsOpen():
		d.cycle = nil
		return nil
	case d.cycle != nil:
		return d.goOn()
	case d.clock().Before(d.next) || !d.knows():
		return nil
	}
	d.next = d.clock().Add(cycleInterval)
	cluster := d.facts.Snapshot()
	p := descore.NewPromises(cluster, d.promised.Clone())
	h := d.history.Clone()
	out := descore.Core{}.Step(descore.Input{
		Cluster: cluster, Policy: w.policy, Promises: p, History: h,
		Placement: func(name string) *placement.Profile { return w.profiles[name] },
		Actor:     d.member(),
	}, d.clock())
	d.cycle = &cycle{promises: p, leave: p.Leftovers(h, d.clock()), moves: out.Evict}
	for _, e := range out.Evict {
		w.tracef("%s would move %s from %s to %q", d.member(), e.Decision.Pod.Name, e.Decision.NodeName, e.Decision.Landing)
	}
	return nil
}

// knows reports whether it has all that a cycle must be decided on.
func (d *descheduler) knows() bool {
	position := d.facts.Snapshot().Position()
	for _, k := range d.w.policy.Kinds() {
		if _, ok := position.Progress(k); !ok {
			return false
		}
	}
	last, err := d.w.log.Last(d.w.ctx, eventlog.Decisions)
	return err == nil && d.decisions > last && d.promised.Revision() >= d.term && d.promised.Revision() > 0
}

// goOn does the next thing of a cycle.
func (d *descheduler) goOn() error {
	c := d.cycle
	switch {
	case c.waiting:
		return nil
	case len(c.leave) > 0:
		change := c.leave[0]
		c.leave = c.leave[1:]
		return d.change(c, "leftover", change, func(int64) error { return nil })
	case len(c.moves) == 0:
		d.cycle = nil
		return nil
	}
	e := &c.moves[0]
	if e.Keep == nil {
		d.ask(c, 0)
		return nil
	}
	change, because, err := c.promises.BuildMove(e)
	if err != nil {
		return d.w.breaks("%s: T12: %v", d.member(), err)
	}
	if because != "" || c.tries >= keepTries {
		c.moves, c.tries = c.moves[1:], 0
		return nil
	}
	c.tries++
	return d.change(c, "T12", change, func(revision int64) error {
		if revision > 0 {
			d.ask(c, revision)
		}
		return nil
	})
}

// ask asks for the eviction of the first move, whose place is kept since a revision.
func (d *descheduler) ask(c *cycle, revision int64) {
	e := c.moves[0]
	c.moves, c.tries = c.moves[1:], 0
	e.Decision.LedgerRevision = revision
	d.history.Observe(e.Decision, d.clock())
	d.add(e.Decision)
}

// change carries out a change of the ledger and passes told the revision at which it was committed, 0 if it has lost
// a race. A transaction with an unknown outcome is sent again unchanged.
func (d *descheduler) change(c *cycle, what string, change txns.Change, applied func(revision int64) error) error {
	txn, err := change.Txn()
	if err != nil {
		return d.w.breaks("%s: %s: %v", d.member(), what, err)
	}
	c.waiting = true
	var send func()
	send = func() {
		d.w.transact(&d.proc, what, txn, func(r ledger.TxnResult, err error) error {
			var refused *ledger.TxnError
			switch {
			case isRefused(err, &refused):
				return d.w.breaks("%s: %s: %v", d.member(), what, err)
			case d.cycle != c:
				return nil // it does not lead any more
			case err != nil:
				send()
				return nil
			}
			c.waiting = false
			revision, err := learn(c.promises, change, txn, r)
			if err != nil {
				return d.w.breaks("%s: %s: %v", d.member(), what, err)
			}
			return applied(revision)
		})
	}
	send()
	return nil
}

func learn(p *descore.Promises, change txns.Change, txn ledger.Txn, r ledger.TxnResult) (revision int64, err error) {
	if r.Succeeded {
		return r.Revision, p.ApplyCommitted(txn, r)
	}
	if err := p.ApplyConflict(r); err != nil {
		return 0, err
	}
	lost, err := change.Classify(r)
	if err != nil || !lost.Applied {
		return 0, err
	}
	return lost.AppliedAt, nil
}

// drain is a rolling restart's.
func (d *descheduler) drain() error {
	d.w.hit("descheduler drained")
	d.leave()
	return nil
}
