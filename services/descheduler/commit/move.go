package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

const (
	// movesPerAsk is the number of moves for which places are kept before their evictions are requested: few, so that
	// a crash leaves few unwanted places, and no place waits for long.
	movesPerAsk = 16
	// keepTries bounds the conflicts that keeping one place may lose.
	keepTries = 5
)

// Promises is the part of a cycle's view of the ledger that keeping places needs; *decide.Promises implements it.
// Every transaction must be built after the results of the earlier ones have been reported, because each compares the
// documents that they have written or lost to.
type Promises interface {
	// BuildMove builds the T12 of an eviction that has a place, or returns the reason why the move must not be made.
	BuildMove(e *decide.Eviction) (txns.Change, descheduling.Refusal, error)
	// ApplyCommitted applies a transaction that was committed.
	ApplyCommitted(txn ledger.Txn, r ledger.TxnResult) error
	// ApplyConflict applies the changes to which a transaction has lost.
	ApplyConflict(r ledger.TxnResult) error
}

// Refused is an eviction that was decided and not requested.
type Refused struct {
	// Eviction is the decision as it was made; Because is the reason why it was not requested.
	Eviction decide.Eviction
	Because  descheduling.Refusal
}

// CarryOut keeps the places of the evictions that have one (T12), a few at a time, and requests those evictions and the
// ones without a place. It returns how many requests are certainly in the log, and which moves the ledger did not
// allow; the next cycle decides about those again. It ends early with ctx, which must end when the leadership does.
// If the log refuses one of the requests, the others are appended all the same, and the error is the refusal.
func (r *Executor) CarryOut(
	ctx context.Context, p Promises, evictions []decide.Eviction,
) (written int, refused []Refused, err error) {
	var refusal error
	for few := range slices.Chunk(evictions, movesPerAsk) {
		var kept []decide.Eviction
		for _, e := range few {
			because, err := r.keep(ctx, p, &e)
			switch {
			case err != nil:
				return written, refused, fmt.Errorf("descheduler: keep a place for the replacement of %s/%s: %w",
					e.Decision.Pod.Namespace, e.Decision.Pod.Name, err)
			case because != "":
				refused = append(refused, Refused{Eviction: e, Because: because})
			default:
				kept = append(kept, e)
			}
		}
		n, err := r.RequestEvictions(ctx, kept)
		written += n
		if err != nil && !isRefusal(err) {
			return written, refused, err
		}
		refusal = cmp.Or(refusal, err)
	}
	return written, refused, refusal
}

// keep carries out T12 for an eviction that has a place, and records its revision in the request. A conflict means
// that another member has changed a document: the view learns of the change, and the transaction is built again, at
// most keepTries times. An eviction without a place needs nothing.
func (r *Executor) keep(ctx context.Context, p Promises, e *decide.Eviction) (descheduling.Refusal, error) {
	for range keepTries {
		if e.Keep == nil || ctx.Err() != nil {
			return "", ctx.Err()
		}
		change, because, err := p.BuildMove(e)
		if err != nil || because != "" {
			return because, err
		}
		done, err := r.change(ctx, p, change)
		if isTooLarge(err) {
			return decide.NoRoomInLedger, nil
		}
		if err != nil || done > 0 {
			e.Decision.LedgerRevision = done
			return "", err
		}
	}
	return decide.LostRaces, nil
}

// Release gives up places for which no eviction was requested (T8). A change that loses a conflict is left for the
// next cycle.
func (r *Executor) Release(ctx context.Context, p Promises, changes []txns.Change) (released int, err error) {
	for _, c := range changes {
		if ctx.Err() != nil {
			return released, ctx.Err()
		}
		done, err := r.change(ctx, p, c)
		if isTooLarge(err) {
			r.deps.Logger.Warn("place not released: ledger transaction rejected; binders will release it",
				telemetry.KeyError, err)
			continue
		}
		if err != nil {
			return released, fmt.Errorf("descheduler: release a place: %w", err)
		}
		if done > 0 {
			released++
		}
	}
	return released, nil
}

// isTooLarge reports whether the ledger refused a transaction because of its size: then nothing of it has happened.
func isTooLarge(err error) bool {
	var refused *ledger.TxnError
	return errors.As(err, &refused) && refused.TooLarge
}

// change commits a change of the ledger and returns its revision, 0 if it has lost a conflict. A transaction that
// was sent before and whose answer was lost loses to itself; Classify recognises that, and it counts as committed.
func (r *Executor) change(ctx context.Context, p Promises, c txns.Change) (revision int64, err error) {
	txn, err := c.Txn()
	if err != nil {
		return 0, err
	}
	var result ledger.TxnResult
	var malformed *ledger.TxnError
	err = r.insist(ctx, "ledger transaction", func() error {
		var err error
		result, err = r.deps.Ledger.Commit(ctx, txn)
		if errors.As(err, &malformed) {
			return nil
		}
		return err
	})
	switch {
	case malformed != nil:
		return 0, malformed
	case err != nil:
		return 0, err
	case result.Succeeded:
		return result.Revision, p.ApplyCommitted(txn, result)
	}
	if err := p.ApplyConflict(result); err != nil {
		return 0, err
	}
	lost, err := c.Classify(result)
	if err != nil || !lost.Applied {
		return 0, err
	}
	return lost.AppliedAt, nil
}
