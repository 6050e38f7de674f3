package rerun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// Job describes which decisions to make again. Source and Profiles are required.
type Job struct {
	Source Source
	// Profiles are the configuration of the remade decisions.
	Profiles []placement.ProfileConfig
	// Version is the version of this Berth, to explain differences.
	Version string
	// Wanted selects the records to make again; nil selects all of them.
	Wanted func(r eventlog.Record, d *events.Decision) bool
	// Strict: the choices that a decision counted are used with the remade nodes too; if such a choice could not be
	// remade, the decision that counted it cannot be remade either.
	Strict bool
	// LeftOut is called for every record that cannot be read; it may be nil.
	LeftOut func(r eventlog.Record, err error)
	// Each is called for every wanted record, in the order of its shard.
	Each func(Verdict) error
}

// Verdict is the result for one record.
type Verdict struct {
	Recorded events.Decision
	// Remade is the decision made again; nil if that was not possible, and Missing explains why.
	Remade  *events.Decision
	Missing string
	// Differences is empty if both are the same. Explained gives the reason for them if it is known: another
	// configuration or another version.
	Differences []Difference
	Explained   string
}

// Same reports whether the decision was made again with the recorded result.
func (v *Verdict) Same() bool { return v.Remade != nil && len(v.Differences) == 0 }

// item is a record to be made again, or a choice to be accepted as recorded. moment and order are its place in the
// order of its shard: a later moment decided later, and of several choices of one moment the one with the higher
// order.
type item struct {
	moment, order uint64
	fact          uint64
	record        eventlog.Record
	wanted        bool
}

// Run makes decisions again, one shard after the other. It holds in memory the records of all shards and the state
// of one. An error means that the log could not be read, or a profile is invalid; what the log lacks is in the
// verdicts. It stops when Each returns an error.
func Run(ctx context.Context, job Job) error {
	profiles := map[string]*placement.Profile{}
	for _, cfg := range job.Profiles {
		p, err := placement.NewProfile(cfg)
		if err != nil {
			return fmt.Errorf("profile %q: %w", cfg.SchedulerName, err)
		}
		profiles[cfg.SchedulerName] = p
	}
	shards, err := gather(ctx, job)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(shards)) {
		if err := job.shard(ctx, id, profiles, shards[id]); err != nil {
			return fmt.Errorf("shard %s: %w", id, err)
		}
	}
	return nil
}

// gather reads the records of all shards, by the id of the shard. Records without evidence are left out: nothing
// shows what they depended on.
func gather(ctx context.Context, job Job) (map[string][]item, error) {
	records, err := job.Source.Open(ctx, eventlog.Decisions, 1)
	if err != nil {
		return nil, fmt.Errorf("decisions: %w", err)
	}
	defer records.Close()
	shards := map[string][]item{}
	for {
		r, err := records.Next(ctx)
		if errors.Is(err, io.EOF) {
			return shards, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decisions: %w", err)
		}
		d, err := events.DecodeDecision(r)
		if err != nil {
			if job.LeftOut != nil {
				job.LeftOut(r, err)
			}
			continue
		}
		if d.Evidence == nil {
			continue
		}
		shards[d.Actor] = append(shards[d.Actor], item{
			moment: d.Evidence.Basis.LookNumber, order: d.Evidence.Order, fact: d.FactSequence, record: r,
			wanted: job.Wanted == nil || job.Wanted(r, &d.Decision),
		})
	}
}

// shard makes the wanted decisions of one shard again, in the order of their moments. It
// decodes the records one at a time, so that only the encoded ones are in memory.
func (job Job) shard(ctx context.Context, id string, profiles map[string]*placement.Profile, items []item) error {
	// A record may be in the log twice, if the log's answer was lost.
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.moment, b.moment), cmp.Compare(a.order, b.order))
	})
	items = slices.CompactFunc(items, func(a, b item) bool {
		return a.moment == b.moment && a.order == b.order && a.moment > 0
	})
	// Opening the log for a shard costs a pass over its facts, so it is left out if nothing is wanted of the shard.
	if !slices.ContainsFunc(items, func(i item) bool { return i.wanted }) {
		return nil
	}
	shard, err := newShard(ctx, id, profiles, job.Source, items[0].fact)
	if err != nil {
		return err
	}
	defer shard.close()
	for _, i := range items {
		decoded, err := events.DecodeDecision(i.record)
		if err != nil {
			return err
		}
		if err := job.remakeOne(ctx, shard, i, decoded.Decision); err != nil {
			return err
		}
	}
	return nil
}

// remakeOne makes the decision of one record again, and reports the verdict. Choices that are not wanted are
// accepted as recorded without being made again, if their node is all that later decisions need of them; a strict
// run makes them again. Choices that took a kept place are always made again, as the record does not name the place.
func (job Job) remakeOne(ctx context.Context, shard *Shard, i item, d events.Decision) error {
	granted := []evidence.Way{evidence.WayRanked, evidence.WayHeld, evidence.WayAdvised}
	if !i.wanted && !job.Strict && slices.Contains(granted, d.Evidence.Basis.Way) {
		return shard.note(ctx, d)
	}
	v := Verdict{Recorded: d}
	remade, err := shard.remake(ctx, d)
	switch {
	case err != nil && !isMissing(err):
		return err
	case err != nil:
		v.Missing = err.Error()
	default:
		v.Remade, v.Differences = &remade, compare(d, remade)
		v.Explained = job.explain(shard, d, v)
	}
	switch {
	case job.Strict && v.Remade != nil && remade.NodeName != "":
		shard.replica.KeepChoice(d.Evidence.Order, remade, remade.NodeName)
	case !job.Strict && v.Remade != nil:
		shard.replica.KeepChoice(d.Evidence.Order, remade, d.NodeName)
	case !job.Strict:
		shard.replica.KeepRecorded(d)
	}
	if i.wanted && job.Each != nil {
		return job.Each(v)
	}
	return nil
}

// explain returns the reason for differences; empty if there are none, or no reason is known.
func (job Job) explain(shard *Shard, d events.Decision, v Verdict) string {
	if len(v.Differences) == 0 {
		return ""
	}
	if v.Remade.Evidence != nil && v.Remade.Evidence.Config != d.Evidence.Config {
		return fmt.Sprintf("decided with a different configuration of profile %s (%016x) than given (%016x)",
			d.SchedulerName, d.Evidence.Config, v.Remade.Evidence.Config)
	}
	if version := shard.version(d.Actor); version != "" && job.Version != "" && version != job.Version {
		return fmt.Sprintf("decided by berth %s, recomputed by berth %s", version, job.Version)
	}
	return ""
}

// note accepts a choice as recorded. The state that it was decided on does not matter; only the pod must be known.
// Choices without a node, or without an order, are counted by no later decision.
func (s *Shard) note(ctx context.Context, d events.Decision) error {
	if d.Evidence.Order == 0 || d.NodeName == "" {
		return nil
	}
	if err := s.advance(ctx, &d); err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	s.replica.KeepRecorded(d)
	return nil
}

// Count returns how many records of a source could be made again: those with evidence.
func Count(ctx context.Context, src Source) (int, error) {
	n := 0
	shards, err := gather(ctx, Job{Source: src})
	for _, items := range shards {
		n += len(items)
	}
	return n, err
}
