package waiting

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// Position is how far the facts have been applied.
type Position struct {
	Sequence uint64
	// Epoch is the fact epoch of the last fact applied; see rewrite.go.
	Epoch uint64
	// PodProgress is the applied progress of pods; valid only if ProgressKnown.
	PodProgress   uint64
	ProgressKnown bool
}

// World is the position in the facts and in the ledger, and the content of both as far as the core needs it. Only the
// core's inputs change it; everything else reads it.
type World struct {
	Facts Position
	// Primed means that there are facts. A pod that they do not show at an answer's sequence is gone.
	Primed   bool
	Epochs   Epochs
	Objects  rule.Objects
	Revision int64
	// Owners names the holder of each partition, "" for none.
	Owners [ledger.Partitions]string
}

// The log of facts can lose its tail. The next leader then publishes the truth in a new epoch, under sequences that
// have been used before. A verdict that was computed from lost facts is void: it does not reflect the facts that have
// taken their sequences, and what it saw, such as a pod that occupied a node, may have disappeared without any fact
// about it in the log. So a verdict names the epoch of its last fact. If a later epoch has begun at or before that
// fact, the pod is treated as if anything may have helped it.

// Epochs are the beginnings of fact epochs, in order, to this replica's knowledge.
type Epochs []epochStart

// epochStart means that the facts from sequence on are of the epoch or of later ones. Where this is not known for
// certain, sequence is too small rather than too large; the cost is that pods are tried in vain.
type epochStart struct{ epoch, sequence uint64 }

// maxEpochs bounds the epochs that are remembered. Earlier ones count as one with the oldest.
const maxEpochs = 64

// Valid returns the sequence of a verdict's last fact, which is of the given epoch, or 0 if a later epoch has
// taken that sequence. Epoch 0 means that it is not known, and the sequence is believed.
func (s Epochs) Valid(sequence, epoch uint64) uint64 {
	for _, start := range s {
		if epoch != 0 && start.epoch > epoch && start.sequence <= sequence {
			return 0
		}
	}
	return sequence
}

// NewEpoch records the epoch of the facts, which has begun at the given sequence or later if it is new, and reports
// whether it is new.
func (w *World) NewEpoch(sequence uint64) bool {
	epoch := w.Facts.Epoch
	if n := len(w.Epochs); sequence == 0 || epoch == 0 || n > 0 && w.Epochs[n-1].epoch >= epoch {
		return false
	}
	w.Epochs = append(w.Epochs, epochStart{epoch, sequence})
	if len(w.Epochs) > maxEpochs {
		w.Epochs = append(Epochs(nil), w.Epochs[1:]...)
	}
	return true
}
