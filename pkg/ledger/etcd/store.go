package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/adaptivetimeout"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

const (
	// requestTimeout bounds one request whose caller set no deadline. The server answers or gives up within 5 s and
	// two election timeouts; a later answer is lost anyway.
	requestTimeout = 10 * time.Second
	// firstPatience is how long a request waits for an answer at first. A server takes milliseconds. But a request
	// that was on its way to a leader that died, or to a server that hangs, is not answered at all, and etcd gives
	// up on it only after 5 s and two elections. A new leader is elected after one or two seconds, and would have
	// answered by then.
	firstPatience = 2500 * time.Millisecond
	// keepAliveTime and keepAliveTimeout find a dead connection where lookout does not. A server refuses pings more
	// often than every 5 s, and the client does not send them more often than every 10 s. keepAliveTimeout is also
	// how long the kernel waits for the peer to acknowledge what was sent.
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
	// probeInterval spaces Open's attempts to get an answer.
	probeInterval = 200 * time.Millisecond
	// maxSends is how often one Commit sends its transaction. A second time is needed only if keys that must not exist
	// were created when it failed, and deleted again when that was read.
	maxSends = 3
	// listPage is how many keys one page of a List holds, to limit single answers of a shared server to a few MiB.
	listPage = 5000
	// closingTimeout bounds the attempt to inform the other members that the store was replaced or went back.
	closingTimeout = 5 * time.Second
)

// Store implements ledger.Store and ledger.Elections. Safe for concurrent use.
type Store struct {
	client   *clientv3.Client
	patience *adaptivetimeout.Timeout
	// lookout is nil where there is only one server.
	lookout    *lookout
	continuity continuity
	// identified reports whether the client presents a certificate to the server.
	identified bool
}

var (
	_ ledger.Store     = (*Store)(nil)
	_ ledger.Elections = (*Store)(nil)
)

// Open connects, and returns once a server has answered a linearizable read. An error names the invalid field, the
// endpoints that did not answer, or the server that is older than OldestServer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithFilter(traced)))}
	lookout := newLookout(cfg.Endpoints, tlsConfig, cfg.OnSilence)
	if lookout != nil {
		options = append(options, grpc.WithContextDialer(lookout.dial))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  tlsConfig,
		DialTimeout:          cfg.DialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               cfg.Logger,
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: endpoints %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	if cfg.KV != nil {
		client.KV = cfg.KV
	}
	client.KV = namespace.NewKV(client.KV, cfg.Prefix)
	client.Watcher = namespace.NewWatcher(client.Watcher, cfg.Prefix)
	client.Lease = namespace.NewLease(client.Lease, cfg.Prefix)
	s := &Store{client: client, lookout: lookout, patience: adaptivetimeout.New(firstPatience, requestTimeout)}
	s.identified = tlsConfig != nil && (len(tlsConfig.Certificates) > 0 || tlsConfig.GetClientCertificate != nil)
	if lookout != nil { // until Close, and independent of the caller's context
		lookout.run(context.WithoutCancel(ctx), client.ActiveConnection().ResetConnectBackoff)
	}
	err = s.probe(ctx, cfg)
	if err == nil {
		err = checkVersions(ctx, cfg.Endpoints, client.Dial)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// traced keeps the streams that live as long as the process out of the traces: their spans would never end.
func traced(info *stats.RPCTagInfo) bool {
	return !strings.HasSuffix(info.FullMethodName, "/Watch") &&
		!strings.HasSuffix(info.FullMethodName, "/LeaseKeepAlive")
}

// probe waits for the first answer; connecting itself never blocks and never fails.
func (s *Store) probe(ctx context.Context, cfg Config) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, probeInterval, cfg.DialTimeout, true,
		func(ctx context.Context) (bool, error) {
			_, last = s.client.Get(ctx, identity.KeyCluster)
			return last == nil, nil
		})
	if err == nil {
		return nil
	}
	return fmt.Errorf("etcd: no answer from %s within %s: %w", strings.Join(cfg.Endpoints, ", "), cfg.DialTimeout,
		errors.Join(err, last))
}

// Close ends the connection; running watches end, sessions are no longer kept alive.
func (s *Store) Close() error {
	var err error
	if s.lookout != nil {
		err = s.lookout.stop()
	}
	if closed := s.client.Close(); !errors.Is(closed, context.Canceled) {
		err = errors.Join(err, closed)
	}
	if err != nil {
		return fmt.Errorf("etcd: close: %w", err)
	}
	return nil
}

