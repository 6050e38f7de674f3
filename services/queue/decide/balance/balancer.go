package balance

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// checkEvery is the time between two checks.
	checkEvery = time.Second
	// busyAfter is how long shards must have been idle and busy. silentAfter is how long a shard that requests no work
	// may keep pods waiting: it may be reading the facts.
	busyAfter   = 5 * time.Second
	silentAfter = 15 * time.Second
	// settleTime is the wait after a round that moved something. handoverTime is the longest wait for the requested
	// owners to take over.
	settleTime   = 5 * time.Second
	handoverTime = 30 * time.Second
	holdTime     = 5 * time.Minute
	// EvenAfter is how long no shard must have had much to do before requests are withdrawn.
	EvenAfter = 10 * time.Minute
	// GoneAfter is how long a member that a request names may be absent.
	GoneAfter = time.Minute
	// MaxMoves is the largest number of partitions that one round moves. shareMoved is the fraction of its partitions
	// that a working shard loses at once: a backlog does not measure the arrival rate, so half of the backlog may be
	// far more than half of the load.
	MaxMoves   = 32
	shareMoved = 8
	// busyWindows is how many of its windows must be waiting for a shard to count as busy. Fewer pods are handed out
	// before anything could have moved.
	busyWindows = 2
)

// Reason is the reason for requesting another owner for a partition. The set is closed.
type Reason string

// These are the reasons.
const (
	// ReasonBacklog means that the holder has a backlog and another shard is idle.
	ReasonBacklog Reason = "backlog"
	// ReasonSilent means that the partition's pods wait for a holder that requests no work.
	ReasonSilent Reason = "silent"
	// ReasonGone means that the member named for the partition is gone.
	ReasonGone Reason = "gone"
	// ReasonEven means that there has been no backlog for long.
	ReasonEven Reason = "even"
)

// Move is one partition that should change hands.
type Move struct {
	Partition int32
	// From holds it ("" for none). To should hold it; an empty To leaves that to the hash.
	From, To string
	Reason   Reason
	// Pods counts the pods of the partition that may be offered now.
	Pods int
}

// Load is the load of the shards, as seen in one check.
type Load struct {
	Shards []Shard
	// Owners names the holder of each partition, "" for none.
	Owners *[ledger.Partitions]string
	// Waiting counts the pods of a partition that may be offered now.
	Waiting func(partition int32) int
}

// Shard is the state of one shard in one check.
type Shard struct {
	ID string
	// Window is how many pods the shard wants at once, Leased how many it has, and Pods how many wait for it.
	Window, Leased, Pods int
	// Responsive means that the shard has requested work and has not missed its heartbeats since.
	Responsive bool
	Partitions []int32
	// Pinned is a partition that must not move; -1 for none.
	Pinned int32
	// Record is the balancer's memory of the shard from one check to the next.
	Record *Record
}

// Record is the balancer's memory of a shard. The zero value is the record of a new shard.
type Record struct {
	// idleSince and busySince are zero while the shard is not idle or busy. lastGave and lastGot are when a partition was
	// last moved away from the shard and to it.
	idleSince, busySince, lastGave, lastGot time.Time
}

// Balancer tracks the requested owners of partitions, and the changes that the queue has made because of the load. It
// is for one goroutine.
type Balancer struct {
	began time.Time
	// requested is the owner that the ledger requests for each partition. changed is when that last changed, or was first
	// seen.
	requested [ledger.Partitions]string
	changed   [ledger.Partitions]time.Time
	// members are the live shards, nil until the ledger has been read. absent is since when a wanted member has not
	// been one of them.
	members map[string]bool
	absent  map[string]time.Time
	// sent is when moves were decided that the ledger does not show yet; zero for none.
	sent time.Time
	// checked is the time of the last check, busy when some shard last had much to do, and pausedUntil until
	// when nothing moves.
	checked, busy, pausedUntil time.Time
}

