//go:build e2e

package labs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/test/observe"
)

// distributed waits until the pods with a label are distributed over nodes as wanted, and none is missing.
func (l *lab) distributed(selector string, want map[string]int) []corev1.Pod {
	l.Helper()
	var remaining []corev1.Pod
	what := fmt.Sprintf("pods with %s stand %v", selector, want)
	l.eventually(within, what, func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return "", err
		}
		remaining = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if got := byNode(remaining); !maps.Equal(got, want) {
			return fmt.Sprint(got), nil
		}
		return "", nil
	})
	return remaining
}

// planned runs the next block and checks how many pods its first plan has to evict.
func (l *lab) planned(evict int) string {
	l.Helper()
	output := l.next()
	if want := fmt.Sprintf(" %d to evict,", evict); !strings.Contains(output, want) {
		l.Errorf("the plan has not%s:\n%s", want, output)
	}
	return output
}

// uncordoned waits until shards know that nodes take pods: the log has it then, and plans made from the log take it
// into account. The API server's answer to kubectl is some milliseconds earlier.
func (l *lab) uncordoned(nodes ...string) {
	l.Helper()
	for _, node := range nodes {
		l.eventually(within, node+" is known to take pods", func(ctx context.Context) (string, error) {
			answer, err := programs.Command(ctx, "explain", "node", node, "--data-dir", filepath.Join(l.work, "data"))
			if err != nil || answer.Code != 0 {
				return answer.Stderr, err
			}
			if strings.Contains(answer.Stdout, "cordoned") {
				return answer.Stdout, nil
			}
			return "", nil
		})
	}
}

// contains checks an output.
func (l *lab) contains(output string, parts ...string) {
	l.Helper()
	for _, part := range parts {
		if !strings.Contains(output, part) {
			l.Errorf("there is no %q in\n%s", part, output)
		}
	}
}

func utilization(l *lab) {
	const full = "utilization-0"
	l.next()
	l.schedulable(6)
	l.next()
	first := l.distributed("app=web", map[string]int{full: 60})
	was := map[string]bool{}
	for _, p := range first {
		was[p.Name] = true
	}
	l.next()
	var after []corev1.Pod
	l.eventually(within, "20 pods are left on the first node", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=web"))
		if got := byNode(pods); err != nil || len(pods) != 60 || got[full] != 20 || got[""] > 0 {
			return fmt.Sprint(got), err
		}
		after = pods
		return "", nil
	})
	for node, n := range byNode(after) {
		if n > 20 {
			l.Errorf("%d pods on %s, want 20 at most (19%% of 110)", n, node)
		}
	}
	for _, p := range after {
		if p.Spec.NodeName == full && !was[p.Name] {
			l.Errorf("%s came back to %s", p.Name, full)
		}
	}
	l.eventually(within, "the log tells of 40 pods that were evicted", func(context.Context) (string, error) {
		evicted := map[string]bool{}
		for _, d := range l.decided(events.DecisionEvicted) {
			evicted[d.Pod.UID] = true
		}
		if len(evicted) != 40 {
			return fmt.Sprint(len(evicted)), nil
		}
		return "", nil
	})
	for _, d := range l.decided(events.DecisionEvictRefused) {
		l.Logf("refused: %s, attempt %d: %s", d.Pod.Name, d.Attempt, d.Message)
	}
	for _, d := range l.decided(events.DecisionEvict) {
		if d.Landing == "" || d.Landing == full || d.NodeName != full {
			l.Errorf("%s was evicted from %s for a place on %q", d.Pod.Name, d.NodeName, d.Landing)
		}
	}
	l.contains(l.next(), "no node is above the target thresholds: the fullest is utilization-0 with pods 18% (19%)")
}

func newNode(l *lab) {
	l.next()
	l.schedulable(2)
	l.next()
	l.distributed("app=web", map[string]int{"new-node-0": 6})
	l.planned(0)
	l.contains(l.next(), "all 2 nodes are at or below the thresholds", "node new-node-0 is under: cpu 15% (20% to 50%)",
		"no pod considered has a constraint of [DoNotSchedule], which `constraints` of the policy requires; some have others")
	l.planned(3)
	l.distributed("app=web", map[string]int{"new-node-0": 3, "new-node-1": 3})
}