// Commit implements ledger.Store. A transaction that succeeds, as most do, carries no reads for the case that it fails:
// they would be a third of its request and of etcd's log. A transaction that fails is followed by a read of all
// compared keys at one revision. If one of the compares does not hold at that revision either, the answer is the one
// that the transaction would have given there. If all of them hold again (keys that must not exist were created and
// deleted in between), the transaction is sent again.
func (s *Store) Commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	if err := t.Validate(); err != nil {
		return ledger.TxnResult{}, err
	}
	for range maxSends {
		resp, err := s.txn(ctx, compares(t), writes(t))
		if err != nil {
			return ledger.TxnResult{}, commitError(err)
		}
		if resp.Succeeded {
			return ledger.TxnResult{Succeeded: true, Revision: resp.Header.GetRevision()}, nil
		}
		if resp, err = s.txn(ctx, nil, reads(t)); err != nil {
			return ledger.TxnResult{}, commitError(fmt.Errorf("read what it compared: %w", err))
		}
		r := ledger.TxnResult{Revision: resp.Header.GetRevision()}
		for _, each := range resp.Responses {
			for _, kv := range each.GetResponseRange().GetKvs() {
				r.Current = append(r.Current, toKV(kv))
			}
		}
		if fails(t, r) {
			return r, nil
		}
	}
	return ledger.TxnResult{}, fmt.Errorf("etcd: a transaction failed %d times, each time on what had changed back when "+
		"it was read", maxSends)
}

// txn sends one request and checks that the answer is from the same store.
func (s *Store) txn(ctx context.Context, compares []clientv3.Cmp, then []clientv3.Op) (*clientv3.TxnResponse, error) {
	seen, err := s.continuity.requiredRevision()
	if err != nil {
		return nil, err
	}
	limit := s.patience.Limit()
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
	defer cancel()
	resp, err := s.client.Txn(ctx).If(compares...).Then(then...).Commit()
	s.patience.Observe(ctx, limit, err)
	if err != nil {
		return nil, err
	}
	return resp, s.checkAnswer(resp.Header, seen)
}

// fails reports whether a compare of the transaction does not hold for the present values of all compared keys.
func fails(t ledger.Txn, r ledger.TxnResult) bool {
	return slices.ContainsFunc(t.Compares, func(c ledger.Compare) bool {
		kv := r.ValueOf(c.Key)
		if c.Target == ledger.CreateRevision {
			return kv.CreateRevision != c.Revision
		}
		return kv.ModRevision != c.Revision
	})
}

// compares returns the transaction's conditions. A compared revision of 0 means that the key does not exist, in etcd
// as in package ledger.
func compares(t ledger.Txn) []clientv3.Cmp {
	out := make([]clientv3.Cmp, 0, len(t.Compares))
	for _, c := range t.Compares {
		target := clientv3.ModRevision(c.Key)
		if c.Target == ledger.CreateRevision {
			target = clientv3.CreateRevision(c.Key)
		}
		out = append(out, clientv3.Compare(target, "=", c.Revision))
	}
	return out
}

// writes returns the puts and deletes, which etcd applies at one revision.
func writes(t ledger.Txn) []clientv3.Op {
	out := make([]clientv3.Op, 0, len(t.Puts)+len(t.Deletes))
	for _, p := range t.Puts {
		out = append(out, clientv3.OpPut(p.Key, string(p.Value), clientv3.WithLease(clientv3.LeaseID(p.Lease))))
	}
	for _, key := range t.Deletes {
		out = append(out, clientv3.OpDelete(key))
	}
	return out
}

// reads returns reads of all compared keys, for a transaction that fails.
func reads(t ledger.Txn) []clientv3.Op {
	keys := t.Compared()
	out := make([]clientv3.Op, 0, len(keys))
	for _, key := range keys {
		out = append(out, clientv3.OpGet(key))
	}
	return out
}

// refused are the errors that a server returns before it changes anything. With any other error the transaction may
// have been applied: a proposal can commit after its waiter was sent away.
var refused = []error{
	rpctypes.ErrEmptyKey, rpctypes.ErrDuplicateKey,
	rpctypes.ErrLeaseNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty,
}

