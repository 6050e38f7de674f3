package waiting

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/heap"
)

// Pods that the same rules rejected for the same reasons share a lane. An event that could help one of them could
// help all of them, even ten thousand; but the room that a deleted pod leaves is soon taken. So only a few pods of a
// lane are tried at a time: LaneWidth, twice as many after each pod that was placed, and LaneWidth again after a
// rejection. The others wait in the order in which they would be tried, and leave the shards to pods that have a
// chance. Once a pod has been rejected, and nothing that its rules listen to has happened since the state from which
// that verdict was computed, the verdict covers the other pods of the lane too: they are parked again without an
// attempt of their own. (Upstream tries them all, before any pod that came later.) A pod's condition comes from its
// own last attempt; the periodic flush ensures that this attempt is recent.
//
// An active pod with a permit of its lane is in its partition; without one it is in the lane. A pod in backoff that
// may be offered early is listed in its partition while permits are available, and otherwise waits in the lane.
const (
	LaneWidth    = 2
	MaxLaneWidth = 256
)

// lane is one group of pods that were rejected alike.
type lane struct {
	key string
	// pods counts the entries of the lane, permits those with a permit, and listed those that are listed as early.
	pods, permits, listed int
	// width is how many permits there may be: LaneWidth at first, doubled by each pod of the lane that is placed.
	width int
	// plugins are the rules that rejected its pods. rejected is the newest verdict about one of them.
	plugins  []string
	rejected LaneVerdict
	// blocked holds the active pods without a permit. unlisted holds those in backoff that may be offered early and are
	// not listed.
	blocked  *Bag
	unlisted *heap.Heap[*Entry]
}

// LaneVerdict is the message of a verdict about a pod of the lane, and the state it was computed from.
type LaneVerdict struct {
	FactSequence   uint64
	factEpoch      uint64
	LedgerRevision int64
	message        string
	retryAt        Moment
}

// lanes holds all lanes. dirty holds those in which more pods may have become eligible.
type lanes struct {
	all     map[string]*lane
	dirty   map[*lane]struct{}
	journal *Journal
	// early holds pods in backoff that may be offered early.
	early earlyList
}

func newLanes(j *Journal) lanes {
	return lanes{all: map[string]*lane{}, dirty: map[*lane]struct{}{}, journal: j, early: newEarlyList()}
}

// join puts a rejected pod into its lane.
func (s *lanes) join(e *Entry, profile *placement.Profile) {
	key := laneKey(e, profile)
	l, ok := s.all[key]
	if !ok {
		l = &lane{
			key: key, width: LaneWidth, plugins: e.Verdict.Plugins, blocked: newBag(PoolActive, Before),
			unlisted: heap.New(earlyBefore, inEarly),
		}
		s.all[key] = l
	}
	l.pods++
	e.lane = l
	rules := l.rulesOf(e.Pod.SchedulerName)
	s.journal.track(rules)
}

// laneKey returns what the pods of a lane have in common: profile, priority, whether they may preempt, and for each
// rule that rejected them what its hints depend on. Hints do not depend on priority or on preemption, but verdicts
// do.
func laneKey(e *Entry, profile *placement.Profile) string {
	var b strings.Builder
	b.WriteString(e.Pod.SchedulerName)
	b.WriteByte(0)
	b.WriteString(strconv.Itoa(int(e.Pod.Priority)))
	if neverPreempts(e.Pod) {
		b.WriteByte('!')
	}
	for _, plugin := range e.Verdict.Plugins {
		b.WriteByte(0)
		b.WriteString(plugin)
		b.WriteByte(0)
		b.WriteString(profile.Interest(plugin, e.Pod).Class)
	}
	return b.String()
}

