package commit

import (
	"context"
	"errors"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// ledgerTimeout bounds one transaction or read, for a store that does not time out by itself; the etcd store does so
// earlier.
const ledgerTimeout = 10 * time.Second

func (r *Room) transact(ctx context.Context, e decide.Transact) decide.Transacted {
	out := decide.Transacted{Op: e.Op}
	var res ledger.TxnResult
	res, out.Result, out.Problem = r.commit(ctx, e.Txn, e.Why)
	switch out.Result {
	case decide.Applied:
		out.Revision = res.Revision
	case decide.Lost:
		var err error
		if out.Current, err = docOf(res.Current, e.NodeUID); err != nil {
			out.Result, out.Problem = decide.TxnRefused, err.Error()
		}
	}
	return out
}

func (r *Room) amend(ctx context.Context, e decide.Amend) decide.Amended {
	res, outcome, problem := r.commit(ctx, e.Txn, e.Why)
	out := decide.Amended{Op: e.Op, Result: outcome, Problem: problem}
	switch outcome {
	case decide.Applied:
		out.KVs = e.Txn.Committed(res)
	case decide.Lost:
		out.KVs = res.Current
	}
	return out
}

// commit commits a transaction. Only *ledger.TxnError, for a malformed transaction, proves that nothing happened.
func (r *Room) commit(ctx context.Context, txn ledger.Txn, why string) (ledger.TxnResult, decide.TxnOutcome, string) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	begin := r.deps.Clock.Now()
	res, err := r.deps.Ledger.Commit(ctx, txn)
	outcome, problem := decide.Lost, ""
	var malformed *ledger.TxnError
	switch {
	case errors.As(err, &malformed):
		outcome, problem = decide.TxnRefused, err.Error()
	case err != nil:
		outcome, problem = decide.TxnUnknown, err.Error()
	case res.Succeeded:
		outcome = decide.Applied
	}
	observeTxn(why, outcome, r.deps.Clock.Since(begin))
	if problem != "" {
		r.deps.Logger.Warn("ledger transaction failed", "operation", why, telemetry.KeyError, problem)
	}
	return res, outcome, problem
}

// readDoc reads a document linearizably, as List does by the Store's contract.
func (r *Room) readDoc(ctx context.Context, e decide.ReadDoc) decide.DocRead {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	out := decide.DocRead{Op: e.Op}
	kvs, _, err := r.deps.Ledger.List(ctx, ledger.KeyNode(e.NodeUID))
	if err == nil {
		out.Doc, err = docOf(kvs, e.NodeUID)
	}
	if err != nil {
		out.Problem = err.Error()
		r.deps.Logger.Warn("ledger document not read", "node", e.NodeUID, telemetry.KeyError, err)
	}
	return out
}

// docOf returns the document among stored keys; nil if it does not exist.
func docOf(kvs []ledger.KV, nodeUID string) (*ledger.NodeDoc, error) {
	for _, kv := range kvs {
		if kv.Key != ledger.KeyNode(nodeUID) {
			continue
		}
		d, err := ledger.DecodeNodeDoc(kv)
		if err != nil {
			return nil, err
		}
		return &d, nil
	}
	return nil, nil
}
