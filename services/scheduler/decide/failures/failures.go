package failures

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

const (
	// failureWindow is how long such a failure counts.
	failureWindow = 10 * time.Minute
	// failureLimit is how many failures within the window make a pod or a pair be refused, until the oldest has left
	// the window.
	failureLimit = 3
	// spareTime is how long a pod that could not be evicted is spared as a victim.
	spareTime = 5 * time.Minute
	// maxFailures bounds the pods, and the pairs, that are remembered; beyond it all are forgotten. A shard that
	// fails so many plans within the window has another problem than a loop between two workloads.
	maxFailures = 4096
	// firstGatherPause and lastGatherPause bound how long a gang whose places could not all be held is not tried again.
	firstGatherPause, lastGatherPause = time.Second, time.Minute
)

// Memory is a shard's memory of plans that failed. After a restart or a change of partitions the limit starts again,
// which costs failureLimit more plans. The zero value, with Shard and Changed set, remembers nothing.
type Memory struct {
	Shard *shard.State
	// Changed is called with a node on which another pod is spared, or no longer spared.
	Changed func(nodeUID string)
	// pods are the times of the failures of each pod, by UID; pairs those of each pair of owners (avoid.Workload):
	// of the pod, and of a victim. The times are in order.
	pods  map[string][]time.Time
	pairs map[[2]string][]time.Time
	// spared are pods that could not be evicted, by UID. The engine takes them as protected.
	spared map[string]sparedPod
	// gathered are the gangs whose places could not all be held, by UID.
	gathered map[string]gathered
}

// gathered is until when a gang is not tried again, and how long that was.
type gathered struct {
	until time.Time
	pause time.Duration
}

// GatherFailed notes that the places of a gang could not all be held, or were given up, and returns how long it is not
// tried again: a second, and twice as long each time, up to a minute. Each try holds room for a moment that others
// could use. While a gang is not tried, it cannot fail again: the places of its members are given up one by one.
func (l *Memory) GatherFailed(g *gang.Group, now time.Time) time.Duration {
	if left := l.GatherPause(g, now); left > 0 {
		return left
	}
	if l.gathered == nil || len(l.gathered) >= maxFailures {
		l.gathered = map[string]gathered{}
	}
	pause := min(max(2*l.gathered[g.UID].pause, firstGatherPause), lastGatherPause)
	l.gathered[g.UID] = gathered{until: now.Add(pause), pause: pause}
	return pause
}

// GatherPause returns how much longer a gang is not tried; 0 if it may be.
func (l *Memory) GatherPause(g *gang.Group, now time.Time) time.Duration {
	if left := l.gathered[g.UID].until.Sub(now); left > 0 {
		return roundUp(left)
	}
	return 0
}

// GatherDone forgets the failures of a gang, which has all its places.
func (l *Memory) GatherDone(g *gang.Group) { delete(l.gathered, g.UID) }

// sparedPod is where a spared pod runs, and until when it is spared.
type sparedPod struct {
	nodeUID string
	until   time.Time
}

// Record notes that a plan failed. A plan with several victims of one owner counts once for that pair. A victim that
// is gone counts under its own name, as its owner is not known any more.
func (l *Memory) Record(pod *state.Pod, victims []ledger.Entry) {
	if l.pods == nil {
		l.pods, l.pairs = map[string][]time.Time{}, map[[2]string][]time.Time{}
	}
	l.pods[pod.UID] = append(l.pods[pod.UID], l.Shard.Now)
	seen := map[string]bool{}
	for _, v := range victims {
		owner := v.Namespace + "/" + v.Name
		if p, ok := l.Shard.View.Pod(v.PodUID); ok {
			owner = avoid.Workload(p)
		}
		if !seen[owner] {
			seen[owner] = true
			key := [2]string{avoid.Workload(pod), owner}
			l.pairs[key] = append(l.pairs[key], l.Shard.Now)
		}
	}
	l.prune(l.Shard.Now)
}

// Forget forgets the failures that count against a pod and its owner: its preemption has succeeded.
func (l *Memory) Forget(pod *state.Pod) {
	if len(l.pods)+len(l.pairs) == 0 {
		return
	}
	delete(l.pods, pod.UID)
	owner := avoid.Workload(pod)
	maps.DeleteFunc(l.pairs, func(key [2]string, _ []time.Time) bool { return key[0] == owner })
}

// prune forgets failures that are too old, and all of them if there are too many.
func (l *Memory) prune(now time.Time) {
	forgetOld(l.pods, now)
	forgetOld(l.pairs, now)
}

// forgetOld drops the times outside the window, and all of them if there are too many keys.
func forgetOld[K comparable](m map[K][]time.Time, now time.Time) {
	for k, times := range m {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > failureWindow })
		if len(times) == 0 {
			delete(m, k)
			continue
		}
		m[k] = times
	}
	if len(m) > maxFailures {
		clear(m)
	}
}

