package mem

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// faults are the switches; guarded by the store's lock.
type faults struct {
	failTxns, loseAnswers, failLists int
	// maxTxnBytes is the largest transaction that is accepted, 0 for no additional bound.
	maxTxnBytes int
	// heldAt is the revision up to which watches may deliver while they are held, 0 when they run freely.
	heldAt int64
	// breaks counts BreakWatches; a watch started before the last one ends with broken.
	breaks int
	broken error
}

// take decrements n, and reports whether it was above 0.
func take(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// FailTxns makes the next n transactions fail with ErrInjected without being applied.
func (s *Store) FailTxns(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.failTxns = n
}

// LoseAnswers makes the next n transactions return ErrInjected although they were carried
// out (those that fail their compares count too).
func (s *Store) LoseAnswers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.loseAnswers = n
}

// RefuseAbove makes the store refuse transactions of more than the given number of bytes, like an etcd whose
// --max-request-bytes is low; 0 makes it accept all.
func (s *Store) RefuseAbove(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.maxTxnBytes = bytes
}

// FailLists makes the next n lists fail with ErrInjected.
func (s *Store) FailLists(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.failLists = n
}

// HoldWatches holds watches back: they deliver nothing later than the current revision until ReleaseWatches.
func (s *Store) HoldWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.heldAt = s.mu.revision
}

// ReleaseWatches ends HoldWatches.
func (s *Store) ReleaseWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.heldAt = 0
	s.wake()
}

// BreakWatches ends every running watch with err.
func (s *Store) BreakWatches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults.breaks++
	s.mu.faults.broken = err
	s.wake()
}

// Compact forgets the history before revision, which must exist: watches that still need
// it end with ledger.ErrCompacted.
func (s *Store) Compact(revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision <= s.mu.compacted || revision > s.mu.revision {
		return fmt.Errorf("mem: compact: revision %d, %d to %d are accepted", revision, s.mu.compacted+1, s.mu.revision)
	}
	s.mu.compacted = revision
	if drop := revision - s.mu.first; drop > 0 {
		s.mu.history = append([][]ledger.Event(nil), s.mu.history[drop:]...)
		s.mu.first = revision
	}
	s.wake()
	return nil
}

// Expire ends a lease as if its time had run out: its keys are deleted at one revision, its session is Done. It
// returns false when there is no such lease.
func (s *Store) Expire(lease int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoke(lease)
}
