package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// The log of facts can lose its tail. The next leader then publishes the truth in a new epoch, under sequences that
// have been used before. A verdict that was computed from lost facts is void: it does not reflect the facts that have
// taken their sequences, and what it saw, such as a pod that occupied a node, may have disappeared without any fact
// about it in the log. So a verdict names the epoch of its last fact. If a later epoch has begun at or before that
// fact, the pod is treated as if anything may have helped it.

// epochs are the beginnings of fact epochs, in order, to this replica's knowledge.
type epochs []epochStart

// epochStart means that the facts from sequence on are of the epoch or of later ones. Where this is not known for
// certain, sequence is too small rather than too large; the cost is that pods are tried in vain.
type epochStart struct{ epoch, sequence uint64 }

// maxEpochs bounds the epochs that are remembered. Earlier ones count as one with the oldest.
const maxEpochs = 64

// standing returns the sequence of a verdict's last fact, which is of the given epoch, or 0 if a later epoch has
// taken that sequence. Epoch 0 means that it is not known, and the sequence is believed.
func (s epochs) standing(sequence, epoch uint64) uint64 {
	for _, start := range s {
		if epoch != 0 && start.epoch > epoch && start.sequence <= sequence {
			return 0
		}
	}
	return sequence
}

// newEpoch records the epoch of the facts, which has begun at the given sequence or later if it is new, and reports
// whether it is new.
func (c *Core) newEpoch(sequence uint64) bool {
	w := &c.world
	epoch := w.facts.Epoch
	if n := len(w.epochs); sequence == 0 || epoch == 0 || n > 0 && w.epochs[n-1].epoch >= epoch {
		return false
	}
	w.epochs = append(w.epochs, epochStart{epoch, sequence})
	if len(w.epochs) > maxEpochs {
		w.epochs = append(epochs(nil), w.epochs[1:]...)
	}
	for _, e := range c.pods {
		e.verdict.factSequence = w.epochs.standing(e.verdict.factSequence, e.verdict.factEpoch)
	}
	for _, e := range c.history.ghosts {
		e.verdict.factSequence = w.epochs.standing(e.verdict.factSequence, e.verdict.factEpoch)
	}
	for _, l := range c.lanes.all {
		l.rejected.factSequence = w.epochs.standing(l.rejected.factSequence, l.rejected.factEpoch)
	}
	return true
}

// advance records how far the facts have been applied.
func (c *Core) advance(to Position, objects rule.Objects, now moment) {
	after := c.world.facts.Sequence
	c.world.facts, c.world.objects = to, objects
	if !c.newEpoch(after + 1) {
		return
	}
	for _, e := range inOrder(c.bags.parked) {
		if e.verdict.astray() {
			c.woken(e, eventReset, now)
		}
	}
}

// rewind records the position of a store that was rebuilt. Its last fact is of its epoch, whatever came before; and
// changes of pods after that position have not happened in this store.
func (c *Core) rewind(to Position, objects rule.Objects) {
	c.world.facts, c.world.objects = to, objects
	c.newEpoch(to.Sequence)
	for _, e := range c.pods {
		e.sequence = min(e.sequence, to.Sequence)
	}
}
