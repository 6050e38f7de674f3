package decide

import "time"

// decisions is how far the log of decisions has been read. The answers to attempts are in that log, which every
// replica reads whether it leads or not, so that a new leader knows attempts, backoffs and what parked pods wait for.
type decisions struct {
	// sequence is the last sequence read.
	sequence uint64
	// stored is when the log stored that record; zero if that is not known.
	stored time.Time
	// rereading means that the log is being read once more, up to target at least, because it has lost records.
	rereading bool
	target    uint64
	// recalled is the sequence up to which this life's memory knows all answers but not the pods that were let go,
	// because an earlier version wrote it. It is 0 once the decisions up to there have been read again.
	recalled uint64
	// remembered means that this life began with a memory and has not read the ledger yet.
	remembered bool
	// caughtUp means that the decisions made before this replica started have been read. Nothing is offered before
	// that, because old answers would pass for answers to new offers.
	caughtUp bool
	// leadersEnd is where the decisions of earlier leaders end.
	leadersEnd uint64
}

// shortened records that the log now ends at last and has lost records that were read. What they reported about
// attempts stays known.
func (d *decisions) shortened(through, last uint64) {
	d.sequence = through
	d.stored = time.Time{}
	d.recalled = 0
	d.rereading, d.target = true, last
	d.leadersEnd = min(d.leadersEnd, last)
}

// read records that the log has been read through a sequence.
func (d *decisions) read(through uint64, stored time.Time) {
	if through >= d.sequence {
		d.sequence, d.stored = through, stored
	}
}

// rereadDone reports, once, that a log which had lost records has been read again.
func (d *decisions) rereadDone() bool {
	if !d.rereading || d.sequence < d.target {
		return false
	}
	d.rereading = false
	return true
}

// complete reports whether all decisions of earlier leaders have been read.
func (d *decisions) complete() bool { return d.caughtUp && d.sequence >= d.leadersEnd }
