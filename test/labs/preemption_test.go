//go:build e2e

package labs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/observe"
)

// The labs in this file are about what kube-scheduler fails to do. With SCHEDULER=kube-scheduler
// they check that it fails as their pages say.

const (
	// quiet is how long nothing may happen until a state counts as final. The descheduler makes some passes in it,
	// and a pod in backoff is tried again once at least.
	quiet = 15 * time.Second
	// noVictims is kube-scheduler's message when it has found no victims.
	noVictims = "No preemption victims found for incoming pod"
)

// upstream means that kube-scheduler has to do what the lab describes.
func (l *lab) upstream() bool { return *scheduler == kubeScheduler }

// observe starts to watch evictions and deletions of pods.
func (l *lab) observe() *observe.Observer {
	l.Helper()
	o, err := observe.Start(l.Context(), l.client)
	l.must(err)
	return o
}

// evicted are the names of the pods that were evicted, in order of their names.
func (l *lab) evicted(o *observe.Observer) []string {
	l.Helper()
	evictions, err := o.Evictions()
	l.must(err)
	var names []string
	for _, e := range evictions {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// wantEvicted waits until the observer, which sees everything a little later, has seen these
// evictions and no others.
func (l *lab) wantEvicted(o *observe.Observer, want ...string) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("evicted are %v", want), func(context.Context) (string, error) {
		if got := l.evicted(o); !slices.Equal(got, want) {
			return fmt.Sprint(got), nil
		}
		return "", nil
	})
}

// clean waits until the observer reports no violation. A budget that was exceeded or a pod evicted twice remains a
// violation; an eviction that looks useless may still turn out to have been useful.
func (l *lab) clean(o *observe.Observer) {
	l.Helper()
	l.eventually(within, "the observer finds nothing wrong", func(context.Context) (string, error) {
		found, err := o.Findings()
		if len(found) > 0 {
			return fmt.Sprint(found), err
		}
		return "", err
	})
}

// wantFinding checks that the observer has found something of a kind, as it must of kube-scheduler.
func (l *lab) wantFinding(o *observe.Observer, kind observe.Kind) {
	l.Helper()
	found, err := o.Findings()
	l.must(err)
	for _, f := range found {
		l.Logf("%s: %s", f.Kind, f.Text)
	}
	if !slices.ContainsFunc(found, func(f observe.Finding) bool { return f.Kind == kind }) {
		l.Errorf("kube-scheduler: nothing was found of kind %q", kind)
	}
}

// stays checks that a pod continues to wait, and returns its final message.
func (l *lab) stays(name string) string {
	l.Helper()
	l.pause(quiet)
	pods, err := l.pods(l.Context(), named(name))
	l.must(err)
	if len(pods) != 1 || pods[0].Spec.NodeName != "" {
		l.Fatalf("%s does not wait: %+v", name, pods)
	}
	return scheduled(&pods[0]).Message
}

// hasMessage waits until a pod that is not bound has all parts in its message.
func (l *lab) hasMessage(name string, parts ...string) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("%s says %q", name, parts), func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, named(name))
		if err != nil || len(pods) != 1 {
			return fmt.Sprintf("%d pods", len(pods)), err
		}
		message := scheduled(&pods[0]).Message
		for _, part := range parts {
			if pods[0].Spec.NodeName != "" || !strings.Contains(message, part) {
				return fmt.Sprintf("it is on %q and says %q", pods[0].Spec.NodeName, message), nil
			}
		}
		return "", nil
	})
}

// hasEvent waits for an event about a pod that contains a text. Its condition may have a newer message already: the pod
// is tried again at once.
func (l *lab) hasEvent(name, part string) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("an event of %s says %q", name, part), func(ctx context.Context) (string, error) {
		all, err := l.client.EventsV1().Events(l.namespaceName()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		var notes []string
		for i := range all.Items {
			if all.Items[i].Regarding.Name == name {
				notes = append(notes, all.Items[i].Note)
			}
		}
		if slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, part) }) {
			return "", nil
		}
		return fmt.Sprintf("%q", notes), nil
	})
}

