package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxTxnOps is the most compares, puts or reads one Txn may hold (etcd's default limit,
// counted for each list apart).
const MaxTxnOps = 128

// CompareTarget says which revision of a key a Compare looks at.
type CompareTarget uint8

const (
	// ModRevision: the revision that last changed the key; 0 when it does not exist.
	ModRevision CompareTarget = iota + 1
	// CreateRevision: the revision that created the key; 0 when it does not exist.
	CreateRevision
)

// Compare demands that a key's revision equals Revision.
type Compare struct {
	Key      string
	Target   CompareTarget
	Revision int64
}

// Put writes a key; Lease 0 attaches it to none.
type Put struct {
	Key   string
	Value []byte
	Lease int64
}

// Txn is a compare-and-set over any keys: if all Compares hold, all Puts and Deletes
// happen at one revision, else nothing does and the current values of all compared keys
// come back. It is a value: resubmitting an identical Txn is the answer to an unknown
// outcome, because both copies compare the same revisions and at most one can apply.
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
}

// TxnResult is what a Txn did.
type TxnResult struct {
	Succeeded bool
	// Revision of the store after the Txn: the mod revision of every put when it succeeded.
	Revision int64
	// Current holds, when it did not succeed, every compared key that exists.
	Current []KV
}

// Event is one change of one key. Deleted events carry the key and the revision alone.
type Event struct {
	KV
	Deleted bool
}

// EventBatch is what a watch delivers: every event up to and including Revision. Events
// may be empty (progress).
type EventBatch struct {
	Revision int64
	Events   []Event
}

// Store carries out transactions. Implementations: etcd, mem; both pass ledgertest.
// Keys are relative to the cluster's prefix, which the implementation adds. All methods
// are safe for concurrent use.
//
// A Store notices when what it is connected to is another store, or went back: from then on every
// call fails with *AnewError, and so do running watches, within seconds.
type Store interface {
	// ID is the identity of the store, never 0. Two stores may have the same by chance or by their
	// configuration.
	ID(ctx context.Context) (uint64, error)
	// Commit runs t. An error other than *TxnError means the outcome is unknown.
	Commit(ctx context.Context, t Txn) (TxnResult, error)
	// List returns all keys under prefix, sorted, and the revision they were read at
	// (linearizable).
	List(ctx context.Context, prefix string) ([]KV, int64, error)
	// Watch delivers every change under prefix from revision from on, in order, whole
	// revisions only. from is a revision that the store has had, or the next one: a store that has not
	// come that far went back. The channel closes when ctx ends or the watch breaks; Err then says
	// why (ErrCompacted: list again).
	Watch(ctx context.Context, prefix string, from int64) Watch
	// OpenSession creates a lease of ttl (whole seconds, at least 2 s) and keeps it alive
	// until Close.
	OpenSession(ctx context.Context, ttl time.Duration) (Session, error)
}

// MinSessionTTL is the shortest lease a store grants: etcd's floor is one and a half
// election timeouts, rounded up.
const MinSessionTTL = 2 * time.Second

// CheckTTL says whether a store accepts ttl for a session.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinSessionTTL || ttl%time.Second != 0 {
		return fmt.Errorf("ledger: session ttl %s: whole seconds of at least %s are accepted", ttl, MinSessionTTL)
	}
	return nil
}

// Watch is a running watch.
type Watch interface {
	Batches() <-chan EventBatch
	// Err is valid once Batches is closed; nil after a plain end of the context.
	Err() error
}

// Session is a lease that is being kept alive.
type Session interface {
	Lease() int64
	// Done closes when the lease is lost: whatever was attached to it is gone or going.
	Done() <-chan struct{}
	// Close revokes the lease, which deletes the keys attached to it at once.
	Close(ctx context.Context) error
}

// Elections gives one leader per name among sessions. Implementations: etcd, mem.
type Elections interface {
	// Campaign blocks until s leads name, or ctx ends, or s is lost. Term grows with every
	// leadership of that name: it fences.
	Campaign(ctx context.Context, s Session, name, candidate string) (term int64, err error)
	// Resign gives the leadership up.
	Resign(ctx context.Context, s Session, name string) error
}

// ErrCompacted says that the watch asked for revisions that are gone; list, then watch from there.
var ErrCompacted = errors.New("ledger: revision compacted")

// TxnError reports a Txn that was surely not carried out, because it is malformed or the
// store refused it before trying.
type TxnError struct {
	Reason string
	// TooLarge: it has too many operations or bytes, for MaxTxnOps and MaxTxnBytes or for a store that is
	// set up to take less. Parts of it may do.
	TooLarge bool
}

func (e *TxnError) Error() string { return fmt.Sprintf("ledger: transaction refused: %s", e.Reason) }