// isTooLarge reports whether a request was refused for its size. One of three may refuse it: a server that is
// configured to accept less than ledger.MaxTxnBytes (--max-request-bytes, --max-txn-ops), which then has not
// examined it; a server that does not even read it, because it exceeds that by more than 512 KiB; or the client,
// which has not sent it. (gRPC has no error type for the latter two, and the client does not limit the size of
// answers.)
func isTooLarge(err error) bool {
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || errors.Is(err, rpctypes.ErrTooManyOps) {
		return true
	}
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// commitError returns *ledger.TxnError for an error after which nothing has changed for certain, else an error that
// leaves the outcome open. *ledger.StoreReplacedError remains as it is.
func commitError(err error) error {
	var replaced *ledger.StoreReplacedError
	if errors.As(err, &replaced) {
		return replaced
	}
	if isTooLarge(err) {
		return &ledger.TxnError{TooLarge: true, Reason: err.Error()}
	}
	for _, r := range refused {
		if errors.Is(err, r) {
			return &ledger.TxnError{Reason: err.Error()}
		}
	}
	return fmt.Errorf("etcd: commit, outcome unknown: %w", err)
}

// List implements ledger.Store. It reads pages at one revision, which the first page, a linearizable read,
// determines.
func (s *Store) List(ctx context.Context, prefix string) ([]ledger.KV, int64, error) {
	var out []ledger.KV
	var revision int64
	key, opts := prefix, []clientv3.OpOption{clientv3.WithPrefix()}
	for {
		resp, err := s.page(ctx, key, append(opts, clientv3.WithLimit(listPage), clientv3.WithRev(revision)))
		if err != nil {
			return nil, 0, fmt.Errorf("etcd: list %q: %w", prefix, mapCompacted(err))
		}
		if revision == 0 {
			revision = resp.Header.GetRevision()
		}
		for _, kv := range resp.Kvs {
			out = append(out, toKV(kv))
		}
		if !resp.More {
			s.continuity.observeList(out, revision)
			return out, revision, nil
		}
		key = out[len(out)-1].Key + "\x00"
		opts = []clientv3.OpOption{clientv3.WithRange(rangeEnd(prefix))}
	}
}

// page reads keys with a linearizable request, unless opts name a revision, and checks that the answer is from the same
// store.
func (s *Store) page(ctx context.Context, key string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	seen, err := s.continuity.requiredRevision()
	if err != nil {
		return nil, err
	}
	limit := s.patience.Limit()
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
	defer cancel()
	resp, err := s.client.Get(ctx, key, opts...)
	s.patience.Observe(ctx, limit, err)
	if err != nil {
		return nil, err
	}
	return resp, s.checkAnswer(resp.Header, seen)
}

// checkAnswer checks an answer, and informs the other members if it is the first that reveals a difference.
func (s *Store) checkAnswer(h *pb.ResponseHeader, seen int64) error {
	first, err := s.continuity.checkHeader(h, seen)
	if first {
		s.closeGeneration(err)
	}
	return err
}

// closeGeneration closes the ledger's generation. Members that start later cannot detect that the store went back;
// without the mark they would consider it unchanged. It is only an attempt: if it fails, the next member that notices
// repeats it.
func (s *Store) closeGeneration(cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout) //nolint:background // no caller waits for it
	defer cancel()
	resp, err := s.client.Get(ctx, identity.KeyGeneration)
	if err != nil {
		return
	}
	var now identity.Generation
	for _, kv := range resp.Kvs {
		if now, err = identity.DecodeGeneration(toKV(kv)); err != nil {
			now = identity.Generation{Revision: kv.GetModRevision()}
		}
	}
	if known := s.continuity.knownGeneration(); now.Revision != 0 && (!now.Open || known > 0 && now.Number > known) {
		return // another member has noticed before, and has closed it, or a later generation has begun
	}
	txn, err := now.Doubt(cause.Error())
	if err != nil {
		return
	}
	// If the transaction fails, another member has closed the generation already, or opened the next one.
	_, _ = s.client.Txn(ctx).If(compares(txn)...).Then(writes(txn)...).Commit()
}

// rangeEnd returns the end of all keys under prefix; the empty prefix covers all existing keys.
func rangeEnd(prefix string) string {
	if prefix == "" {
		return "\x00"
	}
	return clientv3.GetPrefixRangeEnd(prefix)
}

func toKV(kv *mvccpb.KeyValue) ledger.KV {
	return ledger.KV{
		Key: string(kv.GetKey()), Value: kv.GetValue(),
		CreateRevision: kv.GetCreateRevision(), ModRevision: kv.GetModRevision(), Lease: kv.GetLease(),
	}
}

// mapCompacted returns ledger.ErrCompacted for etcd's error of that meaning, and other errors as they are.
func mapCompacted(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return ledger.ErrCompacted
	}
	return err
}
