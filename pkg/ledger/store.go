package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxTxnOps is the maximum number of compares, puts or reads in one Txn (etcd's default limit, which applies to
// each list separately).
const MaxTxnOps = 128

// CompareTarget selects which revision of a key a Compare looks at.
type CompareTarget uint8

const (
	// ModRevision: the revision that last changed the key; 0 when it does not exist.
	ModRevision CompareTarget = iota + 1
	// CreateRevision: the revision that created the key; 0 when it does not exist.
	CreateRevision
)

// Compare requires that a key's revision equals Revision.
type Compare struct {
	Key      string
	Target   CompareTarget
	Revision int64
}

// Put writes a key; with Lease 0 the key is attached to no lease.
type Put struct {
	Key   string
	Value []byte
	Lease int64
	// Doc is what Value was encoded from, nil if it is not the document of a node. Stores ignore it. It lets the
	// member that sends the transaction fold the document into its view without decoding it (Txn.Committed).
	Doc *StoredDoc
}

// Txn is a compare-and-set over any keys. If all Compares hold, all Puts and Deletes happen at one revision;
// otherwise none happens and the current values of all compared keys are returned. A Txn is a value: after an
// unknown outcome, the caller resubmits the identical Txn. Both copies compare the same revisions, so at most one
// can apply.
type Txn struct {
	Compares []Compare
	Puts     []Put
	Deletes  []string
}

// KV is one key as stored.
type KV struct {
	Key                         string
	Value                       []byte
	CreateRevision, ModRevision int64
	Lease                       int64
	// Doc is that of the Put, in what Txn.Committed returns; nil in what a store returns. It is a hint: a reader that
	// uses it checks that it belongs to Value.
	Doc *StoredDoc
}

// TxnResult is the outcome of a Txn.
type TxnResult struct {
	Succeeded bool
	// Revision is that of the store after the Txn; if it succeeded, it is the mod revision of every put.
	Revision int64
	// Current holds every compared key that exists, as of Revision, if the Txn did not succeed. At least one compare does
	// not hold for them.
	Current []KV
}

// Event is one change of one key. A Deleted event carries only the key and the revision.
type Event struct {
	KV
	Deleted bool
}

// EventBatch is one delivery of a watch: every event up to and including Revision. Events
// may be empty (progress).
type EventBatch struct {
	Revision int64
	Events   []Event
}

// Store carries out transactions. Its implementations are etcd and mem; both pass ledgertest. Keys are relative to
// the cluster's prefix, which the implementation adds. All methods are safe for concurrent use.
//
// A Store notices when the store behind the connection has been replaced by another one, or has gone back in time.
// Within seconds from then on, every call fails with *StoreReplacedError, and so do running watches.
type Store interface {
	// ID returns the identity of the store, never 0. Two stores may have the same identity by chance or by
	// configuration.
	ID(ctx context.Context) (uint64, error)
	// Commit runs t. An error other than *TxnError means the outcome is unknown.
	Commit(ctx context.Context, t Txn) (TxnResult, error)
	// List returns all keys under prefix, sorted, and the revision they were read at
	// (linearizable).
	List(ctx context.Context, prefix string) ([]KV, int64, error)
	// Watch delivers every change under prefix from revision from on, in order, in whole revisions only. The
	// revision from must be one that the store has reached, or the next one: a store that has not come that far has
	// gone back. The channel closes when ctx ends or the watch breaks; Err then explains why (ErrCompacted: list
	// again).
	Watch(ctx context.Context, prefix string, from int64) Watch
	// OpenSession creates a lease of ttl (whole seconds, at least 2 s) and keeps it alive
	// until Close.
	OpenSession(ctx context.Context, ttl time.Duration) (Session, error)
}

// MinSessionTTL is the shortest lease that a store grants: etcd's minimum is one and a half election timeouts,
// rounded up.
const MinSessionTTL = 2 * time.Second

// CheckTTL returns an error unless a store accepts ttl for a session.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinSessionTTL || ttl%time.Second != 0 {
		return fmt.Errorf("ledger: session TTL %s: want whole seconds, at least %s", ttl, MinSessionTTL)
	}
	return nil
}

// Watch is a running watch.
type Watch interface {
	Batches() <-chan EventBatch
	// Err is valid once Batches is closed; nil after a plain end of the context.
	Err() error
}

// Session is a lease that is kept alive.
type Session interface {
	Lease() int64
	// Done closes when the lease is lost: the keys attached to it have been deleted or soon will be.
	Done() <-chan struct{}
	// Close revokes the lease, which deletes the keys attached to it at once.
	Close(ctx context.Context) error
}

// Elections elects one leader per name among sessions. Implementations: etcd, mem.
type Elections interface {
	// Campaign blocks until s leads name, ctx ends, or s is lost. The term grows with every leadership of that
	// name, so it serves as a fencing token.
	Campaign(ctx context.Context, s Session, name, candidate string) (term int64, err error)
	// Resign gives the leadership up.
	Resign(ctx context.Context, s Session, name string) error
}

// ErrCompacted reports that the watch asked for revisions that have been compacted; list, then watch from there.
var ErrCompacted = errors.New("ledger: revision compacted")

// TxnError reports a Txn that was certainly not carried out, because it is malformed or the store refused it before
// trying.
type TxnError struct {
	Reason string
	// TooLarge reports that the Txn has too many operations or bytes, either for MaxTxnOps and MaxTxnBytes or for a
	// store that is configured to accept less. Parts of it may be accepted.
	TooLarge bool
}

func (e *TxnError) Error() string { return fmt.Sprintf("ledger: transaction refused: %s", e.Reason) }

// StoreReplacedError reports that the store is not the one that this member has worked with, or has gone back: another
// etcd cluster, or one that was wiped or restored. The member's knowledge of the ledger is unreliable, so the member
// has to start from scratch.
type StoreReplacedError struct {
	// Was and Now are the identities of the store, Seen a revision that it had reached, and Revision the one that
	// it is at now, where these revealed the difference.
	Was, Now       uint64
	Seen, Revision int64
	// Key is a key whose value differs from the one that was read; empty if there is none.
	Key string
}

func (e *StoreReplacedError) Error() string {
	switch {
	case e.Was != e.Now:
		return fmt.Sprintf("ledger: the store was replaced: its identity was %x and is now %x", e.Was, e.Now)
	case e.Key != "":
		return fmt.Sprintf("ledger: the store was restored to an older state: "+
			"key %s differs from what was read at revision %d", e.Key, e.Seen)
	}
	return fmt.Sprintf("ledger: the store was restored to an older state: "+
		"it had reached revision %d and is now at %d", e.Seen, e.Revision)
}
