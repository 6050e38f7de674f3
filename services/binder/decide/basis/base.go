package basis

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// RoundEvery is how often all documents and plans are checked for changes that only time brings. Changes by facts, the
// ledger and answers are handled at once.
const RoundEvery = time.Second

// Enforces reports whether the profile of that scheduler name has a placement rule.
type Enforces func(schedulerName, plugin string) bool

// RuleBudgets is the rule name with which Enforces reports whether a profile respects disruption budgets when it
// preempts. Victims of a profile that does not are deleted, as in kube-scheduler.
const RuleBudgets = "DisruptionBudgets"

// Base holds the state that the parts of the core share.
type Base struct {
	effect.Ops
	// ID is the binder's member id.
	ID string
	// Limits and Enforces are the configuration.
	Limits   Limits
	Enforces Enforces

	// Now is the time of the present step.
	Now time.Time
	// Facts is the view of the cluster.
	Facts effect.FactsChanged
	// Ledger is the binder's own view of the whole ledger.
	Ledger *replica.View
	// Revision is the revision of the ledger up to which every document has been processed.
	Revision int64
	// Draining means that nothing new is started.
	Draining bool
	// Batches limits the documents per transaction.
	Batches Batches

	held map[int32]bool
	// firstMissed is the pod progress at which claimed pods were first missed, by UID.
	firstMissed map[string]uint64
}

// New returns a base that knows nothing yet.
func New(id string, limits Limits, enforces Enforces) *Base {
	return &Base{
		ID: id, Limits: limits, Enforces: enforces,
		Ledger: replica.NewView(), held: map[int32]bool{}, firstMissed: map[string]uint64{},
	}
}

// Hold replaces the partitions that this binder holds.
func (b *Base) Hold(partitions []int32) {
	b.held = make(map[int32]bool, len(partitions))
	for _, p := range partitions {
		b.held[p] = true
	}
}

// Holds reports whether this binder acts on the pod (or, for the sweep, the node) now.
func (b *Base) Holds(uid string) bool { return b.held[membership.BinderPartition(uid)] }

// Idle reports whether no work may be started, because the binder holds no partition or is draining.
func (b *Base) Idle() bool { return b.Draining || len(b.held) == 0 }

// MayAct reports whether new work may be started for the uid. It may not while the ledger begins a new generation,
// nor on facts from before Kubernetes was restored.
func (b *Base) MayAct(uid string) bool {
	return !b.Draining && b.Holds(uid) && b.Ledger.Permits(b.Facts.Epoch)
}

// Ready reports whether facts, ledger and partitions are known well enough to act.
func (b *Base) Ready() bool {
	return b.Facts.Cluster != nil && b.Facts.PodProgressKnown && b.Revision > 0 && len(b.held) > 0
}

// Ended reports whether an order with the given NotAfter has ended.
func (b *Base) Ended(notAfter time.Time) bool { return !notAfter.IsZero() && !b.Now.Before(notAfter) }

// Begin registers an operation whose answer m waits for; the caller emits the effect with its id.
func (b *Base) Begin(m effect.Machine) effect.OpID { return b.Start(m, b.Now) }

// Fault reports something that should not happen.
func (b *Base) Fault(what string, err error) { b.Emit(effect.Fault{What: what, Err: err}) }

// Publish appends a decision to the log.
func (b *Base) Publish(d events.Decision) {
	d.Actor = b.ID
	d.FactSequence = b.Facts.Sequence
	d.LedgerRevision = b.Revision
	b.Emit(effect.Publish{Decision: d})
}

// Amend sends a transaction for m; it returns 0 if the change is not a valid transaction. idle means that nothing
// waits for it.
func (b *Base) Amend(m effect.Machine, change txns.Change, why string, idle bool) effect.OpID {
	txn, err := change.Txn()
	if err != nil {
		b.Fault(why, err)
		return 0
	}
	op := b.Begin(m)
	b.Emit(effect.Amend{Op: op, Txn: txn, Why: why, Idle: idle})
	return op
}

// Pacing is when the next try of a piece of work may be made, and the backoff after that.
type Pacing struct {
	Due   time.Time
	Retry wait.Backoff
}

// Pause schedules the next try.
func (p *Pacing) Pause(now time.Time) {
	p.Due = now.Add(p.Retry.Step())
}

// Attempt identifies one attempt to place, or to evict, one pod. It links a decision to its entry in the ledger.
type Attempt struct {
	Pod   string
	Token ledger.Token
}

// Compare orders attempts by pod, then by token.
func (a Attempt) Compare(other Attempt) int {
	return cmp.Or(cmp.Compare(a.Pod, other.Pod), cmp.Compare(a.Token, other.Token))
}
