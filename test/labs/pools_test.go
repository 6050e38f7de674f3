//go:build e2e

package labs

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metrics that these labs look at, as "name" or "name{label}".
const (
	unschedulable  = `scheduler_pending_pods{queue="unschedulable"}`
	noNode         = `scheduler_schedule_attempts_total{result="unschedulable"}`
	sweepCaught    = `scheduler_pod_scheduled_after_flush_total`
	incoming       = `scheduler_queue_incoming_pods_total{event=%q}`
	attemptsOfAll  = `scheduler_pod_scheduling_attempts_sum`
	releasesOfPods = "ReservationReleased"
)

func threePools(l *lab) {
	const (
		noSSD  = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
		noRoom = "0/1 nodes are available: 1 Insufficient cpu."
	)
	l.next()
	l.schedulable(1)
	l.next()
	l.pending(named("wants-ssd"), 1, noSSD)
	l.pending(named("wants-room"), 1, noRoom)
	l.value(unschedulable, 2)
	l.output(unschedulable + " 2")
	l.next()
	l.output(" 2")
	l.next()
	l.node("wants-ssd")
	l.pending(named("wants-room"), 1, noRoom)
	l.value(noNode, 2)
	l.value(fmt.Sprintf(incoming, "NodeUpdateNodeLabel"), 1)
	l.next()
	l.node("wants-room")
	l.value(unschedulable, 0)
	l.value(fmt.Sprintf(incoming, "AssignedPodDelete"), 1)
	l.value(sweepCaught, 0)
	l.output(`event="AssignedPodDelete"`)
}

func priority(l *lab) {
	const (
		closed = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
		full   = "0/1 nodes are available: 1 Insufficient cpu."
		// backoffs is more than the pause after a first attempt.
		backoffs = 3 * time.Second
	)
	l.next()
	l.schedulable(1)
	l.next()
	l.pending(labelled("class"), 5, closed)
	l.pause(backoffs)
	l.next()
	l.running(labelled("class"), "high-1", "high-2", "low-1")
	l.pending(labelled("class"), 2, full)
	l.next()
	l.running(labelled("class"), "high-2", "low-1", "low-2")
	l.pending(labelled("class"), 1, full)
}

// pause waits as the page asks its reader to.
func (l *lab) pause(d time.Duration) {
	l.Helper()
	select {
	case <-time.After(d):
	case <-l.Context().Done():
		l.Fatal(l.Context().Err())
	}
}

// backoff lets the binds of a pod fail and looks at the pauses between them.
func backoff(l *lab) {
	l.next()
	l.schedulable(1)
	l.bindsRefused()
	l.next()
	if l.berth == nil {
		l.skip()
		l.next()
		l.node("unlucky")
		l.skip()
		return
	}
	// Pauses of 1, 2 and 4 seconds, and the time that a bind takes to fail and to be taken back.
	const failures, least, most = 4, 7 * time.Second, 15 * time.Second
	begun := l.failed(1)
	took := l.failed(failures).Sub(begun)
	if took < least || took > most {
		l.Errorf("%d attempts after the first took %s, want %s to %s", failures-1, took, least, most)
	}
	l.output(`queue="backoff"`)
	l.restart()
	l.next()
	removed := time.Now()
	l.node("unlucky")
	if took := time.Since(removed); took > most {
		l.Errorf("bound %s after its binds could succeed", took)
	}
	l.eventually(within, "the pod's attempts count from before the restart", func(ctx context.Context) (string, error) {
		n, err := l.berth.Metric(ctx, attemptsOfAll)
		if err != nil || n > failures {
			return "", err
		}
		return fmt.Sprint(n), nil
	})
	l.output(attemptsOfAll)
}

