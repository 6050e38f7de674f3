package preempt

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// Preemption that fails must not be repeated for ever: pods would be evicted for pods that never run. So a plan that
// ended without a place for its pod, for a reason other than the pod itself, counts against the pod, and against
// each pair of the pod's owner and the owner of a victim. When a pod is bound, everything against its owner is
// cleared.

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
)

// failures is a shard's memory of plans that failed. It is not in the ledger: after a restart or a change of
// partitions the limit starts again, which costs failureLimit more plans. The zero value, with shard and changed
// set, remembers nothing.
type failures struct {
	shard *shard.State
	// changed is called with a node on which another pod is spared, or no longer spared.
	changed func(nodeUID string)
	// pods are the times of the failures of each pod, by UID; pairs those of each pair of owners (avoid.Workload):
	// of the pod, and of a victim. The times are in order.
	pods  map[string][]time.Time
	pairs map[[2]string][]time.Time
	// spared are pods that could not be evicted, by UID. The engine takes them as protected (Holds.protect).
	spared map[string]sparedPod
}

// sparedPod is where a spared pod runs, and until when it is spared.
type sparedPod struct {
	nodeUID string
	until   time.Time
}

// record notes that a plan failed. A plan with several victims of one owner counts once for that pair. A victim that
// is gone counts under its own name, as its owner is not known any more.
func (l *failures) record(pod *state.Pod, victims []ledger.Entry) {
	if l.pods == nil {
		l.pods, l.pairs = map[string][]time.Time{}, map[[2]string][]time.Time{}
	}
	l.pods[pod.UID] = append(l.pods[pod.UID], l.shard.Now)
	seen := map[string]bool{}
	for _, v := range victims {
		owner := v.Namespace + "/" + v.Name
		if p, ok := l.shard.View.Pod(v.PodUID); ok {
			owner = avoid.Workload(p)
		}
		if !seen[owner] {
			seen[owner] = true
			key := [2]string{avoid.Workload(pod), owner}
			l.pairs[key] = append(l.pairs[key], l.shard.Now)
		}
	}
	l.prune(l.shard.Now)
}

// forget forgets the failures that count against a pod and its owner: its preemption has succeeded.
func (l *failures) forget(pod *state.Pod) {
	if len(l.pods)+len(l.pairs) == 0 {
		return
	}
	delete(l.pods, pod.UID)
	owner := avoid.Workload(pod)
	maps.DeleteFunc(l.pairs, func(key [2]string, _ []time.Time) bool { return key[0] == owner })
}

// prune forgets failures that are too old, and all of them if there are too many.
func (l *failures) prune(now time.Time) {
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

// refusal explains why there is no plan for a pod, and how much longer that lasts.
type refusal struct {
	why  string
	ends time.Duration
}

// refusesPod explains why no pod may be evicted for a pod; the zero refusal if pods may be. It is asked before a
// search.
func (l *failures) refusesPod(pod *state.Pod, now time.Time) refusal {
	times := l.pods[pod.UID]
	if !tooMany(times, now) {
		return refusal{}
	}
	why := fmt.Sprintf("%d plans to make room for the pod have come to nothing within %s", len(times), failureWindow)
	return refusal{why, untilFewer(times, now)}
}

// refusesVictims explains why these pods may not be evicted for a pod; the zero refusal if they may be. It is asked
// after a search: the pod is refused even if other victims might do, since the search would return the same ones
// again.
func (l *failures) refusesVictims(pod *state.Pod, victims []preempt.Victim, now time.Time) refusal {
	if len(l.pairs) == 0 {
		return refusal{}
	}
	for _, v := range victims {
		times := l.pairs[[2]string{avoid.Workload(pod), avoid.Workload(v.Pod)}]
		if tooMany(times, now) {
			why := fmt.Sprintf("%d plans to evict pods like %s for pods like this one have come to nothing within %s",
				len(times), v.Pod.Key(), failureWindow)
			return refusal{why, untilFewer(times, now)}
		}
	}
	return refusal{}
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

// spareEnds returns how long it takes until the next spared pod of lower priority may be a victim again; 0 if there
// is none.
func (l *failures) spareEnds(priority int32) time.Duration {
	var first time.Time
	for uid, s := range l.spared {
		pod, ok := l.shard.View.Pod(uid)
		if ok && !isLeaving(pod) && pod.Priority < priority && (first.IsZero() || s.until.Before(first)) {
			first = s.until
		}
	}
	if first.IsZero() {
		return 0
	}
	return roundUp(first.Sub(l.shard.Now))
}

// spare keeps pods that could not be evicted from being victims for a while. Victims that are being deleted are left
// out: they leave anyway.
func (l *failures) spare(victims []ledger.Entry) {
	if l.spared == nil {
		l.spared = map[string]sparedPod{}
	}
	for _, v := range victims {
		pod, ok := l.shard.View.Pod(v.PodUID)
		if !ok || pod.Deleting {
			continue
		}
		if n, ok := l.shard.View.Snapshot().NodeByName(pod.NodeName); ok {
			l.spared[v.PodUID] = sparedPod{nodeUID: n.UID, until: l.shard.Now.Add(spareTime)}
			l.changed(n.UID)
		}
	}
}

// sparedOn returns the UIDs of the spared pods on a node, sorted.
func (l *failures) sparedOn(nodeUID string) []string {
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

// expire forgets failures and spared pods that have lasted long enough. It runs with the heartbeat.
func (l *failures) expire() {
	l.prune(l.shard.Now)
	for uid, s := range l.spared {
		if !l.shard.Now.Before(s.until) {
			delete(l.spared, uid)
			l.changed(s.nodeUID)
		}
	}
}

// sparedPods returns the UIDs of all spared pods, sorted.
func (l *failures) sparedPods() []string { return slices.Sorted(maps.Keys(l.spared)) }
