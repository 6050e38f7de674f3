package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

const (
	// drainTimeout is the default bound of a hand-over, which usually takes moments.
	drainTimeout = time.Minute
	// drainPoll is how often the ledger is checked during the hand-over.
	drainPoll = 200 * time.Millisecond
	// drainBatch is how many partitions one transaction requests: etcd accepts 128 operations.
	drainBatch = 100
)

// newDrainShardCommand returns the command `berth drain-shard`. It writes requests to the ledger and then reads it
// until they were followed, usually within seconds. It needs write access to the keys of requested owners.
//
// The exit code is 1 if the shard is unknown or the only one, and if it still has partitions after --timeout; the
// requests stay in the ledger then, and are followed later.
func newDrainShardCommand() *cobra.Command {
	o := &options{}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain-shard ID",
		Short: "Hand over all work of a scheduler shard to the others",
		Long: "Requests in the ledger that every partition of a shard moves to another shard, and waits for the hand-\n" +
			"over. Other shards take over the pods that the shard is trying; pods that it has reserved are bound. The\n" +
			"shard stays idle until the load is rebalanced, at least ten minutes later: stop or inspect it before. A\n" +
			"shard that is stopped hands over by itself, so this command is for a shard that keeps running.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.drainShard(cmd.Context(), cmd.OutOrStdout(), args[0], timeout)
		},
	}
	o.addEtcd(cmd.Flags())
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "", "`directory` of a running berth up with an embedded ledger")
	cmd.Flags().DurationVar(&timeout, "timeout", drainTimeout, "how long to wait for the hand-over, e.g. 30s")
	return cmd
}

// drainShard requests a new owner for each partition of a shard, in transactions of drainBatch, and waits until it
// owns none. The shard itself gives the partitions up when it sees the request; if it is dead, its lease ends and the
// others take them anyway. A crash of the command in between leaves some partitions requested, which does no harm: it
// can be repeated.
func (o *options) drainShard(ctx context.Context, w io.Writer, id string, timeout time.Duration) error {
	store, err := o.openLedger(ctx)
	if err != nil {
		return err
	}
	if store == nil {
		return errors.New("--etcd-endpoints: not set: want the endpoints of the ledger, or --data-dir")
	}
	defer func() { _ = store.Close() }() // only the connection
	// The plan is made from one look at the ledger; partitions that move meanwhile are requested nevertheless, and end
	// up where the plan says.
	owned, err := partitionsByShard(ctx, store)
	if err != nil {
		return err
	}
	moves, err := drainMoves(owned, id)
	if err != nil {
		return err
	}
	// The requests are in several transactions. They need not be atomic: each moves its partitions alone.
	for part := range slices.Chunk(slices.Sorted(maps.Keys(moves)), drainBatch) {
		batch := map[int32]string{}
		for _, p := range part {
			batch[p] = moves[p]
		}
		// The transaction compares nothing: a request is a hint that the owner follows when it is next free to.
		txn, err := roster.WantPartitions(batch)
		if err != nil {
			return err
		}
		if _, err := store.Commit(ctx, txn); err != nil {
			return err
		}
	}
	// left is kept for the error: a drain that takes too long has usually handed over most partitions.
	left := len(moves)
	err = wait.PollUntilContextTimeout(ctx, drainPoll, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := partitionsByShard(ctx, store)
		left = len(now[id])
		return left == 0, err
	})
	if err != nil {
		return fmt.Errorf("drain-shard: %s still has %d of %d partitions: %w", id, left, len(moves), err)
	}
	_, err = fmt.Fprintf(w, "%s handed over %d partitions\n", id, len(moves))
	return err
}

// partitionsByShard returns the partitions of each shard; live shards without a partition are included, dead ones that
// still own some as well. Its two lists are of two moments, which the callers tolerate: they poll.
func partitionsByShard(ctx context.Context, store *etcd.Store) (map[string][]int32, error) {
	owned := map[string][]int32{}
	members, _, err := store.List(ctx, roster.PrefixMember+"scheduler/")
	if err != nil {
		return nil, err
	}
	// Live shards first, so that one without partitions can be given some.
	for _, kv := range members {
		owned[strings.TrimPrefix(kv.Key, roster.PrefixMember+"scheduler/")] = nil
	}
	owners, _, err := store.List(ctx, roster.PrefixOwn)
	if err != nil {
		return nil, err
	}
	for _, kv := range owners {
		p, ok := roster.ParseOwn(kv.Key)
		owner, err := roster.DecodeOwner(kv.Value)
		if err != nil || !ok {
			return nil, fmt.Errorf("drain-shard: ledger key %s: want an owner: %w", kv.Key, err)
		}
		owned[owner.Member] = append(owned[owner.Member], p)
	}
	return owned, nil
}

// drainMoves assigns each partition of a shard to the other shard that then has the fewest. It refuses an id that is
// no live shard, and the only shard. Pure: equal inputs give equal moves.
func drainMoves(owned map[string][]int32, id string) (map[int32]string, error) {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(owned)), func(other string) bool { return other == id })
	if _, ok := owned[id]; !ok {
		return nil, fmt.Errorf("drain-shard: %q: no such shard; there are: %s", id, strings.Join(others, ", "))
	}
	if len(others) == 0 {
		return nil, fmt.Errorf("drain-shard: %s is the only shard: no other shard can take its %d partitions",
			id, len(owned[id]))
	}
	// Each partition goes to the shard that then has the fewest; equal shards are taken in the order of their names.
	count := map[string]int{}
	for _, other := range others {
		count[other] = len(owned[other])
	}
	moves := map[int32]string{}
	for _, p := range slices.Sorted(slices.Values(owned[id])) {
		to := slices.MinFunc(others, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
		moves[p] = to
		count[to]++
	}
	return moves, nil
}