// tooMany reports whether as many failures as the limit are in the window.
func tooMany(times []time.Time, now time.Time) bool {
	n := 0
	for _, t := range times {
		if now.Sub(t) <= failureWindow {
			n++
		}
	}
	return n >= failureLimit
}

// Refusal explains why there is no plan for a pod, and how much longer that lasts.
type Refusal struct {
	Why  string
	Ends time.Duration
}

// RefusesPod explains why no pod may be evicted for a pod; the zero Refusal if pods may be. It is asked before a
// search.
func (l *Memory) RefusesPod(pod *state.Pod, now time.Time) Refusal {
	times := l.pods[pod.UID]
	if !tooMany(times, now) {
		return Refusal{}
	}
	why := fmt.Sprintf("%d plans to make room for the pod have come to nothing within %s", len(times), failureWindow)
	return Refusal{why, untilFewer(times, now)}
}

// RefusesVictims explains why these pods may not be evicted for a pod; the zero Refusal if they may be. It is asked
// after a search: the pod is refused even if other victims might do, since the search would return the same ones
// again.
func (l *Memory) RefusesVictims(pod *state.Pod, victims []preempt.Victim, now time.Time) Refusal {
	if len(l.pairs) == 0 {
		return Refusal{}
	}
	for _, v := range victims {
		times := l.pairs[[2]string{avoid.Workload(pod), avoid.Workload(v.Pod)}]
		if tooMany(times, now) {
			why := fmt.Sprintf("%d plans to evict pods like %s for pods like this one have come to nothing within %s",
				len(times), v.Pod.Key(), failureWindow)
			return Refusal{why, untilFewer(times, now)}
		}
	}
	return Refusal{}
}

// untilFewer returns how long it takes until there are fewer than failureLimit failures in the window.
func untilFewer(times []time.Time, now time.Time) time.Duration {
	return roundUp(times[len(times)-failureLimit].Add(failureWindow).Sub(now) + 1)
}

// roundUp rounds a waiting time up to the unit in which it is recorded, so that it has passed after the recorded
// time.
func roundUp(d time.Duration) time.Duration {
	return max(d+time.Millisecond-1, time.Millisecond).Truncate(time.Millisecond)
}

// SpareEnds returns how long it takes until the next spared pod of lower priority may be a victim again; 0 if there
// is none.
func (l *Memory) SpareEnds(priority int32) time.Duration {
	var first time.Time
	for uid, s := range l.spared {
		pod, ok := l.Shard.View.Pod(uid)
		if ok && !(pod.Deleting || pod.Terminal) && pod.Priority < priority && (first.IsZero() || s.until.Before(first)) {
			first = s.until
		}
	}
	if first.IsZero() {
		return 0
	}
	return roundUp(first.Sub(l.Shard.Now))
}

// Spare keeps pods that could not be evicted from being victims for a while. Victims that are being deleted are left
// out: they leave anyway.
func (l *Memory) Spare(victims []ledger.Entry) {
	if l.spared == nil {
		l.spared = map[string]sparedPod{}
	}
	for _, v := range victims {
		pod, ok := l.Shard.View.Pod(v.PodUID)
		if !ok || pod.Deleting {
			continue
		}
		if n, ok := l.Shard.View.Snapshot().NodeByName(pod.NodeName); ok {
			l.spared[v.PodUID] = sparedPod{nodeUID: n.UID, until: l.Shard.Now.Add(spareTime)}
			l.Changed(n.UID)
		}
	}
}

// SparedOn returns the UIDs of the spared pods on a node, sorted.
func (l *Memory) SparedOn(nodeUID string) []string {
	if len(l.spared) == 0 {
		return nil
	}
	var uids []string
	for uid, s := range l.spared {
		if s.nodeUID == nodeUID {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Expire forgets failures and spared pods that have lasted long enough. It runs with the heartbeat.
func (l *Memory) Expire() {
	l.prune(l.Shard.Now)
	for uid, s := range l.spared {
		if !l.Shard.Now.Before(s.until) {
			delete(l.spared, uid)
			l.Changed(s.nodeUID)
		}
	}
}

// Any reports whether a failure is remembered that the bind of a pod could clear.
func (l *Memory) Any() bool { return len(l.pairs) > 0 }

// SetSpared makes exactly these pods spared, without an end; they are given with the UIDs of their nodes. Replay uses
// it to restore the state of a record.
func (l *Memory) SetSpared(nodes map[string]string) {
	changed := map[string]bool{}
	for _, s := range l.spared {
		changed[s.nodeUID] = true
	}
	l.spared = map[string]sparedPod{}
	for uid, nodeUID := range nodes {
		l.spared[uid] = sparedPod{nodeUID: nodeUID}
		changed[nodeUID] = true
	}
	for nodeUID := range changed {
		l.Changed(nodeUID)
	}
}

// SparedPods returns the UIDs of all spared pods, sorted.
func (l *Memory) SparedPods() []string { return slices.Sorted(maps.Keys(l.spared)) }
