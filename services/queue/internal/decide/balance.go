package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// The hash gives the shards equal shares of the partitions, and so on average equal shares of the pods. Sometimes the
// shares are uneven, or a shard is slower than others, or hangs. If one shard is idle while another has a backlog,
// the queue requests some of the busy shard's partitions for the idle one: it records that in the ledger, and the
// shards hand over. Whole partitions move, so pods that share a partition stay together.
//
// Nothing moves for a transient imbalance, and nothing oscillates. One shard must have been idle, and the other busy,
// without a break for balanceAfter. A move must leave the busy shard at least as much as the idle one then has. After
// a round that moved anything, the next round waits until the effect shows. For balanceHold, a shard that has gained
// a partition gives none away unless it hangs, and a shard that has given one away gains none. A request is withdrawn
// when the member named in it is gone, and when no shard has had much to do for balanceEven; the latter waits that
// long because the lack of a backlog may be due to the moves.
const (
	// balanceEvery is the time between two checks.
	balanceEvery = time.Second
	// balanceAfter is how long shards must have been idle and busy. silentAfter is how long a shard that requests no
	// work may keep pods waiting: it may be reading the facts.
	balanceAfter = 5 * time.Second
	silentAfter  = 15 * time.Second
	// balanceSettle is the wait after a round that moved something. balanceHandover is the longest wait for the
	// requested owners to take over.
	balanceSettle   = 5 * time.Second
	balanceHandover = 30 * time.Second
	balanceHold     = 5 * time.Minute
	balanceEven     = 10 * time.Minute
	// balanceGone is how long a member that a request names may be absent.
	balanceGone = time.Minute
	// balanceBatch is the largest number of partitions that one round moves. balanceShare is the fraction of its
	// partitions that a working shard loses at once: a backlog does not measure the arrival rate, so half of the
	// backlog may be far more than half of the load.
	balanceBatch = 32
	balanceShare = 8
	// busyWindows is how many of its windows must be waiting for a shard to count as busy. Fewer pods are handed out
	// before anything could have moved.
	busyWindows = 2
)

// partitionOf returns the partition of a pod: that of its group, if it has one. It never changes.
func partitionOf(p *state.Pod) int32 {
	if g := p.Group(); g != "" {
		return ledger.PartitionOf(g)
	}
	return ledger.PartitionOf(p.UID)
}

// MoveReason is the reason for requesting another owner for a partition. The set is closed.
type MoveReason string

// These are the reasons.
const (
	// MoveBacklog means that the holder has a backlog and another shard is idle.
	MoveBacklog MoveReason = "backlog"
	// MoveSilent means that the partition's pods wait for a holder that requests no work.
	MoveSilent MoveReason = "silent"
	// MoveGone means that the member named for the partition is gone.
	MoveGone MoveReason = "gone"
	// MoveEven means that there has been no backlog for long.
	MoveEven MoveReason = "even"
)

// Move is one partition that should change hands.
type Move struct {
	Partition int32
	// From holds it ("" for none). To should hold it; an empty To leaves that to the hash.
	From, To string
	Reason   MoveReason
	// Pods counts the pods of the partition that may be offered now.
	Pods int
}

// balance is what the queue knows of the load and what it has done about it.
type balance struct {
	// wanted is the owner that the ledger requests for each partition. changed is when that last changed, or was
	// first seen.
	wanted  [ledger.Partitions]string
	changed [ledger.Partitions]moment
	// members are the live shards, nil until the ledger has been read. absent is since when a wanted member has not
	// been one of them.
	members map[string]bool
	absent  map[string]moment
	// sent is when moves were decided that the ledger does not show yet; 0 for none.
	sent moment
	// looked is the time of the last check, astir when some shard last had much to do, and rest until when nothing
	// moves.
	looked, astir, rest moment
}

// load is the state of one shard in one check.
type load struct {
	*shard
	// pods counts the shard's pods that may be offered.
	pods int
	// asks means that the shard has requested work and has not missed its heartbeats since.
	asks bool
}

