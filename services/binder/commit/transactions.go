package commit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// ledgerTimeout bounds one transaction or read, for a store that does not time out by itself; the etcd store does so
// earlier.
const ledgerTimeout = 10 * time.Second

// transactions carries out ledger transactions and reads.
type transactions struct {
	store  ledger.Store
	logger *slog.Logger
	clock  clock.PassiveClock
}

// transact commits a transaction on one node's document. The answer has the revision of the store or, if another
// transaction came first, the document as it is now.
func (t *transactions) transact(ctx context.Context, e effect.Transact) effect.Transacted {
	out := effect.Transacted{Op: e.Op}
	var res ledger.TxnResult
	res, out.Result, out.Problem = t.commit(ctx, e.Txn, e.Why)
	switch out.Result {
	case effect.Applied:
		out.Revision = res.Revision
	case effect.Lost:
		var err error
		if out.Current, err = docOf(res.Current, e.NodeUID); err != nil {
			out.Result, out.Problem = effect.TxnRefused, err.Error()
		}
	}
	return out
}

// amend commits a transaction on any documents. The answer has the keys as put or, if another transaction came first,
// the compared keys as they are now. Either way the core learns them before its watch shows them.
func (t *transactions) amend(ctx context.Context, e effect.Amend) effect.Amended {
	res, outcome, problem := t.commit(ctx, e.Txn, e.Why)
	out := effect.Amended{Op: e.Op, Result: outcome, Problem: problem}
	switch outcome {
	case effect.Applied:
		out.KVs = e.Txn.Committed(res)
	case effect.Lost:
		out.KVs = res.Current
	}
	return out
}

// commit commits a transaction. Only *ledger.TxnError, for a malformed transaction, proves that nothing happened. After
// any other error it may have been applied, or may still be; the core resubmits it unchanged, or builds another one
// from what its view shows then.
func (t *transactions) commit(
	ctx context.Context, txn ledger.Txn, why string,
) (ledger.TxnResult, effect.TxnOutcome, string) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	begin := t.clock.Now()
	res, err := t.store.Commit(ctx, txn)
	outcome, problem := effect.Lost, ""
	var malformed *ledger.TxnError
	switch {
	case errors.As(err, &malformed):
		outcome, problem = effect.TxnRefused, err.Error()
	case err != nil:
		outcome, problem = effect.TxnUnknown, err.Error()
	case res.Succeeded:
		outcome = effect.Applied
	}
	observeTxn(why, outcome, t.clock.Since(begin))
	if problem != "" {
		t.logger.Warn("ledger transaction failed", "operation", why, telemetry.KeyError, problem)
	}
	return res, outcome, problem
}

// readDoc reads a document linearizably, as List does by the Store's contract.
func (t *transactions) readDoc(ctx context.Context, e effect.ReadDoc) effect.DocRead {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	out := effect.DocRead{Op: e.Op}
	kvs, _, err := t.store.List(ctx, ledger.KeyNode(e.NodeUID))
	if err == nil {
		out.Doc, err = docOf(kvs, e.NodeUID)
	}
	if err != nil {
		out.Problem = err.Error()
		t.logger.Warn("ledger document not read", "node", e.NodeUID, telemetry.KeyError, err)
	}
	return out
}

// docOf returns the document among stored keys; nil if it does not exist.
func docOf(kvs []ledger.KV, nodeUID string) (*ledger.NodeDoc, error) {
	for _, kv := range kvs {
		if kv.Key != ledger.KeyNode(nodeUID) {
			continue
		}
		d, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			return nil, err
		}
		return &d, nil
	}
	return nil, nil
}