func strategyDuplicates(l *lab) {
	l.next()
	l.schedulable(3)
	l.next()
	l.distributed("app=web", map[string]int{"strategy-duplicates-0": 6})
	l.next()
	l.uncordoned("strategy-duplicates-1", "strategy-duplicates-2")
	l.planned(4)
	l.distributed("app=web", map[string]int{
		"strategy-duplicates-0": 2, "strategy-duplicates-1": 2, "strategy-duplicates-2": 2,
	})
	l.planned(0)
}

func strategyNodeAffinity(l *lab) {
	const from, to = "strategy-node-affinity-0", "strategy-node-affinity-1"
	l.next()
	l.schedulable(2)
	l.next()
	l.distributed("app in (web, plain)", map[string]int{from: 3})
	l.planned(0)
	l.planned(2)
	l.distributed("app=web", map[string]int{to: 2})
	l.distributed("app=plain", map[string]int{from: 1})
	l.next()
	l.bound(labelled("app=plain"), 0) // berth check would find it where it may not be
}

func strategyAntiAffinity(l *lab) {
	const from, to = "strategy-anti-affinity-0", "strategy-anti-affinity-1"
	l.next()
	l.schedulable(2)
	l.next()
	l.distributed("app in (web, batch)", map[string]int{from: 3})
	l.next()
	l.uncordoned(to)
	l.planned(2)
	l.distributed("app=web", map[string]int{to: 2})
	l.distributed("app=batch", map[string]int{from: 1})
}

func strategyTaints(l *lab) {
	const from, to = "strategy-taints-0", "strategy-taints-1"
	l.next()
	l.schedulable(2)
	l.next()
	l.distributed("app in (web, tolerant)", map[string]int{from: 3})
	l.planned(0)
	l.planned(2)
	l.distributed("app=web", map[string]int{to: 2})
	l.distributed("app=tolerant", map[string]int{from: 1})
}

func strategyTopology(l *lab) {
	l.next()
	l.schedulable(1)
	l.next()
	l.distributed("app=web", map[string]int{"strategy-topology-0": 6})
	l.next()
	l.schedulable(2)
	l.planned(3)
	l.distributed("app=web", map[string]int{"strategy-topology-0": 3, "strategy-topology-1": 3})
}

func strategyRestarts(l *lab) {
	l.next()
	l.schedulable(2)
	l.next()
	before := names(l.bound(labelled("app=web"), 2))
	l.planned(1)
	l.eventually(within, "one of two pods is new", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=web"))
		after := names(pods)
		if err != nil || len(after) != 2 || slices.Contains(after, before[0]) || !slices.Contains(after, before[1]) {
			return fmt.Sprintf("%v became %v", before, after), err
		}
		return "", nil
	})
}

// names are those of pods, sorted.
func names(pods []corev1.Pod) []string {
	var all []string
	for i := range pods {
		all = append(all, pods[i].Name)
	}
	slices.Sort(all)
	return all
}

func strategyLifetime(l *lab) {
	l.next()
	l.schedulable(2)
	l.next()
	old := names(l.bound(labelled("app=old"), 2))
	l.planned(2)
	young := names(l.bound(labelled("app=young"), 2))
	l.eventually(within, "two old pods are new", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=old"))
		after := names(pods)
		if err != nil || len(after) != 2 || slices.Contains(after, old[0]) || slices.Contains(after, old[1]) {
			return fmt.Sprintf("%v became %v", old, after), err
		}
		return "", nil
	})
	if still := names(l.bound(labelled("app=young"), 2)); !slices.Equal(still, young) {
		l.Errorf("the young pods were %v and are %v", young, still)
	}
}

func strategyFailed(l *lab) {
	l.next()
	l.schedulable(2)
	l.next()
	l.bound(labelled("app in (web, other)"), 2)
	l.next()
	l.bound(labelled("app in (web, other)"), 4)
	l.planned(1)
	l.bound(labelled("app in (web, other)"), 3)
	if left := l.next(); strings.TrimSpace(left) != "UnexpectedAdmissionError" {
		l.Errorf("what is left has failed for %q, want UnexpectedAdmissionError", left)
	}
}