// told records what the ledger holds about requested owners and live shards.
func (b *balance) told(in *LedgerMoved, now moment) {
	if in.Wanted != nil {
		for p, member := range in.Wanted {
			if b.wanted[p] != member {
				b.wanted[p] = member
				b.changed[p] = now
				b.sent = 0
			}
		}
	}
	if in.Shards != nil {
		b.members = make(map[string]bool, len(in.Shards))
		for _, id := range in.Shards {
			b.members[id] = true
		}
	}
}

// miss records since when wanted members have been absent.
func (b *balance) miss(now moment) {
	absent := map[string]moment{}
	for _, member := range b.wanted {
		if member == "" || b.members == nil || b.members[member] {
			continue
		}
		if absent[member] = b.absent[member]; absent[member] == 0 {
			absent[member] = now
		}
	}
	b.absent = absent
}

// nextLook returns when the balance must be checked; 0 for never. It is checked while pods wait, or while a request
// may have to be withdrawn.
func (c *Core) nextLook() moment {
	idle := c.bags.activeCount == 0 && c.leases.balance.wanted == [ledger.Partitions]string{}
	if !c.leases.leading || !c.history.caughtUp || idle {
		return 0
	}
	return max(c.leases.balance.looked.add(balanceEvery), c.clock.now)
}

// rebalance checks the load, once in balanceEvery, and moves partitions if necessary.
func (c *Core) rebalance(now moment) {
	b := &c.leases.balance
	if next := c.nextLook(); next == 0 || next > now {
		return
	}
	// Between checks that are far apart, anything may have happened.
	fresh := b.looked == 0 || now > b.looked.add(2*balanceEvery)
	b.looked = now
	loads := c.loads()
	for _, l := range loads {
		l.note(fresh, now)
		if l.works() || fresh {
			b.astir = now
		}
	}
	b.miss(now)
	if now < b.rest || c.handingOver(now) {
		return
	}
	moves := c.takeBack(now)
	if len(moves) == 0 {
		moves = c.relieve(loads, now)
	}
	if len(moves) > 0 {
		b.sent, b.rest = now, now.add(balanceSettle)
		c.out.moves = moves
	}
}

func (c *Core) loads() []load {
	loads := make([]load, 0, len(c.leases.order))
	for _, s := range c.leases.order {
		l := load{shard: s, asks: s.window > 0 && !c.silent(s, c.clock.now)}
		for _, p := range s.partitions {
			l.pods += c.bags.active[p].Len()
		}
		loads = append(loads, l)
	}
	return loads
}

// works reports whether a shard has pods waiting, or more than half of its window leased.
func (l load) works() bool { return l.pods > 0 || 2*l.leased > max(l.window, 1) }

// note records since when a shard has been idle or busy. A shard that requests no work is busy with any pod.
func (l load) note(fresh bool, now moment) {
	busy := l.pods > 0
	if l.asks {
		busy = l.pods >= busyWindows*l.window
	}
	idle := l.asks && !l.works()
	for _, s := range []struct {
		is    bool
		since *moment
	}{{busy, &l.busySince}, {idle, &l.idleSince}} {
		switch {
		case !s.is:
			*s.since = 0
		case fresh || *s.since == 0:
			*s.since = now
		}
	}
}

// handingOver reports whether a requested owner has not taken over yet, and still may.
func (c *Core) handingOver(now moment) bool {
	b := &c.leases.balance
	if b.sent != 0 && b.sent.add(balanceHandover) > now {
		return true
	}
	for p, member := range b.wanted {
		if b.members[member] && c.world.owners[p] != member && b.changed[p].add(balanceHandover) > now {
			return true
		}
	}
	return false
}

// takeBack returns the requests to withdraw.
func (c *Core) takeBack(now moment) []Move {
	b := &c.leases.balance
	even := lasted(b.astir, balanceEven, now)
	var moves []Move
	for p, member := range b.wanted {
		since, absent := b.absent[member]
		gone := absent && since.add(balanceGone) <= now
		if member == "" || !gone && !even || len(moves) == balanceBatch {
			continue
		}
		m := Move{Partition: int32(p), From: c.world.owners[p], Reason: MoveEven, Pods: c.bags.active[p].Len()}
		if gone {
			m.Reason = MoveGone
		}
		moves = append(moves, m)
	}
	return moves
}

