package avoid

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// Where all shards want the same few nodes, as under a profile that packs, optimistic concurrency works badly: one
// of several shards wins each round, and possibly the same one every time. So a shard that has lost several races
// asks the home shard of the node that it lost for a turn. The home shard grants one turn at a time, in the order of
// the requests. All other shards avoid the node until the shard with the turn has placed a pod there, or for
// turnLength.
//
// The pod stays with its own shard, whose epoch its transaction compares. If it were handed over to the home shard,
// two shards could decide about it, and nothing in the ledger would settle which of them does. Turns are only
// advisory: the ledger keeps nodes from being overcommitted, with turns or without.

const (
	// turnLength is the maximum length of a turn: some round trips to the ledger.
	turnLength = 300 * time.Millisecond
	// TurnPatience is how long to wait for a turn before continuing without one: as long as a few turns before it
	// take.
	TurnPatience = 4 * turnLength
	// turnQueue is how many shards may wait for one node; further requests are not answered.
	turnQueue = 16
)

// Turns is a shard's knowledge of turns.
type Turns struct {
	table *Table
	shard string
	// home reports whether this shard grants the turns at a node.
	home func(nodeUID string) bool
	// running are the known running turns, by node UID.
	running map[string]turn
	// waiting are the shards that want a turn, in the order of their requests; only at the node's home shard.
	waiting map[string][]string
	// granted are the nodes at which this shard has been granted turns; out are the messages to send.
	granted []string
	outbox  []work.Turn
}

// turn is a running turn: of a shard, until it has placed a pod or the time is over.
type turn struct {
	shard string
	until time.Time
}

// NewTurns returns turns at the nodes of a table, for a shard.
func NewTurns(t *Table, shard string, home func(nodeUID string) bool) *Turns {
	return &Turns{table: t, shard: shard, home: home, running: map[string]turn{}, waiting: map[string][]string{}}
}

// Request asks for a turn at a node.
func (t *Turns) Request(nodeUID string, now time.Time) {
	ask := work.Turn{NodeUID: nodeUID, Shard: t.shard}
	if t.home(nodeUID) {
		t.Receive(ask, now)
		return
	}
	t.outbox = append(t.outbox, ask)
}

// Receive applies a message of a shard, this one included.
func (t *Turns) Receive(message work.Turn, now time.Time) {
	switch {
	case message.Granted:
		t.begin(message, now)
	case t.home(message.NodeUID):
		if queue := t.waiting[message.NodeUID]; len(queue) < turnQueue && !slices.Contains(queue, message.Shard) {
			t.waiting[message.NodeUID] = append(queue, message.Shard)
		}
		t.next(message.NodeUID, now)
	}
}

// next grants the next turn at a node of which this shard is the home shard, if no turn is running there.
func (t *Turns) next(nodeUID string, now time.Time) {
	queue := t.waiting[nodeUID]
	if _, running := t.running[nodeUID]; running || len(queue) == 0 {
		return
	}
	given := work.Turn{NodeUID: nodeUID, Shard: queue[0], Granted: true}
	if queue = queue[1:]; len(queue) == 0 {
		delete(t.waiting, nodeUID)
	} else {
		t.waiting[nodeUID] = queue
	}
	t.outbox = append(t.outbox, given)
	t.begin(given, now)
}

// begin starts a turn: in its own the shard may place on the node, in that of another shard its pods avoid the node.
func (t *Turns) begin(given work.Turn, now time.Time) {
	t.running[given.NodeUID] = turn{shard: given.Shard, until: now.Add(turnLength)}
	if given.Shard != t.shard {
		t.table.Begin(given.NodeUID, Turn)
		return
	}
	t.table.End(given.NodeUID, Turn)
	t.granted = append(t.granted, given.NodeUID)
}

// end ends a turn, and grants the next.
func (t *Turns) end(nodeUID string, now time.Time) {
	delete(t.running, nodeUID)
	t.table.End(nodeUID, Turn)
	t.next(nodeUID, now)
}

// FollowWatch ends the turns of shards that have placed a pod at the node of their turn.
func (t *Turns) FollowWatch(changes replica.Changes, now time.Time) {
	if len(t.running) == 0 {
		return
	}
	for _, d := range changes.Docs {
		nodeUID := d.After.NodeUID
		given, running := t.running[nodeUID]
		if running && slices.ContainsFunc(d.After.Entries, func(e ledger.Entry) bool {
			if e.Role != ledger.RoleReservation || e.Shard != given.shard {
				return false
			}
			old, was := d.Before.Find(e.PodUID)
			return !was || old.Token != e.Token
		}) {
			t.end(nodeUID, now)
		}
	}
}

// Expire ends turns that have lasted too long. It is called in every step.
func (t *Turns) Expire(now time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(t.running)) {
		if !now.Before(t.running[uid].until) {
			t.end(uid, now)
		}
	}
}

// Running reports whether any turn is running.
func (t *Turns) Running() bool { return len(t.running) > 0 }

// Granted returns the nodes at which this shard has been granted turns since the last call.
func (t *Turns) Granted() []string {
	granted := t.granted
	t.granted = nil
	return granted
}

// Messages returns the messages to send since the last call.
func (t *Turns) Messages() []work.Turn {
	out := t.outbox
	t.outbox = nil
	return out
}
