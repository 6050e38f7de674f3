package podstatus

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Reservations reports on the places that pods have in the ledger.
type Reservations interface {
	// Placed reports whether the ledger holds a reservation of the pod for which a bind may be in flight.
	Placed(podUID string) bool
	// Releasing reports whether the place of a decision's attempt has yet to be given back.
	Releasing(d events.Decision) bool
}

// Writer keeps conditions and nominated node names as decisions and holds require.
type Writer struct {
	*basis.Base
	reservations Reservations

	// conditions and nominations are by pod UID.
	conditions  map[string]*condition
	nominations map[string]*nomination
	// dropped counts decisions that were dropped because Limits.Foreign was reached.
	dropped uint64
}

// New returns a writer that has nothing to write.
func New(base *basis.Base, reservations Reservations) *Writer {
	return &Writer{
		Base: base, reservations: reservations,
		conditions: map[string]*condition{}, nominations: map[string]*nomination{},
	}
}

// machine is a piece of work of a writer.
type machine interface {
	answered(s *Writer, in effect.Input)
}

// work is a machine that waits for the answer to its effect.
type work struct {
	machine
	s *Writer
}

// Answered implements effect.Machine.
func (w work) Answered(in effect.Input) { w.answered(w.s, in) }

// begin registers an operation whose answer m waits for.
func (s *Writer) begin(m machine) effect.OpID { return s.Begin(work{m, s}) }

// AdvanceConditions tries to advance the conditions that wait.
func (s *Writer) AdvanceConditions() {
	var waiting []string
	for uid, w := range s.conditions {
		if w.pending != nil && w.op == 0 && s.MayAct(uid) {
			waiting = append(waiting, uid)
		}
	}
	slices.Sort(waiting)
	for _, uid := range waiting {
		s.conditions[uid].advance(s)
	}
}

// AdvanceNominations tries to advance all nominations.
func (s *Writer) AdvanceNominations() {
	for _, uid := range slices.Sorted(maps.Keys(s.nominations)) {
		s.AdvanceNomination(uid)
	}
}

// AdvanceNomination tries to advance the nomination of a pod, if it has one.
func (s *Writer) AdvanceNomination(podUID string) {
	if m, ok := s.nominations[podUID]; ok {
		m.advance(s)
	}
}

// NominationsDueSince returns the sorted UIDs of the pods whose nomination has become due since a time.
func (s *Writer) NominationsDueSince(since time.Time) (due []string) {
	for uid, m := range s.nominations {
		if m.Due.After(since) && !m.Due.After(s.Now) {
			due = append(due, uid)
		}
	}
	slices.Sort(due)
	return due
}

// ForgetVersions drops everything that is kept about resourceVersions: with a new generation of the ledger, they may
// be versions that Kubernetes has yet to reach again.
func (s *Writer) ForgetVersions() {
	for _, w := range s.conditions {
		w.written, w.writtenRV = nil, 0
		w.cleared, w.read = false, nil
	}
	for _, m := range s.nominations {
		m.writtenRV = 0
	}
}

// Forget drops the conditions about which nothing can matter any more.
func (s *Writer) Forget() {
	maps.DeleteFunc(s.conditions, func(uid string, w *condition) bool { return w.obsolete(s, uid) })
}

// Stats counts what a writer remembers.
type Stats struct {
	Conditions, Nominations int
	Dropped                 uint64
}

// Stats counts what the writer remembers.
func (s *Writer) Stats() Stats {
	return Stats{Conditions: len(s.conditions), Nominations: len(s.nominations), Dropped: s.dropped}
}
