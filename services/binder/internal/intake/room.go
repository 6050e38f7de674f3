package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// batchBuffer is how many batches of facts or ledger changes may wait between the reader
// and the one that folds them in.
const batchBuffer = 16

// readPause paces the attempts to read the decision log again after an error: 50 ms
// doubling to 5 s, anew after a minute without one.
var readPause = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 5 * time.Second}

const readQuiet = time.Minute

// Deps are the worlds the room listens to.
type Deps struct {
	Log       events.Log
	Snapshots events.Snapshots
	Ledger    ledger.Store
	Logger    *slog.Logger
	Clock     clock.WithTicker
}

// Room is the binder's intake.
type Room struct {
	id   string
	deps Deps
	out  chan<- decide.Input
}

// New returns the intake of binder id, which sends to out.
func New(id string, deps Deps, out chan<- decide.Input) *Room {
	return &Room{id: id, deps: deps, out: out}
}

func (r *Room) send(ctx context.Context, in decide.Input) error {
	select {
	case r.out <- in:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Facts follows the log of facts until ctx ends.
func (r *Room) Facts(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan follow.Batch, batchBuffer)
	g.Go(func() error { return follow.New(r.deps.Log, r.deps.Snapshots).Run(ctx, batches) })
	g.Go(func() error {
		store := state.New()
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				var err error
				if store, err = r.fold(ctx, store, b); err != nil {
					return err
				}
			}
		}
	})
	return g.Wait()
}

// fold brings the store forward by one batch and tells the core.
func (r *Room) fold(ctx context.Context, store *state.Store, b follow.Batch) (*state.Store, error) {
	var changes state.Changes
	var err error
	if b.Reset {
		if store, err = b.Store(); err != nil {
			return nil, fmt.Errorf("binder: facts: %w", err)
		}
	} else if changes, err = store.Apply(b.Facts); err != nil {
		return nil, fmt.Errorf("binder: facts: %w", err)
	}
	in := decide.FactsMoved{Cluster: cluster{store.Snapshot()}, Sequence: store.Position().Sequence}
	in.PodProgress, in.PodProgressKnown = store.Position().Progress(events.KindPod)
	for _, c := range changes.Pods {
		if c.Before != nil && c.After != nil && c.Before.NodeName == "" && c.After.NodeName == "" {
			in.Replaced = append(in.Replaced, c.Before)
		}
		if c.Before != nil && c.After != nil && !c.Before.Terminal {
			if _, _, rejected := c.After.Rejection(); rejected {
				in.Rejected = append(in.Rejected, c.After)
			}
		}
	}
	if err := r.send(ctx, in); err != nil {
		return store, nil // ctx ended
	}
	return store, nil
}

// cluster is a snapshot in the words of the core.
type cluster struct{ *state.Snapshot }

// Requested implements decide.Cluster.
func (c cluster) Requested(nodeName string) state.Resources {
	var sum state.Resources
	for p := range c.PodsOnNode(nodeName) {
		if p.Occupies() {
			sum = sum.Add(p.Requests)
		}
	}
	return sum
}

// BudgetsOf implements decide.Cluster. As the eviction API does, it compares selectors
// within the namespace; a budget whose selector cannot be read counts, which errs on the
// side of asking first.
func (c cluster) BudgetsOf(p *state.Pod) int {
	n := 0
	for o := range c.Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok || o.Namespace != p.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil || selector.Matches(labels.Set(p.Template.Labels)) {
			n++
		}
	}
	return n
}

// Ledger follows the ledger until ctx ends: documents first, then who holds what.
func (r *Room) Ledger(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan ledger.ViewBatch, batchBuffer)
	g.Go(func() error { return ledger.Follow(ctx, r.deps.Ledger, batches) })
	g.Go(func() error {
		view := ledger.NewView()
		for {
			select {
			case <-ctx.Done():
				return nil
			case b := <-batches:
				changes, err := view.Fold(b)
				if err != nil {
					return fmt.Errorf("binder: ledger: %w", err)
				}
				if err := r.tell(ctx, view, changes); err != nil {
					return nil // ctx ended
				}
			}
		}
	})
	return g.Wait()
}

func (r *Room) tell(ctx context.Context, view *ledger.View, changes ledger.ViewChanges) error {
	if err := r.send(ctx, moved(view, changes)); err != nil {
		return err
	}
	if !changes.Reset && !changes.Members {
		return nil
	}
	var live []string
	for _, m := range view.Members(membership.RoleBinder) {
		live = append(live, m.ID)
	}
	held := membership.Assign(live, membership.BinderPartitions)[r.id]
	r.deps.Logger.Info("binder partitions", "held", len(held), "binders", live)
	return r.send(ctx, decide.PartitionsChanged{Held: slices.Clone(held)})
}

// moved lists each document that changed once, as it is now.
func moved(view *ledger.View, changes ledger.ViewChanges) decide.LedgerMoved {
	in := decide.LedgerMoved{Revision: view.Revision(), Reset: changes.Reset}
	if changes.Reset {
		in.Docs = slices.Collect(view.Docs())
		slices.SortFunc(in.Docs, func(a, b ledger.NodeDoc) int { return cmp.Compare(a.Revision, b.Revision) })
		return in
	}
	seen := map[string]bool{}
	for _, c := range slices.Backward(changes.Docs) {
		uid := cmp.Or(c.After.NodeUID, c.Before.NodeUID)
		if seen[uid] {
			continue
		}
		seen[uid] = true
		if c.After.NodeUID == "" {
			in.Deleted = append(in.Deleted, uid)
			continue
		}
		in.Docs = append(in.Docs, c.After)
	}
	slices.Reverse(in.Docs)
	return in
}

// Decisions follows the decision log from its last record at start until ctx ends. What
// was said before is in the ledger and the facts, or will be said again.
func (r *Room) Decisions(ctx context.Context) error {
	delay := readPause.DelayWithReset(r.deps.Clock, readQuiet)
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := r.readDecisions(ctx); ctx.Err() == nil {
			r.deps.Logger.Warn("decision log broke, reading on from its end", "error", err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (r *Room) readDecisions(ctx context.Context) error {
	last, err := r.deps.Log.Last(ctx, events.Decisions)
	if err != nil {
		return err
	}
	reader, err := r.deps.Log.Read(ctx, events.Decisions, last+1)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, record := range records {
			d, err := events.DecodeDecision(record)
			var undecodable *events.DecodeError
			if errors.As(err, &undecodable) {
				r.deps.Logger.Error("unreadable decision passed over", "sequence", record.Sequence, "error", err)
				continue
			}
			if err := r.send(ctx, decide.DecisionSeen{Decision: d.Decision}); err != nil {
				return err
			}
		}
	}
}
