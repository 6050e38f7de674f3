package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// sized returns a transaction with the maximum number of operations and the given number of bytes.
func sized(bytes int) ledger.Txn {
	var txn ledger.Txn
	for i := range ledger.MaxTxnOps {
		key := fmt.Sprintf("k/%03d", i)
		txn.Compares = append(txn.Compares, ledger.Compare{Key: key, Target: ledger.ModRevision})
		txn.Puts = append(txn.Puts, ledger.Put{Key: key})
	}
	rest := bytes - txn.Bytes()
	for i := range txn.Puts {
		n := rest / (len(txn.Puts) - i)
		txn.Puts[i].Value, rest = make([]byte, n), rest-n
	}
	return txn
}

func wantTooLarge(t *testing.T, what string, err error) {
	t.Helper()
	var refused *ledger.TxnError
	if !errors.As(err, &refused) || !refused.TooLarge {
		t.Errorf("%s: got error %v, want *ledger.TxnError that says it is too large", what, err)
	}
}

// A server that is configured to accept less refuses with certainty: after examining the request, or, if that is
// much larger, without reading it. It may have a limit for operations, too.
func TestServerThatTakesLess(t *testing.T) {
	const most = 64 << 10
	s := startWith(t, true, func(cfg *embed.Config) { cfg.MaxRequestBytes, cfg.MaxTxnOps = most, 64 })
	few := func(bytes int) ledger.Txn {
		return ledger.Txn{Puts: []ledger.Put{{Key: "k", Value: make([]byte, bytes)}}}
	}
	for name, store := range map[string]*etcd.Store{"socket": s.open(t), "in this process": s.openWith(t, s.kv)} {
		for _, bytes := range []int{most, 2 * most, ledger.MaxTxnBytes - 100} {
			_, err := store.Commit(t.Context(), few(bytes))
			wantTooLarge(t, fmt.Sprintf("%s: %d bytes", name, bytes), err)
		}
		_, err := store.Commit(t.Context(), sized(32<<10))
		wantTooLarge(t, name+": 128 operations", err)
		if kvs, _, err := store.List(t.Context(), ""); err != nil || len(kvs) > 0 {
			t.Errorf("%s: refused transactions have written %d keys (%v)", name, len(kvs), err)
		}
		if r, err := store.Commit(t.Context(), few(most/2)); err != nil || !r.Succeeded {
			t.Errorf("%s: %+v, %v for a transaction that is small enough", name, r, err)
		}
	}
}

// With the longest prefix, a transaction at the limit still fits the server's default.
func TestLargestTransactionFitsWithTheLongestPrefix(t *testing.T) {
	s := start(t, true)
	prefix := "/" + fmt.Sprintf("%0*d", etcd.MaxPrefix-1, 7)
	store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{s.endpoint}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	if r, err := store.Commit(t.Context(), sized(ledger.MaxTxnBytes)); err != nil || !r.Succeeded {
		t.Errorf("%+v, %v for the largest transaction", r, err)
	}
	if _, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{s.endpoint}, Prefix: prefix + "7"}); err == nil {
		t.Error("a longer prefix is accepted")
	}
}

// Txn.Bytes is not less than what is sent, except for the prefix.
func TestBytesAreNoLessThanWhatIsSent(t *testing.T) {
	for _, txn := range []ledger.Txn{
		sized(16 << 10), sized(1 << 20),
		{Puts: []ledger.Put{{Key: "k", Value: []byte("v"), Lease: 1 << 62}}, Deletes: []string{"a", "b"}},
	} {
		sent := &pb.TxnRequest{}
		for _, c := range txn.Compares {
			sent.Compare = append(sent.Compare, &pb.Compare{
				Result: pb.Compare_LESS, Target: pb.Compare_MOD, Key: []byte(c.Key),
				TargetUnion: &pb.Compare_ModRevision{ModRevision: 1 << 62},
			})
			sent.Failure = append(sent.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: []byte(c.Key)},
			}})
		}
		for _, p := range txn.Puts {
			sent.Success = append(sent.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
				RequestPut: &pb.PutRequest{Key: []byte(p.Key), Value: p.Value, Lease: p.Lease},
			}})
		}
		for _, key := range txn.Deletes {
			sent.Success = append(sent.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
			}})
		}
		if size := proto.Size(sent); size > txn.Bytes() {
			t.Errorf("%d bytes are sent for a transaction of %d", size, txn.Bytes())
		}
	}
}

// refusing is a client that does not send, or a server that does not read, a request that is too large.
type refusing struct {
	clientv3.KV
	err error
}

type refusingTxn struct {
	clientv3.Txn
	err error
}

func (r refusing) Txn(ctx context.Context) clientv3.Txn { return refusingTxn{r.KV.Txn(ctx), r.err} }

func (r refusingTxn) If(...clientv3.Cmp) clientv3.Txn  { return r }
func (r refusingTxn) Then(...clientv3.Op) clientv3.Txn { return r }
func (r refusingTxn) Else(...clientv3.Op) clientv3.Txn { return r }

func (r refusingTxn) Commit() (*clientv3.TxnResponse, error) { return nil, r.err }

// A request that the client does not send has not been carried out. Another answer with the same code proves
// nothing of the kind.
func TestClientThatSendsLess(t *testing.T) {
	s := start(t, true)
	put := ledger.Txn{Puts: []ledger.Put{{Key: "k"}}}
	for message, certain := range map[string]bool{
		"trying to send message larger than max (3145728 vs. 2097152)":     true,
		"grpc: received message larger than max (3145728 vs. 2097152)":     true,
		"etcdserver: mvcc: database space exceeded":                        false,
		"etcdserver: too many requests":                                    false,
		"grpc: the connection has used up what it may, whatever it may be": false,
	} {
		_, err := s.openWith(t, refusing{s.kv, status.Error(codes.ResourceExhausted, message)}).Commit(t.Context(), put)
		var refused *ledger.TxnError
		if got := errors.As(err, &refused) && refused.TooLarge; got != certain || err == nil {
			t.Errorf("%s: got error %v, want a certain refusal: %v", message, err, certain)
		}
	}
}