// Begin records when the queue began to work.
func (b *Balancer) Begin(at time.Time) { b.began = at }

// Requested records the owners that the ledger requests for partitions; nil if unchanged.
func (b *Balancer) Requested(wanted *[ledger.Partitions]string, now time.Time) {
	if wanted == nil {
		return
	}
	for p, member := range wanted {
		if b.requested[p] != member {
			b.requested[p] = member
			b.changed[p] = now
			b.sent = time.Time{}
		}
	}
}

// Alive records the live shards; nil if unchanged.
func (b *Balancer) Alive(shards []string) {
	if shards == nil {
		return
	}
	b.members = make(map[string]bool, len(shards))
	for _, id := range shards {
		b.members[id] = true
	}
}

// Requests reports whether the ledger requests another owner for any partition.
func (b *Balancer) Requests() bool { return b.requested != [ledger.Partitions]string{} }

// NextCheck returns when the load must be checked next.
func (b *Balancer) NextCheck(now time.Time) time.Time {
	last := b.checked
	if last.IsZero() {
		last = b.began
	}
	if next := last.Add(checkEvery); next.After(now) {
		return next
	}
	return now
}

// Moves checks the load and returns the partitions that should move. It must be called at NextCheck while pods wait or
// the ledger has requests.
func (b *Balancer) Moves(load Load, now time.Time) []Move {
	// Between checks that are far apart, anything may have happened.
	fresh := b.checked.IsZero() || now.After(b.checked.Add(2*checkEvery))
	b.checked = now
	for _, s := range load.Shards {
		s.observe(fresh, now)
		if s.works() || fresh {
			b.busy = now
		}
	}
	b.observeAbsent(now)
	if now.Before(b.pausedUntil) || b.handingOver(load.Owners, now) {
		return nil
	}
	moves := b.withdrawals(load, now)
	if len(moves) == 0 {
		moves = b.relieve(load, now)
	}
	if len(moves) > 0 {
		b.sent, b.pausedUntil = now, now.Add(settleTime)
	}
	return moves
}

// observeAbsent records since when wanted members have been absent.
func (b *Balancer) observeAbsent(now time.Time) {
	absent := map[string]time.Time{}
	for _, member := range b.requested {
		if member == "" || b.members == nil || b.members[member] {
			continue
		}
		if absent[member] = b.absent[member]; absent[member].IsZero() {
			absent[member] = now
		}
	}
	b.absent = absent
}

// works reports whether a shard has pods waiting, or more than half of its window leased.
func (s Shard) works() bool { return s.Pods > 0 || 2*s.Leased > max(s.Window, 1) }

// observe records since when a shard has been idle or busy. A shard that requests no work is busy with any pod.
func (s Shard) observe(fresh bool, now time.Time) {
	busy := s.Pods > 0
	if s.Responsive {
		busy = s.Pods >= busyWindows*s.Window
	}
	idle := s.Responsive && !s.works()
	for _, state := range []struct {
		is    bool
		since *time.Time
	}{{busy, &s.Record.busySince}, {idle, &s.Record.idleSince}} {
		switch {
		case !state.is:
			*state.since = time.Time{}
		case fresh || state.since.IsZero():
			*state.since = now
		}
	}
}

// handingOver reports whether a requested owner has not taken over yet, and still may.
func (b *Balancer) handingOver(owners *[ledger.Partitions]string, now time.Time) bool {
	if !b.sent.IsZero() && b.sent.Add(handoverTime).After(now) {
		return true
	}
	for p, member := range b.requested {
		if b.members[member] && owners[p] != member && b.changed[p].Add(handoverTime).After(now) {
			return true
		}
	}
	return false
}

// lasted reports whether a state that began at since has lasted for d.
func lasted(since time.Time, d time.Duration, now time.Time) bool {
	return !since.IsZero() && !since.Add(d).After(now)
}

func recently(then, now time.Time) bool { return !then.IsZero() && then.Add(holdTime).After(now) }
