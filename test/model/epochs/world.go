package epochs

const (
	nodes     = 2
	maxPods   = 2
	shards    = 2
	maxEvents = 12
)

// doc is the document of a node: the pods with a reservation, as bits, at a revision.
type doc struct{ entries, revision uint8 }

// ledgerState is the ledger, or a shard's view of it.
type ledgerState struct {
	docs [nodes]doc
	// owner is the shard that has the partition, 1 for the first shard, 0 for none. epoch is the create revision of
	// its key, changed the revision of its last event.
	owner, epoch, changed uint8
}

// event is one revision: a document's, or (node is nodes) the owner's.
type event struct {
	node, entries, owner uint8
}

// pick is a decision about a pod.
type pick struct {
	// node from 1, 0 for no decision; basis is the revision of its document that was counted.
	node, basis uint8
	// epoch is that of the partition when it was decided.
	epoch uint8
}

// flight is the transaction whose answer has not come.
type flight struct {
	// pod from 1, 0 for none.
	pod uint8
	pick
	// sent is the epoch that it compares.
	sent uint8
}

// shard is one.
type shard struct {
	ledgerState
	// at is the revision that its watch has reached.
	at uint8
	// over is an epoch that a refused transaction has shown to be over.
	over   uint8
	picks  [maxPods]pick
	flight flight
}

// world is everything. The log has the events that a shard has yet to read, from the revision after
// first on.
type world struct {
	now       ledgerState
	revision  uint8
	log       [maxEvents]event
	first     uint8
	shards    [shards]shard
	left      limits
	violation uint8
}

// Violations in addition to those that broken counts.
const (
	overEpoch = 1 + iota
	logFull
)

type limits struct{ placements, takes, fences uint8 }

// write makes an event the next revision.
func (w *world) write(e event) {
	if w.revision-w.first == maxEvents {
		w.violation = logFull
		return
	}
	w.log[w.revision-w.first] = e
	w.revision++
	w.now.apply(e, w.revision)
}

// apply folds in what a watch has brought, unless it is known already.
func (p *ledgerState) apply(e event, revision uint8) {
	switch {
	case e.node < nodes && p.docs[e.node].revision < revision:
		p.docs[e.node] = doc{entries: e.entries, revision: revision}
	case e.node == nodes && p.changed < revision:
		p.own(e.owner, revision)
	}
}

func (p *ledgerState) own(owner, revision uint8) {
	p.owner, p.changed = owner, revision
	if owner != 0 {
		p.epoch = revision
	}
}

// reserved reports whether a pod has a reservation.
func (p *ledgerState) reserved(pod int) bool {
	for n := range nodes {
		if p.docs[n].entries>>pod&1 == 1 {
			return true
		}
	}
	return false
}

// forget drops the events that every shard has read.
func (w *world) forget() {
	read := w.revision
	for i := range shards {
		read = min(read, w.shards[i].at)
	}
	drop := read - w.first
	copy(w.log[:], w.log[drop:])
	clear(w.log[maxEvents-drop:])
	w.first = read
}