// neverPreempts reports whether a pod's preemption policy is Never.
func neverPreempts(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// leave takes a pod out of its lane, if it is in one. The pod is in no pool, or the caller moves it.
func (s *lanes) leave(e *Entry) {
	l := e.lane
	if l == nil {
		return
	}
	s.giveBackPermit(e)
	e.lane = nil
	if l.pods--; l.pods == 0 {
		delete(s.all, l.key)
		delete(s.dirty, l)
	}
}

// answered takes a pod out of its lane after an answer, from which the lane learns.
func (s *lanes) answered(e *Entry, answer events.DecisionKind) {
	if e.lane != nil {
		s.markDirty(e)
		e.lane.learn(answer)
		s.leave(e)
	}
}

// markDirty marks the lane of a pod, if it is in one, as one in which more pods may have become eligible.
func (s *lanes) markDirty(e *Entry) {
	if e.lane != nil {
		s.dirty[e.lane] = struct{}{}
	}
}

// route returns the bag that a pod enters when it is sent to one: an active pod without a permit of its lane is held
// back in the lane instead. A pod that is neither active nor offered has no use for its permit and gives it back.
func (s *lanes) route(e *Entry, to *Bag) *Bag {
	if to.Pool != PoolActive && to.Pool != PoolOffered {
		s.giveBackPermit(e)
	}
	if to.Pool != PoolActive || e.lane == nil || e.permit {
		return to
	}
	s.markDirty(e)
	return e.lane.blocked
}

// givePermit lets a pod of a lane be tried.
func (l *lane) givePermit(e *Entry) {
	e.permit = true
	l.permits++
}

// giveBackPermit returns a pod's permit, so that another pod of the lane can have it.
func (s *lanes) giveBackPermit(e *Entry) {
	if e.permit {
		e.permit = false
		e.lane.permits--
		s.dirty[e.lane] = struct{}{}
	}
}

// learn widens or narrows a lane by the answer to one of its pods.
func (l *lane) learn(answer events.DecisionKind) {
	switch answer {
	case events.DecisionPlaced:
		l.width = min(2*l.width, MaxLaneWidth)
	case events.DecisionUnplaceable:
		l.width = LaneWidth
	}
}

// rulesOf returns the keys of the rules that rejected the pods of a lane.
func (l *lane) rulesOf(profile string) []ruleKey {
	if len(l.plugins) == 0 {
		return []ruleKey{{profile: profile}}
	}
	keys := make([]ruleKey, len(l.plugins))
	for i, plugin := range l.plugins {
		keys[i] = ruleKey{profile, plugin}
	}
	return keys
}

// rejected records the verdict about a pod for the other pods of its lane.
func (s *lanes) rejected(e *Entry) {
	v, l := &e.Verdict, e.lane
	if v.FactSequence >= l.rejected.FactSequence && v.LedgerRevision >= l.rejected.LedgerRevision {
		l.rejected = LaneVerdict{v.FactSequence, v.FactEpoch, v.LedgerRevision, v.Message, v.retryAt}
	}
	s.dirty[l] = struct{}{}
}

// covers reports whether the newest verdict of a pod's lane also holds for the pod. Neither must the pod have changed
// since the state that verdict was computed from, nor anything have happened that the rules listen to; and the pod
// must not be on its way because of a flush or because a plugin requested an attempt.
func (s *lanes) covers(e *Entry) bool {
	r := &e.lane.rejected
	if r.FactSequence == 0 || e.Sequence > r.FactSequence || e.Attempt.Flushed || e.Attempt.Activated {
		return false
	}
	return s.journal.unchanged(e.lane.rulesOf(e.Pod.SchedulerName), r.FactSequence, r.LedgerRevision)
}

// listEarly lists a pod in backoff among those that may be offered early, if it may.
func (s *lanes) listEarly(e *Entry) {
	switch {
	case e.early != nil || !e.mayLeaveEarly():
	case e.lane != nil:
		e.early = e.lane.unlisted
		e.early.Put(e)
		s.markDirty(e)
	default:
		s.early.put(e)
	}
}

// dropEarly takes a pod off the pods that may be offered early, if it is one.
func (s *lanes) dropEarly(e *Entry) {
	if e.early != nil && s.early.drop(e) {
		s.markDirty(e)
	}
}

// unlistEarly takes a pod off the list of those that may be offered early because its lane is full.
func (s *lanes) unlistEarly(e *Entry) {
	s.dropEarly(e)
	e.early = e.lane.unlisted
	e.early.Put(e)
}

// firstEarly returns the first pod of some partitions that may leave its backoff early, is not covered by a verdict of
// its lane and whose lane is not full; nil for none.
func (s *lanes) firstEarly(partitions []int32) *Entry {
	for s.early.count > 0 {
		best := s.early.first(partitions)
		switch {
		case best == nil || best.lane == nil:
			return best
		case s.covers(best):
			s.dropEarly(best)
			best.covered = true
		case best.lane.permits >= best.lane.width:
			s.unlistEarly(best)
		default:
			return best
		}
	}
	return nil
}

// SuspectAfter is how many leases in a row may end without an answer before a pod becomes suspect. A lease that ends
// without an answer may be chance: a message was lost, or the shard was stopped. Or the pod kills every process that
// works on it, and with it the answers to all pods that were being tried with it. A suspect pod is therefore offered
// only to a shard that has no other pod leased, and the shard gets no other until it has answered: this soon
// separates innocent pods from guilty ones. A pod that still gets no answer is quarantined, and only a change of the
// pod itself ends that.
const SuspectAfter = 2

// Suspect reports whether a pod is suspect; see SuspectAfter.
func (e *Entry) Suspect() bool { return e.Attempt.Lost >= SuspectAfter }

// mayLeaveEarly reports whether a pod in backoff may be offered early when there is nothing else to do. Rejected pods
// may and failed ones may not (upstream's podErrorBackoffQ), and no pod may before the facts show its last condition.
func (e *Entry) mayLeaveEarly() bool {
	return e.Verdict.Errors == 0 && e.Attempt.Released == 0 && !e.Await.On && !e.Suspect() && !e.covered
}

// newEpoch voids the verdicts that were computed from facts which are lost.
func (s *lanes) newEpoch(known Epochs) {
	for _, l := range s.all {
		l.rejected.FactSequence = known.Valid(l.rejected.FactSequence, l.rejected.factEpoch)
	}
}

// check recounts the lanes of the given pods.
func (s *lanes) check(pods map[string]*Entry) error {
	counted := map[*lane]lane{}
	for _, e := range pods {
		l := e.lane
		if l == nil {
			continue
		}
		n := counted[l]
		n.pods++
		if e.permit {
			n.permits++
		}
		if s.early.has(e) {
			n.listed++
		}
		counted[l] = n
	}
	for key, l := range s.all {
		n := counted[l]
		if l.key != key || n.pods != l.pods || n.permits != l.permits || n.listed != l.listed || l.pods == 0 {
			return fmt.Errorf("I5: lane %q has %+v, counted %+v", key, *l, n)
		}
		if l.permits < l.width && l.blocked.Len() > 0 {
			return fmt.Errorf("I6: lane %q has room and holds %d back", key, l.blocked.Len())
		}
	}
	if len(counted) != len(s.all) {
		return fmt.Errorf("I5: %d lanes, counted %d", len(s.all), len(counted))
	}
	return nil
}

// earlyList holds the pods in backoff that may be offered early, by partition.
type earlyList struct {
	byPartition [ledger.Partitions]*heap.Heap[*Entry]
	count       int
}

func newEarlyList() earlyList {
	var l earlyList
	for p := range l.byPartition {
		l.byPartition[p] = heap.New(earlyBefore, inEarly)
	}
	return l
}

// has reports whether a pod is listed.
func (l *earlyList) has(e *Entry) bool { return e.early == l.byPartition[e.Partition] }

// put lists a pod, which is in no list of pods that may be offered early.
func (l *earlyList) put(e *Entry) {
	e.early = l.byPartition[e.Partition]
	e.early.Put(e)
	l.count++
	if e.lane != nil {
		e.lane.listed++
	}
}

// drop takes a pod off the list, or off the pods of its lane that are not listed. It reports whether the pod was
// listed.
func (l *earlyList) drop(e *Entry) bool {
	listed := l.has(e)
	e.early.Drop(e)
	e.early = nil
	if listed {
		l.count--
		if e.lane != nil {
			e.lane.listed--
		}
	}
	return listed
}

// first returns the first listed pod of some partitions; nil for none.
func (l *earlyList) first(partitions []int32) *Entry {
	var best *Entry
	for _, p := range partitions {
		if e := l.byPartition[p].First(); e != nil && (best == nil || earlyBefore(e, best)) {
			best = e
		}
	}
	return best
}