// bindsRefused waits until the API server has noticed the policy: a bind of a pod that is not
// there is refused by it before the pod is looked for.
func (l *lab) bindsRefused() {
	l.Helper()
	const namespace = metav1.NamespaceDefault
	probe := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unlucky-probe"},
		Target:     corev1.ObjectReference{Name: "none"},
	}
	l.eventually(within, "the policy refuses binds", func(ctx context.Context) (string, error) {
		err := l.client.CoreV1().Pods(namespace).Bind(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || apierrors.IsNotFound(err) {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
}

// failed waits until the pod has come back from n failed binds and returns when it had.
func (l *lab) failed(n float64) time.Time {
	l.Helper()
	what := fmt.Sprintf("%v binds failed", n)
	l.eventually(within, what, func(ctx context.Context) (string, error) {
		got, err := l.berth.Metric(ctx, "scheduler_queue_incoming_pods_total", `event="`+releasesOfPods+`"`)
		if err != nil || got >= n {
			return "", err
		}
		return fmt.Sprint(got), nil
	})
	return time.Now()
}

func blockedMany(l *lab) {
	const blocked = 10_000
	l.limit = 10 * within // they take the API server a while to make, and to delete
	l.next()
	l.schedulable(1)
	l.next()
	l.value(unschedulable, blocked)
	l.output(unschedulable)
	before := l.attempts()
	begun := time.Now()
	l.next()
	const each = 5 * time.Second // kubectl itself takes most of it
	if took := time.Since(begun); took > 10*each {
		l.Errorf("ten pods took %s, want at most %s each", took, each)
	}
	// Ten deletions may bring a few pods back each, but not all of them.
	if again := l.attempts() - before; again > blocked/10 {
		l.Errorf("%v more attempts found no node", again)
	}
	l.value(sweepCaught, 0)
}

// attempts counts those that found no node.
func (l *lab) attempts() float64 {
	l.Helper()
	if l.berth == nil {
		return 0
	}
	n, err := l.berth.Metric(l.Context(), "scheduler_schedule_attempts_total", `result="unschedulable"`)
	l.must(err)
	return n
}

var labelsOf = regexp.MustCompile(`^([a-z_]+)(?:{(.*)})?$`)

// value waits until a metric of Berth, as name or name{label="value"}, has a value.
func (l *lab) value(metric string, want float64) {
	l.Helper()
	if l.berth == nil {
		return
	}
	parts := labelsOf.FindStringSubmatch(metric)
	l.eventually(l.limit, metric+" is "+strconv.FormatFloat(want, 'f', -1, 64), func(ctx context.Context) (string, error) {
		got, err := l.berth.Metric(ctx, parts[1], parts[2])
		if err != nil || got == want {
			return "", err
		}
		return fmt.Sprint(got), nil
	})
}

// output runs the README's next block, which shows metrics of Berth.
func (l *lab) output(want string) {
	l.Helper()
	if l.berth == nil {
		l.skip()
		return
	}
	if got := l.next(); !strings.Contains(got, want) {
		l.Errorf("the README's command shows %q, want %q in it", got, want)
	}
}

// restart stops Berth and starts it again as the README's first block did.
func (l *lab) restart() {
	l.Helper()
	l.must(l.berth.Stop(l.Context()))
	l.up(l.first)
}

// quotaGate knows Berth's own rule: kube-scheduler leaves the gate alone.
func quotaGate(l *lab) {
	if l.berth == nil {
		l.Skip("the quota gate is Berth's own")
	}
	l.next()
	l.schedulable(1)
	l.policySeen()
	l.next()
	jobs := labelled("app=job")
	l.running(jobs, "job-1", "job-2")
	l.waiting(jobs, "job-3", "job-4")
	l.next()
	l.running(jobs, "job-2", "job-3")
	l.waiting(jobs, "job-4")
	l.next()
	l.running(jobs, "job-2", "job-3", "job-4")
	l.value(noNode, 0)
}

// policySeen waits until the admission policy gives pods the gate.
func (l *lab) policySeen() {
	l.Helper()
	namespace := l.namespaceName()
	l.eventually(l.limit, "the admission policy is in force", func(ctx context.Context) (string, error) {
		probe := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
		}
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		pod, err := l.client.CoreV1().Pods(namespace).Create(ctx, probe, dry)
		if err != nil || len(pod.Spec.SchedulingGates) > 0 {
			return "", err
		}
		return "a new pod has no gate", nil
	})
}

// running waits until the pods of these names, and no others, are bound.
func (l *lab) running(which metav1.ListOptions, want ...string) {
	l.Helper()
	var got []string
	for _, pod := range l.bound(which, len(want)) {
		got = append(got, pod.Name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.Errorf("bound are %v, want %v", got, want)
	}
}

// waiting checks that the pods of these names, and no others, are gated.
func (l *lab) waiting(which metav1.ListOptions, want ...string) {
	l.Helper()
	pods, err := l.pods(l.Context(), which)
	l.must(err)
	var got []string
	for i := range pods {
		if scheduled(&pods[i]).Reason == corev1.PodReasonSchedulingGated {
			got = append(got, pods[i].Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.Errorf("gated are %v, want %v", got, want)
	}
}
