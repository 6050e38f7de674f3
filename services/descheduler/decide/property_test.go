package decide

import (
	"fmt"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// randomCluster draws tainted and plain nodes with pods of every kind on them.
func randomCluster(t *rapid.T) []state.APIObject {
	var all []state.APIObject
	nodes := rapid.IntRange(2, 5).Draw(t, "nodes")
	for i := range nodes {
		n := roomy(fmt.Sprintf("n%d", i))
		if rapid.Bool().Draw(t, "tainted") {
			n = tainted(n.Name)
		}
		all = append(all, n)
	}
	for i := range rapid.IntRange(0, 15).Draw(t, "pods") {
		node := fmt.Sprintf("n%d", rapid.IntRange(0, nodes-1).Draw(t, "on"))
		all = append(all, running(fmt.Sprintf("p%d", i), node, randomChange(t), randomChange(t)))
	}
	return all
}

func randomChange(t *rapid.T) func(*corev1.Pod) {
	return rapid.SampledFrom([]func(*corev1.Pod){
		func(*corev1.Pod) {},
		func(p *corev1.Pod) { p.Namespace = "other" },
		func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		},
		annotated(corev1.MirrorPodAnnotationKey, "x"),
		annotated("kubernetes.io/config.source", "file"),
		annotated(descheduling.AnnotationEvict, ""),
		priority(2_000_000_000),
		priority(100),
		ownedBy("DaemonSet", "uid-ds"),
		ownedBy("Job"),
		volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		claim("data"),
	}).Draw(t, "change")
}

// mayGo is a second implementation of the default policy's protections, without regard for order, reasons or speed.
func mayGo(p *corev1.Pod, ignorePVC bool) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if _, forced := p.Annotations["descheduler.alpha.kubernetes.io/evict"]; forced {
		return true
	}
	_, mirror := p.Annotations["kubernetes.io/config.mirror"]
	static := p.Annotations["kubernetes.io/config.source"] == "file"
	critical := p.Spec.Priority != nil && *p.Spec.Priority >= 2000000000
	daemon := len(p.OwnerReferences) > 0 && p.OwnerReferences[0].Kind == "DaemonSet"
	local, pvc := false, false
	for _, v := range p.Spec.Volumes {
		local = local || v.EmptyDir != nil
		pvc = pvc || v.PersistentVolumeClaim != nil
	}
	protected := mirror || static || critical || daemon || len(p.OwnerReferences) == 0 || local || pvc && ignorePVC
	return !protected
}

// TestOnlyThoseThatMayGo: without limits, a cycle requests exactly the pods that are on a tainted node, do not
// tolerate the taint and are not protected; the same input gives the same outcome; and no limit is ever exceeded, nor
// a pod requested that would not be without limits.
func TestOnlyThoseThatMayGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := randomCluster(t)
		ignorePVC := rapid.Bool().Draw(t, "ignorePvcPods")
		evictor := fmt.Sprintf("ignorePvcPods: %t", ignorePVC)
		cluster := statetest.Snapshot(t, all...)

		want := map[string]bool{}
		bad := map[string]bool{}
		for _, o := range all {
			switch o := o.(type) {
			case *corev1.Node:
				bad[o.Name] = len(o.Spec.Taints) > 0
			case *corev1.Pod:
				if bad[o.Spec.NodeName] && len(o.Spec.Tolerations) == 0 && mayGo(o, ignorePVC) {
					want[string(o.UID)] = true
				}
			}
		}
		in := input(t, taints(t, "", evictor), cluster)
		out := Cycle(in)
		if diff := cmp.Diff(want, uids(out)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(out, Cycle(in)); diff != "" {
			t.Fatalf("the same again gave something else:\n%s", diff)
		}
		kept := 0
		for _, n := range out.Refused {
			kept += n
		}
		if kept+len(out.Evict) != out.Picked {
			t.Fatalf("picked %d, but asked for %d and kept %d", out.Picked, len(out.Evict), kept)
		}

		perNode := rapid.UintRange(0, 3).Draw(t, "perNode")
		perNamespace := rapid.UintRange(0, 6).Draw(t, "perNamespace")
		total := rapid.UintRange(0, 8).Draw(t, "total")
		in.Policy = taints(t, "", evictor, fmt.Sprintf(
			"maxNoOfPodsToEvictPerNode: %d, maxNoOfPodsToEvictPerNamespace: %d, maxNoOfPodsToEvictTotal: %d,",
			perNode, perNamespace, total))
		checkLimits(t, Cycle(in), want, in.Policy.Limits)
	})
}

func uids(out Outcome) map[string]bool {
	got := map[string]bool{}
	for _, e := range out.Evict {
		got[e.Decision.Pod.UID] = true
	}
	return got
}

func checkLimits(t *rapid.T, out Outcome, allowed map[string]bool, l policy.Limits) {
	nodes, namespaces := map[string]uint{}, map[string]uint{}
	for _, e := range out.Evict {
		d := e.Decision
		nodes[d.NodeName]++
		namespaces[d.Pod.Namespace]++
		if !allowed[d.Pod.UID] || nodes[d.NodeName] > *l.PerNode || namespaces[d.Pod.Namespace] > *l.PerNamespace {
			t.Fatalf("%s/%s must not go: allowed %t, on its node %d, in its namespace %d",
				d.Pod.Namespace, d.Pod.Name, allowed[d.Pod.UID], nodes[d.NodeName], namespaces[d.Pod.Namespace])
		}
	}
	if uint(len(out.Evict)) > *l.Total {
		t.Fatalf("asked for %d, want at most %d", len(out.Evict), *l.Total)
	}
}

// TestNeverTwice: over many cycles, with outcomes that come late, twice, or never, and with a history that is rebuilt
// from the decisions, no pod is requested while a request is in progress or within the cooldown after its end, and no
// request's token is used twice.
func TestNeverTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := input(t, taints(t, "", ""), statetest.Snapshot(t, randomCluster(t)...))
		var log []logged
		busyUntil := map[string]time.Time{}
		tokens := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "restart") {
				in.History = replay(log)
			}
			for _, e := range Cycle(in).Evict {
				d := e.Decision
				if in.Now.Before(busyUntil[d.Pod.UID]) || tokens[d.Token] {
					t.Fatalf("asked for %s again at %s, token seen %t", d.Pod.Name, in.Now, tokens[d.Token])
				}
				tokens[d.Token] = true
				busyUntil[d.Pod.UID] = in.Now.Add(plan.InFlight)
				in.History.Observe(d, in.Now)
				log = append(log, logged{d, in.Now})
			}
			if len(log) == 0 || !rapid.Bool().Draw(t, "outcome") {
				continue
			}
			d := rapid.SampledFrom(log).Draw(t, "of").Decision
			d.Kind = rapid.SampledFrom([]events.DecisionKind{
				events.DecisionEvicted, events.DecisionEvictRefused, events.DecisionEvict,
			}).Draw(t, "kind")
			if in.History.Observe(d, in.Now) {
				busyUntil[d.Pod.UID] = in.Now.Add(plan.Cooldown)
			}
			log = append(log, logged{d, in.Now})
		}
	})
}

// logged is a decision, and when it was first seen.
type logged struct {
	events.Decision
	at time.Time
}

func replay(log []logged) *plan.History {
	m := plan.NewHistory()
	for _, l := range log {
		m.Observe(l.Decision, l.at)
	}
	return m
}
