package decide

import "github.com/berth-scheduler/berth/pkg/placement"

// The log of facts can lose its end. Whoever leads tells then in a new epoch what is true, under
// sequences that have been used before. A verdict that was computed from facts that are lost
// stands for nothing: it knows nothing of those that have taken their numbers, and what it saw,
// a pod that stood in the way for instance, may have gone without a word of it in what is told
// now. So a verdict names the epoch of its last fact; where a later epoch has begun at or before
// that fact, the pod counts as one that everything may have helped.

// epochs are the beginnings of fact epochs, in order, as far as this replica has seen them.
type epochs []epochStart

// epochStart says that the facts from sequence on are of the epoch or of later ones. Where it
// is not known for certain, sequence is rather too small than too large: pods are tried in
// vain then.
type epochStart struct{ epoch, sequence uint64 }

// maxEpochs bounds the epochs that are remembered. Those before count as one with the oldest.
const maxEpochs = 64

// standing is the sequence of a verdict's last fact, which is of an epoch, or 0 if a later epoch
// has taken that sequence. Epoch 0 is not known, and believed.
func (s epochs) standing(sequence, epoch uint64) uint64 {
	for _, start := range s {
		if epoch != 0 && start.epoch > epoch && start.sequence <= sequence {
			return 0
		}
	}
	return sequence
}

// newEpoch takes in the epoch of the facts, which has begun at a sequence or later if it is new,
// and says whether it is.
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

// advance takes in how far facts have been applied.
func (c *Core) advance(to Position, objects placement.Objects, now moment) {
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

// rewind takes in where a store that was rebuilt stands. Its last fact is of its epoch,
// whatever came before; and what had come to pods after it has not come to them now.
func (c *Core) rewind(to Position, objects placement.Objects) {
	c.world.facts, c.world.objects = to, objects
	c.newEpoch(to.Sequence)
	for _, e := range c.pods {
		e.sequence = min(e.sequence, to.Sequence)
	}
}
