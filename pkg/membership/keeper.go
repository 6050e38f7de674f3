package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// settle is how long another shard must have been seen alive before partitions are released for it: a shard
	// that crashes while starting should not make partitions move twice.
	settle = 2 * time.Second
	// keeperInterval is how often the plan is evaluated without a new snapshot: for members that have settled, and
	// after errors.
	keeperInterval = time.Second
	// keeperGroup is the number of partitions that one transaction takes or releases; a member's whole share at
	// once would delay other transactions for no gain.
	keeperGroup = 64
)

// Keeper takes and releases partitions for a shard according to the plan. It only writes to the ledger: every
// process, this shard included, learns from the ledger's watch which partitions are held, and under which epoch.
type Keeper struct {
	store     ledger.Store
	member    *Member
	snapshots chan Snapshot

	// Used by Run's goroutine alone:
	snapshot Snapshot
	// written is the revision of this keeper's last write, or of the last value that it read: acting on an older
	// snapshot would repeat work.
	written int64
	// seen is when each live member was first seen.
	seen map[string]time.Time
}

// NewKeeper returns the keeper that holds partitions for member, on its sessions.
func NewKeeper(store ledger.Store, member *Member) *Keeper {
	return &Keeper{store: store, member: member, snapshots: make(chan Snapshot, 1), seen: map[string]time.Time{}}
}

// Observe gives the keeper a snapshot of the ledger; the newest one replaces those not yet read. It never blocks.
// It must be called from one goroutine only, that of the view.
func (k *Keeper) Observe(p Snapshot) {
	select {
	case <-k.snapshots:
	default:
	}
	k.snapshots <- p
}

// Run takes and releases partitions until ctx ends (it returns nil). Errors of the store are logged, and the plan
// is evaluated again.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(keeperInterval)
	defer tick.Stop()
	for {
		select {
		case k.snapshot = <-k.snapshots:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := k.step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			k.member.cfg.Log.WarnContext(ctx, "could not update partitions; retrying", telemetry.KeyError, err)
		}
	}
}

// step carries out the plan for the newest snapshot. Partitions are taken first: the pods of a vacant partition
// wait.
func (k *Keeper) step(ctx context.Context, now time.Time) error {
	if k.snapshot.Revision == 0 || k.snapshot.Revision < k.written {
		return nil
	}
	session, err := k.member.Alive(ctx)
	if err != nil {
		return err
	}
	// A vacant partition is taken at once by its owner among all live members. A held one is released only to a member
	// that has settled.
	settled := k.settled(now)
	take, _ := PlanPartitions(k.snapshot, k.snapshot.Members, k.member.ID())
	_, release := PlanPartitions(k.snapshot, settled, k.member.ID())
	return errors.Join(
		k.carryOut(ctx, take, func(p int32) (ledger.Txn, error) {
			return roster.TakePartition(p, roster.Owner{Member: k.member.ID()}, session.Lease())
		}),
		k.carryOut(ctx, release, func(p int32) (ledger.Txn, error) {
			return roster.ReleasePartition(p, k.snapshot.Holders[p].Epoch)
		}),
	)
}

// settled returns the members that this keeper has seen alive for at least settle.
func (k *Keeper) settled(now time.Time) []string {
	var out []string
	seen := make(map[string]time.Time, len(k.snapshot.Members))
	for _, m := range k.snapshot.Members {
		since, known := k.seen[m]
		if !known {
			since = now
		}
		seen[m] = since
		if now.Sub(since) >= settle {
			out = append(out, m)
		}
	}
	k.seen = seen
	return out
}

// carryOut runs one transaction per group of partitions. If a group fails, it is retried without the partitions
// whose guards failed (the next snapshot shows why).
func (k *Keeper) carryOut(ctx context.Context, partitions []int32, build func(int32) (ledger.Txn, error)) error {
	for group := range slices.Chunk(partitions, keeperGroup) {
		for len(group) > 0 {
			txn, err := merged(group, build)
			if err != nil {
				return err
			}
			r, err := k.store.Commit(ctx, txn)
			if err != nil {
				return fmt.Errorf("membership: partitions %v: %w", group, err)
			}
			if r.Succeeded {
				k.written = max(k.written, r.Revision)
				break
			}
			group = k.remaining(group, txn, r)
		}
	}
	return nil
}

// merged returns one transaction for a group of partitions, whose n-th compare belongs to the n-th partition.
func merged(group []int32, build func(int32) (ledger.Txn, error)) (ledger.Txn, error) {
	txns := make([]ledger.Txn, 0, len(group))
	for _, p := range group {
		txn, err := build(p)
		if err != nil {
			return ledger.Txn{}, err
		}
		txns = append(txns, txn)
	}
	return ledger.Merge(txns...)
}

// remaining returns group without the partitions whose epoch did not match; at least one is left out, because the
// transaction failed.
func (k *Keeper) remaining(group []int32, txn ledger.Txn, r ledger.TxnResult) []int32 {
	epochs := make(map[string]int64, len(r.Current))
	for _, kv := range r.Current {
		epochs[kv.Key] = kv.CreateRevision
		k.written = max(k.written, kv.ModRevision)
	}
	var rest []int32
	for i, p := range group {
		if epochs[roster.KeyOwn(p)] == txn.Compares[i].Revision {
			rest = append(rest, p)
		}
	}
	return rest
}
