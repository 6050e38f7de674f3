package commit

import (
	"context"
	"errors"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// ledgerTimeout bounds one transaction or read. It is longer than etcd's own limit for a
// proposal (5 s and two elections), so that an answer that comes is not thrown away.
const ledgerTimeout = 10 * time.Second

func (r *Room) transact(ctx context.Context, e decide.Transact) decide.Transacted {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	begin := r.deps.Clock.Now()
	out := decide.Transacted{Op: e.Op}
	res, err := r.deps.Ledger.Commit(ctx, e.Txn)
	var refused *ledger.TxnError
	switch {
	case errors.As(err, &refused):
		out.Result, out.Problem = decide.TxnRefused, err.Error()
	case err != nil:
		out.Result, out.Problem = decide.TxnUnknown, err.Error()
	case res.Succeeded:
		out.Result, out.Revision = decide.Applied, res.Revision
	default:
		out.Result = decide.Lost
		out.Current, err = docOf(res.Current, e.NodeUID)
		if err != nil {
			out.Result, out.Problem = decide.TxnRefused, err.Error()
		}
	}
	observeTxn(e.Why, out.Result, r.deps.Clock.Since(begin))
	if out.Problem != "" {
		r.deps.Logger.Warn("ledger transaction", "why", e.Why, "node", e.NodeUID, "error", out.Problem)
	}
	return out
}

// readDoc reads a document linearizably: List is, by the Store's contract.
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
		r.deps.Logger.Warn("ledger document not read", "node", e.NodeUID, "error", err)
	}
	return out
}

// docOf finds the document among keys as stored; nil when it does not exist.
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
