package sim

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/bindercore"
)

// Mutant is one part of the protocol taken away, at a seam between a process and a world.
type Mutant struct {
	Name string
	// Missing says what is taken away.
	Missing string
	// muted are the invariants that would see the missing part itself, rather than the harm
	// it does.
	muted []string

	// txn changes a transaction on its way to the ledger, resubmit one that goes again.
	txn      func(w *world, what string, t ledger.Txn) ledger.Txn
	resubmit func(w *world, t ledger.Txn) ledger.Txn
	// ledger changes what a watch of the ledger delivers.
	ledger func(b ledger.ViewBatch) ledger.ViewBatch
	// facts changes what is read of the facts.
	facts func(s *streams, records []events.Record) []events.Record
	// append changes what an append of facts expects, epoch the number of a new epoch.
	append func(last uint64) uint64
	epoch  func(before uint64) uint64
	// hint is what a binder makes of a decision, fence what the pod's change does, readDoc what
	// a read of a document brings.
	hint    func(d events.Decision) []bindercore.Input
	fence   func(w *world, e bindercore.FencePod) bindercore.Answered
	readDoc func(w *world, b *binder, e bindercore.ReadDoc) (*ledger.NodeDoc, bool)
	// ignoreVersion makes binds go without the resourceVersion.
	ignoreVersion bool
}

func (m Mutant) mutes(invariant string) bool { return slices.Contains(m.muted, invariant) }