func guards(l *lab) {
	const retired = "guards-0"
	why := map[string]string{
		"bare": "no owner", "local": "local storage", "daemon": "owned by a DaemonSet",
		"critical": "system-critical priority", "important": "priority at or above the threshold",
		"claim": "protected volume claim", "uncovered": "no disruption budget", "labelled": "labels do not match",
		"single": "owner has too few replicas", "young": "too young", "annotated": "annotated against eviction",
	}
	l.next()
	l.schedulable(3)
	l.next()
	l.eventually(within, "all pods are on the first node", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, metav1.ListOptions{})
		waiting := ""
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				waiting += "; " + pods[i].Name + ": " + scheduled(&pods[i]).Message
			}
		}
		if got := byNode(pods); err != nil || got[retired] != len(why)+2 || len(got) > 1 {
			return fmt.Sprint(got, waiting), err
		}
		return "", nil
	})
	l.next()
	l.eventually(within, "forced has left", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=forced"))
		if got := byNode(pods); err != nil || len(pods) != 1 || got[retired] > 0 || got[""] > 0 {
			return fmt.Sprint(got), err
		}
		return "", nil
	})
	shown := l.planned(0)
	for name, because := range why {
		found := false
		for line := range strings.Lines(shown) {
			found = found || strings.HasPrefix(line, l.namespaceName()+"/"+name) &&
				strings.HasSuffix(strings.TrimSpace(line), because)
		}
		if !found {
			l.Errorf("%s does not stay because %q:\n%s", name, because, shown)
		}
	}
	counts := l.next()
	for _, because := range why {
		l.contains(counts, fmt.Sprintf(`reason=%q`, because))
	}
	// One of each, and two that are young; bare has no owner.
	l.planned(len(why) + 1 - 1)
	limited := l.next()
	l.contains(limited, " 3 to evict", " 4 to evict", " 5 to evict", " 0 pods picked")
}

func runModes(l *lab) {
	const left, right = "run-modes-0", "run-modes-1"
	l.next()
	l.schedulable(2)
	l.next()
	l.distributed("app=web", map[string]int{left: 2})
	l.planned(2)
	l.distributed("app=web", map[string]int{right: 2})
	output := l.planned(2)
	if n := strings.Count(output, " 0 to evict"); n != 2 {
		l.Errorf("of three cycles %d had nothing to do, want 2:\n%s", n, output)
	}
	l.distributed("app=web", map[string]int{left: 2})
	l.must(l.berth.Stop(l.Context()))
	l.up(l.left[0])
	l.skip()
	l.next()
	l.distributed("app=web", map[string]int{right: 2})
	l.contains(l.next(), "descheduling is paused since ", " by alice: upgrade")
	l.pause(5 * time.Second) // some cycles
	l.distributed("app=web", map[string]int{right: 2})
	l.next()
	l.distributed("app=web", map[string]int{left: 2})
	l.contains(l.next(), "descheduler/v1alpha1", "apiVersion: descheduler/v1alpha2", "RemovePodsViolatingNodeTaints")
}

func rolloutSafe(l *lab) {
	const first, second = "rollout-safe-0", "rollout-safe-1"
	l.next()
	l.schedulable(5)
	l.next()
	l.bound(labelled("app=web"), 200)
	l.budgetAllows("web", 20)
	o := l.observe()
	l.next()
	l.eventually(within, "the second version has a ReplicaSet", func(ctx context.Context) (string, error) {
		sets, err := l.client.AppsV1().ReplicaSets(l.namespaceName()).List(ctx, labelled("app=web"))
		if err != nil || len(sets.Items) == 2 {
			return "", err
		}
		return fmt.Sprintf("%d ReplicaSets", len(sets.Items)), nil
	})
	l.next()
	l.bound(labelled("app=web"), 200)
	l.noneDuringRollout("web")
	l.next()
	l.eventually(2*within, "the second node is empty", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=web"))
		if got := byNode(pods); err != nil || len(pods) != 200 || got[first]+got[second]+got[""] > 0 {
			return fmt.Sprint(got), err
		}
		return "", nil
	})
	l.rounds(4*time.Second, 20)
	found, err := o.Findings()
	l.must(err)
	for _, f := range found {
		if f.Kind == observe.BudgetExceeded {
			l.Errorf("%s: %s", f.Kind, f.Text)
		}
	}
}

