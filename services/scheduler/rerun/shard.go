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
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// Shard is one shard, brought to life again from the log. Its decisions have to be asked for in the
// order of their moments.
type Shard struct {
	replica *decide.Replica
	facts   *factCursor
	ledger  *history.Cursor
	changes Records
	// failed is what made the state unusable; nothing after it can be made again.
	failed error
}

// newShard opens the log for a shard whose first decision stands at a fact.
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

func (s *Shard) close() {
	if s.ledger != nil {
		s.ledger.Close()
	}
	if s.changes != nil {
		s.changes.Close()
	}
	s.facts.records.Close()
}

// advance brings the state to where a record stood.
func (s *Shard) advance(ctx context.Context, d *events.Decision) error {
	if s.failed != nil {
		return s.failed
	}
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
	before := s.facts.at
	facts, err := s.facts.to(ctx, d.FactSequence)
	switch {
	case err != nil && s.facts.at == before:
		return err // a later one may be there
	case err != nil:
		return s.fail(err)
	}
	for _, b := range facts {
		if err := s.replica.Facts(b); err != nil {
			return s.fail(err)
		}
	}
	if err := s.replica.Unreadable(); err != nil {
		return &NotThereError{err.Error()} // until facts are told anew
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

func (s *Shard) fail(err error) error {
	s.failed = err
	return err
}

// remake decides again what a record says; of the record it sees what Erase leaves.
func (s *Shard) remake(ctx context.Context, d events.Decision) (events.Decision, error) {
	erased := Erase(d)
	if err := s.advance(ctx, &erased); err != nil {
		return events.Decision{}, err
	}
	return s.replica.Remake(erased)
}

// version is the version of the shard, as it told in the ledger; empty is not known.
func (s *Shard) version(id string) string { return s.replica.Members(membership.RoleScheduler)[id] }

// Erase is a record without what came of the decision: what is left says about whom it was, and
// where the shard stood.
func Erase(d events.Decision) events.Decision {
	left := events.Decision{
		Kind: d.Kind, Pod: d.Pod, SchedulerName: d.SchedulerName, Actor: d.Actor, Attempt: d.Attempt, Token: d.Token,
		FactSequence: d.FactSequence, Seed: d.Seed,
	}
	if e := d.Evidence; e != nil {
		left.Evidence = &evidence.Evidence{
			Config: e.Config, LedgerRevision: e.LedgerRevision, Order: e.Order, Staged: e.Staged, Basis: e.Basis,
		}
	}
	return left
}

// isMissing says whether an error is about what the log does not have, and not about reading it.
func isMissing(err error) bool {
	var gap *history.GapError
	var there *NotThereError
	var remade *decide.NotRemadeError
	return errors.As(err, &gap) || errors.As(err, &there) || errors.As(err, &remade)
}