// relieve moves partitions from the shard with the largest backlog to idle shards.
func (c *Core) relieve(loads []load, now moment) []Move {
	var idle, busy []load
	for _, l := range loads {
		patience := balanceAfter
		if !l.asks {
			patience = silentAfter
		}
		switch {
		case lasted(l.idleSince, balanceAfter, now) && !recently(l.gave, now):
			idle = append(idle, l)
		case lasted(l.busySince, patience, now) && !(l.asks && recently(l.got, now)):
			busy = append(busy, l)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.SortStableFunc(busy, func(a, b load) int { return cmp.Compare(b.pods, a.pods) })
	for _, from := range busy {
		if moves := c.spread(from, idle, now); len(moves) > 0 {
			return moves
		}
	}
	return nil
}

// lasted reports whether a state that began at since has lasted for d.
func lasted(since moment, d time.Duration, now moment) bool { return since != 0 && since.add(d) <= now }

func recently(then, now moment) bool { return then != 0 && then.add(balanceHold) > now }

// spread moves partitions of one shard to others, the largest first, each to the shard with the fewest waiting pods.
// A move leaves the giver at least as many pods as the receiver then has, if the giver works at all.
func (c *Core) spread(from load, to []load, now moment) []Move {
	movable := slices.DeleteFunc(slices.Clone(from.partitions), func(p int32) bool {
		// A partition that is already requested for another shard is skipped: requesting it again would not help.
		asked := c.leases.balance.wanted[p] != "" && c.leases.balance.wanted[p] != from.id
		return asked || c.bags.active[p].Len() == 0 || from.alone != nil && from.alone.partition == p
	})
	slices.SortStableFunc(movable, func(p, q int32) int {
		return cmp.Compare(c.bags.active[q].Len(), c.bags.active[p].Len())
	})
	reason, most := MoveBacklog, min(max(len(from.partitions)/balanceShare, 1), balanceBatch)
	if !from.asks {
		reason, most = MoveSilent, balanceBatch
	}
	var moves []Move
	left, to := from.pods, slices.Clone(to)
	for _, p := range movable {
		if len(moves) == most {
			break
		}
		n := c.bags.active[p].Len()
		least := slices.MinFunc(to, func(a, b load) int { return cmp.Compare(a.pods, b.pods) })
		if reason == MoveBacklog && least.pods+n > left-n {
			continue
		}
		left -= n
		to[slices.Index(to, least)].pods += n
		moves = append(moves, Move{Partition: p, From: from.id, To: least.id, Reason: reason, Pods: n})
		from.gave, least.got = now, now
	}
	return moves
}

// Balance describes the load of the shards and the requested owners of partitions, for people.
func (c *Core) Balance() string {
	var out strings.Builder
	for _, l := range c.loads() {
		fmt.Fprintf(&out, "shard %s partitions=%d waiting=%d leased=%d window=%d",
			l.id, len(l.partitions), l.pods, l.leased, l.window)
		if l.busySince != 0 {
			fmt.Fprintf(&out, " busy for %s", time.Duration(c.clock.now-l.busySince))
		}
		if l.idleSince != 0 {
			fmt.Fprintf(&out, " idle for %s", time.Duration(c.clock.now-l.idleSince))
		}
		out.WriteByte('\n')
	}
	byMember := map[string][]string{}
	for p, member := range c.leases.balance.wanted {
		if member != "" {
			byMember[member] = append(byMember[member], fmt.Sprint(p))
		}
	}
	for _, member := range slices.Sorted(maps.Keys(byMember)) {
		fmt.Fprintf(&out, "wanted with %s: partitions %s\n", member, strings.Join(byMember[member], ", "))
	}
	return out.String()
}