// noneDuringRollout checks that the evictions requested until now are of pods of the new version, and came after the
// end of the rollout: some of these pods may have reached the node before it was retired. The controller reports the
// end a little later than the facts show it.
func (l *lab) noneDuringRollout(name string) {
	l.Helper()
	const behind = 5 * time.Second
	d, err := l.client.AppsV1().Deployments(l.namespaceName()).Get(l.Context(), name, metav1.GetOptions{})
	l.must(err)
	over := time.Now()
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable" {
			over = c.LastUpdateTime.Time
		}
	}
	sets, err := l.client.AppsV1().ReplicaSets(l.namespaceName()).List(l.Context(), labelled("app="+name))
	l.must(err)
	old := map[string]bool{}
	for i := range sets.Items {
		if rs := &sets.Items[i]; *rs.Spec.Replicas == 0 {
			old[string(rs.UID)] = true
		}
	}
	if len(old) == 0 {
		l.Errorf("the old version's ReplicaSet is not among %d that want no pods", len(sets.Items))
	}
	for _, ask := range l.decided(events.DecisionEvict) {
		if old[ask.Owner] || ask.stored.Before(over.Add(-behind)) {
			l.Errorf("%s was to be evicted at %s, the rollout was over at %s", ask.Pod.Name, ask.stored, over)
		}
	}
}

// rounds checks that the evictions of an owner come in rounds of no more than most, the cooldown apart at least, and
// that no eviction was requested twice.
func (l *lab) rounds(cooldown time.Duration, most int) {
	l.Helper()
	type round struct {
		first, last time.Time
		pods        int
	}
	byCycle := map[uint64]round{}
	asked := map[string]bool{}
	for _, d := range l.decided(events.DecisionEvict) {
		if asked[d.Pod.UID] {
			l.Errorf("%s was asked for twice", d.Pod.Name)
		}
		asked[d.Pod.UID] = true
		r, known := byCycle[d.FactSequence]
		if !known {
			r.first = d.stored
		}
		r.last = d.stored
		r.pods++
		byCycle[d.FactSequence] = r
	}
	var all []round
	for _, cycle := range slices.Sorted(maps.Keys(byCycle)) {
		all = append(all, byCycle[cycle])
	}
	l.Logf("%d pods in %d rounds", len(asked), len(all))
	if len(all) < 2 {
		l.Errorf("%d rounds, want two or more", len(all))
	}
	for i, r := range all {
		if r.pods > most {
			l.Errorf("round %d: %d pods, want %d at most", i+1, r.pods, most)
		}
		if i == 0 {
			continue
		}
		if apart := all[i].first.Sub(all[i-1].last); apart < cooldown {
			l.Errorf("round %d began %s after the one before, want %s at least", i+1, apart, cooldown)
		}
	}
}

// going is the part of a plan that a program reads.
type going struct {
	Evict []struct{ Pod, Node, Landing, Strategy string }
	Kept  []struct{ Pod, Because string }
}

func dryRun(l *lab) {
	const retired = "dry-run-0"
	read := func(output string) (g going) {
		l.must(json.Unmarshal([]byte(output), &g))
		return g
	}
	l.next()
	l.schedulable(3)
	l.next()
	l.distributed("app=web", map[string]int{retired: 8})
	l.budgetAllows("web", 3)
	l.next()
	l.contains(l.planned(3), "5 stay", "its disruption budget allows no disruption")
	dry := read(l.next())
	l.distributed("app=web", map[string]int{retired: 8})
	if asks := l.decided(events.DecisionEvict); len(asks) > 0 {
		l.Errorf("a dry run asked for %d evictions", len(asks))
	}
	since := l.now()
	real := read(l.next())
	if !slices.Equal(dry.Evict, real.Evict) || !slices.Equal(dry.Kept, real.Kept) {
		l.Errorf("the dry run planned\n%+v\nand the real one\n%+v", dry, real)
	}
	l.firstDeleted(since)
	l.eventually(within, "three have left", func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, labelled("app=web"))
		if got := byNode(pods); err != nil || len(pods) != 8 || got[retired] != 5 || got[""] > 0 {
			return fmt.Sprint(got), err
		}
		return "", nil
	})
	var evicted []string
	for _, d := range l.decided(events.DecisionEvict) {
		evicted = append(evicted, d.Pod.Namespace+"/"+d.Pod.Name)
		if d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != 7 {
			l.Errorf("%s has a grace period of %v, want 7", d.Pod.Name, d.GracePeriodSeconds)
		}
	}
	var planned []string
	for _, m := range dry.Evict {
		planned = append(planned, m.Pod)
		if m.Landing == "" || m.Landing == retired {
			l.Errorf("%s lands on %q", m.Pod, m.Landing)
		}
	}
	slices.Sort(evicted)
	slices.Sort(planned)
	if !slices.Equal(evicted, planned) {
		l.Errorf("evicted were %v, planned %v", evicted, planned)
	}
}
