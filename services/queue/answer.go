package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// answer returns this replica's answer to a question about a pod or about the queue as a whole. The facts and the core
// are read at two moments, and a pod may have moved in between: the answer is for people. It reports false if this
// replica does not lead, or if ctx ended first.
func (q *Queue) answer(ctx context.Context, question explain.Question) (explain.QueueAnswer, bool) {
	if question.Status {
		return q.statusAnswer(ctx)
	}
	snapshot := q.applied.Snapshot()
	if question.Gang != "" {
		question.Pod = q.leadOf(ctx, snapshot, question.Gang)
	}
	pod, known := podOf(snapshot, question.Pod)
	uid := question.Pod
	if known {
		uid = pod.UID
	}
	var a explain.QueueAnswer
	leads := false
	err := q.query(ctx, func(l *loop) { a, leads = l.core.Answer(uid), l.core.Leads() })
	if err != nil || !leads {
		return a, false
	}
	if a.Known = known; known {
		a.Where = whereIs(pod)
		if _, ours := q.profiles[pod.SchedulerName]; !ours {
			a.Reason = fmt.Sprintf("no profile places pods of scheduler %q", pod.SchedulerName)
		}
	}
	if question.Owner != "" {
		a.Siblings = siblings(snapshot, question, pod)
	}
	return a, true
}

// leadOf returns the UID of the member that stands in the queue for a gang, else that of any member that waits; empty
// if none does.
func (q *Queue) leadOf(ctx context.Context, snapshot *state.Snapshot, gang string) (uid string) {
	namespace, name, _ := strings.Cut(gang, "/")
	_ = q.query(ctx, func(l *loop) { // the asker then gets no answer
		for p := range snapshot.PodsOfGroup(namespace, name) {
			switch pool, _ := l.core.Where(p.UID); pool {
			case waiting.PoolActive, waiting.PoolBackoff, waiting.PoolParked, waiting.PoolOffered:
				uid = p.UID
				return
			case waiting.PoolGated, waiting.PoolGrouped:
				uid = cmp.Or(uid, p.UID)
			}
		}
	})
	return uid
}

// statusAnswer returns the status of the queue and of the ledger as a whole.
func (q *Queue) statusAnswer(ctx context.Context) (explain.QueueAnswer, bool) {
	var a explain.QueueAnswer
	leads := false
	err := q.query(ctx, func(l *loop) {
		if leads = l.core.Leads(); leads {
			a = l.core.Answer("")
			l.watch.Evaluate(l.holds.View(), l.core, q.deps.Clock.Now(), true)
			status := l.watch.Status()
			release := q.cluster.Release()
			status.Kubernetes, status.KubernetesLater = release.Version, release.Later()
			status.FeatureGates = q.cluster.Unfollowed()
			status.Settings = q.cfg.Warnings
			a.Status = &status
		}
	})
	return a, err == nil && leads
}

// podOf finds a pod by UID, or by namespace/name. A UID never contains a slash.
func podOf(s *state.Snapshot, about string) (*state.Pod, bool) {
	if namespace, name, ok := strings.Cut(about, "/"); ok {
		return s.PodByName(namespace, name)
	}
	return s.Pod(about)
}

// whereIs returns what the facts show of a pod's place.
func whereIs(p *state.Pod) explain.Where {
	return explain.Where{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, SchedulerName: p.SchedulerName, Priority: p.Priority,
		Node: p.NodeName, Created: p.Created().Time, Gated: p.Gated, Deleting: p.Deleting, Terminal: p.Terminal,
	}
}

// siblings returns the pods of a controller that were created at question.Since or later, oldest first. It looks at
// all pods, because the namespace of a pod that is gone is no longer known.
func siblings(s *state.Snapshot, question explain.Question, self *state.Pod) []explain.Where {
	var list []explain.Where
	for p := range s.Pods() {
		owner := metav1.GetControllerOfNoCopy(p.Template)
		if p == self || owner == nil || owner.UID != types.UID(question.Owner) || p.Created().Time.Before(question.Since) {
			continue
		}
		list = append(list, whereIs(p))
	}
	slices.SortStableFunc(list, func(a, b explain.Where) int { return a.Created.Compare(b.Created) })
	return list
}
