package rerun

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
)

// Shard is one shard, rebuilt from the log. Its decisions must be requested in the order of their moments, because
// facts and ledger are read forward.
type Shard struct {
	replica *decide.Replica
	facts   *factCursor
	ledger  *history.Cursor
	changes Records
	// failed is the error that made the state unusable; later decisions cannot be made again.
	failed error
}

// newShard opens the log for a shard whose first decision was made at fact first.
func newShard(
	ctx context.Context, id string, profiles map[string]*placement.Profile, src Source, first uint64,
) (*Shard, error) {
	s := &Shard{replica: decide.NewReplica(decide.Config{
		Shard: id, Profiles: profiles,
		Home: func(members []string, nodeUID string) bool { return membership.Home(members, nodeUID) == id },
	})}
	var err error
	if s.facts, err = openFacts(ctx, src, first); err != nil {
		return nil, err
	}
	if s.changes, err = src.Open(ctx, eventlog.Ledger, 1); err == nil {
		s.ledger, err = history.NewCursor(s.changes)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("ledger history: %w", err)
	}
	return s, nil
}

// close closes the readers of the log.
func (s *Shard) close() {
	if s.ledger != nil {
		s.ledger.Close()
	}
	if s.changes != nil {
		s.changes.Close()
	}
	s.facts.records.Close()
}

// advance brings the state to the position of a record: first the ledger, then the facts, as a shard's step applies
// them, and then what the shard had learned ahead of its watch. An error about missing data leaves the state usable,
// unless part of the data has been applied.
func (s *Shard) advance(ctx context.Context, d *events.Decision) error {
	if s.failed != nil {
		return s.failed
	}
	// The history is applied up to exactly this revision: what the shard knew beyond it is in the record (Learned).
	revision := d.Evidence.LedgerRevision
	changes, err := s.ledger.To(ctx, revision)
	if err != nil {
		return err
	}
	for _, b := range changes {
		if err := s.replica.Ledger(b); err != nil {
			return s.fail(err)
		}
	}
	// Facts that were read but could not be applied are lost, so that the state cannot be continued.
	before := s.facts.at
	facts, err := s.facts.batchesTo(ctx, d.FactSequence)
	switch {
	case err != nil && s.facts.at == before:
		return err // a later fact may be there
	case err != nil:
		return s.fail(err)
	}
	for _, b := range facts {
		if err := s.replica.Facts(b); err != nil {
			return s.fail(err)
		}
	}
	if err := s.replica.Unreadable(); err != nil {
		return &NotThereError{err.Error()} // until the facts begin anew
	}
	for _, l := range d.Evidence.Basis.Learned {
		kvs, err := s.ledger.Put(ctx, l.Revision, l.Key)
		if err != nil {
			return err
		}
		if err := s.replica.Learn(l, kvs); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// fail makes the state unusable, and returns the error.
func (s *Shard) fail(err error) error {
	s.failed = err
	return err
}

// remake makes the decision of a record again; it sees only the part of the record that Erase leaves.
func (s *Shard) remake(ctx context.Context, d events.Decision) (events.Decision, error) {
	erased := Erase(d)
	if err := s.advance(ctx, &erased); err != nil {
		return events.Decision{}, err
	}
	return s.replica.Remake(erased)
}

// version returns the version that the shard registered in the ledger; empty if it is not known.
func (s *Shard) version(id string) string { return s.replica.Members(membership.RoleScheduler)[id] }

// Erase returns a record without the result of the decision: only the pod and the state of the shard are left. A
// core that could read the node would repeat any mistake.
func Erase(d events.Decision) events.Decision {
	left := events.Decision{
		Kind: d.Kind, Pod: d.Pod, SchedulerName: d.SchedulerName, Actor: d.Actor, Attempt: d.Attempt, Token: d.Token,
		FactSequence: d.FactSequence, Seed: d.Seed,
	}
	if e := d.Evidence; e != nil {
		left.Evidence = &evidence.Evidence{
			Config: e.Config, LedgerRevision: e.LedgerRevision, Order: e.Order, Staged: e.Staged, Usable: e.Usable,
			Basis: e.Basis,
		}
	}
	return left
}

// isMissing reports whether an error is about data that the log does not have, and not about reading it.
func isMissing(err error) bool {
	var gap *history.GapError
	var there *NotThereError
	var remade *decide.NotRemadeError
	return errors.As(err, &gap) || errors.As(err, &there) || errors.As(err, &remade)
}
