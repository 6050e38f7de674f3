package contention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/contention"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// course is the life of a meter: transactions that overlap or do not, lost races, and time.
type course struct {
	*contention.Meter
	now time.Time
	n   ledger.Token
}

func newCourse() *course { return &course{Meter: contention.New("a"), now: time.Unix(1000, 0)} }

// reserve makes a reservation of a shard show.
func (c *course) reserve(shard string) {
	c.n++
	c.FollowLedger(replica.Changes{Docs: []replica.DocChange{{After: ledger.NodeDoc{Entries: []ledger.Entry{{
		PodUID: fmt.Sprint(c.n), Role: ledger.RoleReservation, Token: c.n, Shard: shard,
	}}}}}})
}

// transact sends transactions one by one, during each of which the given shards reserve something.
func (c *course) transact(times int, meanwhile ...string) {
	for range times {
		c.Sent()
		for _, shard := range meanwhile {
			c.reserve(shard)
		}
		c.now = c.now.Add(2 * time.Millisecond)
		c.Answered(c.now)
	}
}

func (c *course) expect(t *testing.T, want bool, when string) {
	t.Helper()
	if c.Contended(0, c.now) != want {
		t.Errorf("contended %v %s, want %v", !want, when, want)
	}
}

// A shard that shares the cluster with others whose reservations never overlap with its own is calm.
func TestPodsOneByOneAreCalm(t *testing.T) {
	c := newCourse()
	c.expect(t, false, "at first")
	for range 200 {
		c.reserve("b")
		c.transact(1, "a")
		c.expect(t, false, "after reservations in turn")
	}
}

func TestOverlapsMakeAShardContended(t *testing.T) {
	c := newCourse()
	c.transact(3, "a", "b")
	c.expect(t, false, "after a few overlaps")
	c.transact(10, "a", "b")
	c.expect(t, true, "after many overlaps")
	c.transact(4)
	c.expect(t, true, "after a few transactions without one")
	c.transact(30)
	c.expect(t, false, "after many without one")
}

func TestLostRacesMakeAShardContended(t *testing.T) {
	c := newCourse()
	c.Lost(c.now)
	c.expect(t, false, "after one lost race")
	c.Lost(c.now)
	c.expect(t, true, "after two")
	c.now = c.now.Add(time.Second)
	c.expect(t, false, "after a second")
	c.Lost(c.now)
	c.expect(t, false, "after one lost race, the others long ago")
}

func TestABacklogMakesAShardContended(t *testing.T) {
	c := newCourse()
	if c.Contended(txn.BatchPods, c.now) || !c.Contended(txn.BatchPods+1, c.now) {
		t.Errorf("contended with %d waiting: %v, with one more: %v", txn.BatchPods,
			c.Contended(txn.BatchPods, c.now), c.Contended(txn.BatchPods+1, c.now))
	}
}

// A reservation counts once: not when its document changes otherwise, nor if it is this shard's.
func TestAReservationCountsOnce(t *testing.T) {
	c := newCourse()
	doc := ledger.NodeDoc{Entries: []ledger.Entry{
		{PodUID: "p", Role: ledger.RoleReservation, Token: 1, Shard: "b"},
		{PodUID: "q", Role: ledger.RoleReservation, Token: 2, Shard: "a"},
		{PodUID: "r", Role: ledger.RoleVictim, Token: 3, Shard: "b"},
	}}
	for range 50 {
		c.Sent()
		c.FollowLedger(replica.Changes{Docs: []replica.DocChange{{Before: doc, After: doc}}})
		c.FollowLedger(replica.Changes{Docs: []replica.DocChange{{After: ledger.NodeDoc{Entries: doc.Entries[1:]}}}})
		c.Answered(c.now)
	}
	c.expect(t, false, "without a new reservation of another shard")
}

// step lets time pass, and returns 1 if a decision would be contended then.
func (c *course) step(d time.Duration) int {
	c.now = c.now.Add(d)
	if c.Contended(1, c.now) {
		return 1
	}
	return 0
}

// A slow ledger does not hide that transactions overlap: while one is in flight, the shard keeps what it knows.
func TestContendedWithASlowLedger(t *testing.T) {
	for _, latency := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		c := newCourse()
		const rounds, steps = 20, 10
		contended := 0
		for range rounds {
			c.Sent()
			c.reserve("b")
			for range steps {
				contended += c.step(latency / steps)
			}
			c.Answered(c.now)
		}
		if contended < (rounds-6)*steps {
			t.Errorf("answers after %v: %d of %d decisions were contended", latency, contended, rounds*steps)
		}
	}
}
