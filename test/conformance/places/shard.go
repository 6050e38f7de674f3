package places

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// shard is a scheduler shard: its core, what it has received and not applied, and the offers that it holds.
type shard struct {
	w     *World
	index int
	id    string
	core  *decide.Core
	feed  *feed.Folder
	inbox step.Input
	// busy: a step is under way or planned.
	busy bool
	// offered are the UIDs of the pods that it holds offers for, by token.
	offered map[string]string
}

// newShard returns the shard with this index, and plans its heartbeats.
func newShard(w *World, index int, profile *placement.Profile) *shard {
	members := make([]string, w.cfg.Shards)
	for i := range members {
		members[i] = fmt.Sprintf("scheduler-%d", i)
	}
	s := &shard{w: w, index: index, id: members[index], feed: feed.NewFolder(), offered: map[string]string{}}
	s.core = decide.New(decide.Config{
		Shard: s.id, Profiles: map[string]*placement.Profile{profile.SchedulerName(): profile}, Window: window,
		HomeFirst: true,
		Home:      func(_ []string, nodeUID string) bool { return membership.Home(members, nodeUID) == s.id },
	})
	s.receive(follow.Batch{Reset: true})
	s.inbox.Ledger = []replica.Batch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}}
	s.beat()
	return s
}

// beat is the heartbeat, and plans the next one.
func (s *shard) beat() {
	s.inbox.Beat = true
	s.wake()
	s.w.after(beatInterval, s.beat)
}

// receive receives facts.
func (s *shard) receive(b follow.Batch) {
	one, err := s.feed.Fold(b)
	if err != nil {
		s.w.fault = err
		return
	}
	s.inbox.Facts = append(s.inbox.Facts, one)
	s.wake()
}

// wake plans a step, unless one is planned or under way: it then finds the input.
func (s *shard) wake() {
	if s.busy {
		return
	}
	s.busy = true
	s.w.after(0, s.step)
}

// step applies what has been received. Its effects happen when the time that it takes has passed.
func (s *shard) step() {
	in := s.inbox
	s.inbox = step.Input{}
	out := s.core.Step(in, s.w.now)
	if out.Fatal != nil {
		s.w.fault = fmt.Errorf("places: %s: %w", s.id, out.Fatal)
		return
	}
	took := stepTime
	if out.Commit != nil {
		took += time.Duration(out.Commit.Pods) * decisionTime
	}
	s.w.after(took, func() { s.effect(out) })
}

// effect carries out the effects of a step, and plans the next step if there is something to do.
func (s *shard) effect(out step.Output) {
	s.busy = false
	if out.Commit != nil {
		s.send(*out.Commit)
	}
	for _, a := range out.Attempts {
		if a.Outcome == step.Conflict {
			s.w.result.Lost[string(a.Reason)]++
		}
	}
	for _, d := range out.Decisions {
		s.decided(d)
	}
	if out.Request != nil {
		for _, token := range out.Request.Return {
			if pod, ok := s.offered[token]; ok {
				delete(s.offered, token)
				s.w.result.Returned++
				s.w.queue(pod)
			}
		}
	}
	s.w.offer(s)
	for _, turn := range out.Turns {
		s.w.after(hop, func() {
			for _, other := range s.w.shards {
				if other != s {
					other.inbox.Turns = append(other.inbox.Turns, turn)
					other.wake()
				}
			}
		})
	}
	in := &s.inbox
	switch {
	case out.More || len(in.Facts)+len(in.Ledger)+len(in.Offers)+len(in.Results)+len(in.Turns) > 0:
		s.wake()
	case out.Soon:
		s.w.after(step.SoonAfter, s.wake)
	}
}

// send sends a transaction to the ledger, which carries out one at a time.
func (s *shard) send(c step.Commit) {
	w := s.w
	w.after(hop, func() {
		if w.free.Before(w.now) {
			w.free = w.now
		}
		w.free = w.free.Add(commitTime)
		w.after(w.free.Sub(w.now), func() {
			res := w.commit(context.Background(), c.Txn)
			w.after(hop, func() {
				s.inbox.Results = append(s.inbox.Results, step.Result{ID: c.ID, Txn: res})
				s.wake()
			})
		})
	})
}

// decided records a decision, and has a placed pod bound.
func (s *shard) decided(d events.Decision) {
	delete(s.offered, d.Token)
	if d.Kind != events.DecisionPlaced {
		s.w.fault = fmt.Errorf("places: %s: %s %s: %s", s.id, d.Pod.Name, d.Kind, d.Message)
		return
	}
	s.w.result.Placed = append(s.w.result.Placed, Placement{
		Pod: s.w.pods[d.Pod.UID].DeepCopy(), Node: d.NodeName, Home: d.Evidence.Home,
		revision: d.LedgerRevision, order: d.Evidence.Order,
	})
	s.w.bind(d.Pod.UID, d.NodeName)
}