// gone waits until there is no pod of a name, one that is still leaving included.
func (l *lab) gone(name string) {
	l.Helper()
	l.eventually(within, name+" is gone", func(ctx context.Context) (string, error) {
		_, err := l.client.CoreV1().Pods(l.namespaceName()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there", err
	})
}

// on waits until a pod is bound, and checks where.
func (l *lab) on(name, node string) {
	l.Helper()
	if got := l.node(name); got != node {
		l.Errorf("%s is on %s, want %s", name, got, node)
	}
}

func affinityVictim(l *lab) {
	o := l.observe()
	l.next()
	l.schedulable(2)
	l.next()
	l.on("cache", "affinity-victim-0")
	l.on("batch", "affinity-victim-0")
	l.next()
	// Without the pods of lower priority it finds no affinity.
	const broken = "node(s) didn't match pod affinity rules."
	if l.upstream() {
		if says := l.stays("web"); !strings.HasSuffix(says, broken) {
			l.Errorf("web says %q", says)
		}
	} else {
		l.on("web", "affinity-victim-0")
		l.on("cache", "affinity-victim-0")
		l.wantEvicted(o, "batch")
	}
	l.next()
	l.on("store", "affinity-victim-1")
	atOnce := l.next()
	if l.upstream() {
		if says := l.stays("report"); !strings.HasSuffix(says, broken) || strings.Contains(says, "store") {
			l.Errorf("report says %q", says)
		}
		l.wantEvicted(o)
		return
	}
	l.Logf("report says at once: %s", atOnce)
	l.hasMessage("report",
		`Required affinity ("app=store" by kubernetes.io/hostname) needs pod lab-affinity-victim/store on `+
			`node affinity-victim-1, which has priority 10 and would have to go for this one (priority 100): raise its priority`)
	l.stays("report")
	l.wantEvicted(o, "batch")
	l.clean(o)
}

func crossNode(l *lab) {
	o := l.observe()
	l.next()
	l.schedulable(5)
	l.next()
	l.on("guard", "cross-node-1")
	l.next()
	const kept = "0/5 nodes are available: "
	if says := l.stays("web"); !strings.HasPrefix(says, kept) {
		l.Errorf("web says %q", says)
	}
	l.wantEvicted(o)
	o.Excuse(l.namespaceName(), "web")
	l.next()
	if l.upstream() {
		if says := l.stays("web"); !strings.Contains(says, noVictims) {
			l.Errorf("web says %q", says)
		}
	} else {
		l.on("web", "cross-node-0")
		l.wantEvicted(o, "guard")
	}
	l.next()
	l.on("batch", "cross-node-3")
	l.next()
	if l.upstream() {
		if says := l.stays("even"); !strings.Contains(says, noVictims) {
			l.Errorf("even says %q", says)
		}
		l.wantEvicted(o)
		return
	}
	l.on("even", "cross-node-2")
	l.wantEvicted(o, "batch", "guard")
}

func nominationRace(l *lab) {
	o := l.observe()
	l.next()
	l.schedulable(2)
	l.next()
	l.bound(metav1.ListOptions{}, 2)
	l.next()
	l.next()
	if l.upstream() {
		// It takes the room that was made for large, and is evicted in its turn.
		l.gone("quick")
		l.on("large", "nomination-race-0")
		l.wantEvicted(o, "prompt", "quick", "slow")
		return
	}
	l.on("quick", "nomination-race-1")
	l.on("large", "nomination-race-0")
	l.wantEvicted(o, "prompt", "slow")
	l.clean(o)
}

func gracefulIntruder(l *lab) {
	o := l.observe()
	l.next()
	l.schedulable(3)
	l.next()
	l.bound(metav1.ListOptions{}, 3)
	l.next()
	l.nominated("waiting", "graceful-intruder-0")
	l.next()
	if l.upstream() {
		l.on("intruder", "graceful-intruder-0")
		l.leaving("slow")
		l.gone("slow")
		l.stays("waiting")
		l.wantEvicted(o, "prompt", "slow")
	} else {
		l.on("intruder", "graceful-intruder-1")
		l.leaving("slow")
		l.nominated("waiting", "graceful-intruder-0")
		l.on("waiting", "graceful-intruder-0")
		l.wantEvicted(o, "prompt", "slow")
		l.clean(o)
	}
	l.next()
	l.leaving("slower")
	l.next()
	if !l.upstream() {
		l.hasEvent("patient", "boss")
		l.nominated("boss", "graceful-intruder-2")
		l.nominated("patient", "")
		l.leaving("slower")
	}
	l.on("boss", "graceful-intruder-2")
	l.stays("patient")
	l.wantEvicted(o, "prompt", "slow", "slower")
}

// leaving waits until a pod is being deleted, and fails when it is gone.
func (l *lab) leaving(name string) {
	l.Helper()
	l.eventually(within, name+" is leaving", func(ctx context.Context) (string, error) {
		pod, err := l.client.CoreV1().Pods(l.namespaceName()).Get(ctx, name, metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp != nil {
			return "", err
		}
		return "it runs", nil
	})
}

// nominated waits until a pod that waits is nominated to a node; to none if that is empty.
func (l *lab) nominated(name, node string) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("%s is nominated to %q", name, node), func(ctx context.Context) (string, error) {
		pod, err := l.client.CoreV1().Pods(l.namespaceName()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if pod.Spec.NodeName != "" {
			return "", fmt.Errorf("it is bound to %s", pod.Spec.NodeName)
		}
		if pod.Status.NominatedNodeName != node {
			return fmt.Sprintf("it is nominated to %q", pod.Status.NominatedNodeName), nil
		}
		return "", nil
	})
}

func disruptionBudget(l *lab) {
	l.next()
	l.schedulable(5)
	l.next()
	l.bound(metav1.ListOptions{}, 5)
	l.budgetAllows("quorum", 1)
	o := l.observe()
	l.next()
	if l.upstream() {
		l.pause(quiet)
		l.wantFinding(o, observe.BudgetExceeded)
		return
	}
	l.bound(labelled("app=urgent"), 2)
	l.pause(quiet)
	l.clean(o)
	l.Logf("evicted: %v", l.evicted(o))
}

// budgetAllows waits until a disruption budget allows so many.
func (l *lab) budgetAllows(name string, n int32) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("budget %s allows %d", name, n), func(ctx context.Context) (string, error) {
		b, err := l.client.PolicyV1().PodDisruptionBudgets(l.namespaceName()).Get(ctx, name, metav1.GetOptions{})
		if err != nil || b.Status.DisruptionsAllowed == n {
			return "", err
		}
		return fmt.Sprint(b.Status.DisruptionsAllowed), nil
	})
}

