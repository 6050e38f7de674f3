package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// ownTurns are the turns of the cluster, together with the attempts of this shard that wait for one. The embedded
// Turns knows nodes and shards only, not attempts.
type ownTurns struct {
	*avoid.Turns
	shard    *shard.State
	attempts *attempt.Queues
	life     *lifecycle.Attempts
}

// request asks for a turn at the node that an attempt has just lost. Without home nodes no shard grants turns.
func (t *ownTurns) request(a *attempt.Attempt) {
	if t.shard.Home == nil || a.Pick.NodeUID == "" {
		return
	}
	a.Turn = attempt.OwnTurn{NodeUID: a.Pick.NodeUID, Until: t.shard.Now.Add(avoid.TurnPatience)}
	t.Request(a.Turn.NodeUID, t.shard.Now)
}

// advance ends turns that have lasted too long, hands out the granted turns, and ends waits that have lasted too
// long.
func (t *ownTurns) advance() {
	t.Expire(t.shard.Now)
	if granted := t.Granted(); len(granted) > 0 {
		for _, a := range t.attempts.ByPod {
			if !a.Turn.Granted && slices.Contains(granted, a.Turn.NodeUID) {
				a.Turn.Granted = true
				t.life.WakeDeferred()
			}
		}
	}
	for _, a := range t.attempts.In(attempt.Deferred) {
		if a.Turn.NodeUID != "" && !a.Turn.Granted && !t.shard.Now.Before(a.Turn.Until) {
			a.Turn = attempt.OwnTurn{}
			t.life.WakeDeferred()
		}
	}
}

// pending reports whether a turn is running, or an attempt waits for one.
func (t *ownTurns) pending() bool {
	waits := func(a *attempt.Attempt) bool { return a.Turn.Pending(t.shard.Now) }
	return t.Running() || slices.ContainsFunc(t.attempts.In(attempt.Deferred), waits)
}
