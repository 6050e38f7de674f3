package balance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// withdrawals returns the requests to withdraw.
func (b *Balancer) withdrawals(load Load, now time.Time) []Move {
	even := lasted(b.busy, EvenAfter, now)
	var moves []Move
	for p, member := range b.requested {
		gone := lasted(b.absent[member], GoneAfter, now)
		if member == "" || !gone && !even || len(moves) == MaxMoves {
			continue
		}
		m := Move{Partition: int32(p), From: load.Owners[p], Reason: ReasonEven, Pods: load.Waiting(int32(p))}
		if gone {
			m.Reason = ReasonGone
		}
		moves = append(moves, m)
	}
	return moves
}

// relieve moves partitions from the shard with the largest backlog to idle shards. If no partition of it can move to
// advantage, the shard with the next largest backlog is considered: the largest may consist of one partition that
// cannot be divided.
func (b *Balancer) relieve(load Load, now time.Time) []Move {
	var idle, busy []Shard
	for _, s := range load.Shards {
		patience := busyAfter
		if !s.Responsive {
			patience = silentAfter
		}
		switch {
		case lasted(s.Record.idleSince, busyAfter, now) && !recently(s.Record.lastGave, now):
			idle = append(idle, s)
		case lasted(s.Record.busySince, patience, now) && !(s.Responsive && recently(s.Record.lastGot, now)):
			busy = append(busy, s)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.SortStableFunc(busy, func(a, b Shard) int { return cmp.Compare(b.Pods, a.Pods) })
	for _, from := range busy {
		if moves := b.spread(from, idle, load.Waiting, now); len(moves) > 0 {
			return moves
		}
	}
	return nil
}

// spread moves partitions of one shard to others, the largest first, each to the shard with the fewest waiting pods.
// A move leaves the giver at least as many pods as the receiver then has, if the giver works at all.
func (b *Balancer) spread(from Shard, to []Shard, waiting func(int32) int, now time.Time) []Move {
	movable := slices.DeleteFunc(slices.Clone(from.Partitions), func(p int32) bool {
		// A partition that is already requested for another shard is skipped: requesting it again would not help.
		requested := b.requested[p] != "" && b.requested[p] != from.ID
		return requested || waiting(p) == 0 || from.Pinned == p
	})
	slices.SortStableFunc(movable, func(p, q int32) int { return cmp.Compare(waiting(q), waiting(p)) })
	reason, most := ReasonBacklog, min(max(len(from.Partitions)/shareMoved, 1), MaxMoves)
	if !from.Responsive {
		reason, most = ReasonSilent, MaxMoves
	}
	var moves []Move
	left, to := from.Pods, slices.Clone(to)
	for _, p := range movable {
		if len(moves) == most {
			break
		}
		n, least := waiting(p), fewestPods(to)
		if reason == ReasonBacklog && least.Pods+n > left-n {
			continue
		}
		left -= n
		least.Pods += n
		moves = append(moves, Move{Partition: p, From: from.ID, To: least.ID, Reason: reason, Pods: n})
		from.Record.lastGave, least.Record.lastGot = now, now
	}
	return moves
}

// fewestPods returns the first shard with the fewest waiting pods.
func fewestPods(shards []Shard) *Shard {
	least := &shards[0]
	for i := range shards {
		if shards[i].Pods < least.Pods {
			least = &shards[i]
		}
	}
	return least
}

// Describe describes the load of the shards and the requested owners of partitions, for people.
func (b *Balancer) Describe(shards []Shard, now time.Time) string {
	var out strings.Builder
	for _, s := range shards {
		fmt.Fprintf(&out, "shard %s partitions=%d waiting=%d leased=%d window=%d",
			s.ID, len(s.Partitions), s.Pods, s.Leased, s.Window)
		if since := s.Record.busySince; !since.IsZero() {
			fmt.Fprintf(&out, " busy for %s", now.Sub(since))
		}
		if since := s.Record.idleSince; !since.IsZero() {
			fmt.Fprintf(&out, " idle for %s", now.Sub(since))
		}
		out.WriteByte('\n')
	}
	byMember := map[string][]string{}
	for p, member := range b.requested {
		if member != "" {
			byMember[member] = append(byMember[member], fmt.Sprint(p))
		}
	}
	for _, member := range slices.Sorted(maps.Keys(byMember)) {
		fmt.Fprintf(&out, "wanted with %s: partitions %s\n", member, strings.Join(byMember[member], ", "))
	}
	return out.String()
}