func priorityInflation(l *lab) {
	o := l.observe()
	l.next()
	l.schedulable(1)
	l.next()
	l.bound(labelled("class=high"), 4)
	l.next()
	parts := []string{"0/1 nodes are available: 1 Insufficient cpu.", noVictims}
	if !l.upstream() {
		parts = append(parts, "Preemption cannot help: on the 1 node(s) where pods are in the way, all are as important as "+
			"this one (priority 1000).")
	}
	l.hasMessage("high-5", parts...)
	const refused = `pods "high-6" is forbidden: exceeded quota: high-priority, requested: pods=1, used: pods=5, ` +
		`limited: pods=5`
	if said := l.next(); !strings.Contains(said, refused) {
		l.Errorf("the API server says %q, want %q", said, refused)
	}
	status := l.next()
	for _, want := range []string{
		"1000      lab-high  5     1        100%   4    100%", "PriorityClass In [lab-high]  pods      5     5",
		"preemption cannot help the 1 pending pod(s) of priority 1000 (lab-high)", "100 % of the requested CPU",
		"quota lab-priority-inflation/high-priority (PriorityClass In [lab-high]) is full",
	} {
		if !strings.Contains(status, want) {
			l.Errorf("berth status says\n%s\nwant %q in it", status, want)
		}
	}
	l.wantEvicted(o)
}
