//go:build e2e

package e2e_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// evenReplicas are spread by zone with a skew of at most 1.
	evenReplicas = 60
	// apartReplicas repel each other by zone; there are three.
	apartReplicas = 6
)

// Three shards place a Deployment that must be spread over zones and one whose pods must not
// share a zone, both at once and with plain pods between. The rules hold at every moment of
// the ledger's own order, not only in the end.
func TestRulesAboutOtherNodesAlwaysHold(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	berth := s.up(harness.UpConfig{Shards: 3, Binders: 2, Args: []string{"--etcd-endpoints", f.etcd.URL}})
	ns := s.namespace("guards")
	begin := time.Now()
	evenly := []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: matching("even"),
	}}
	s.deploy(ns, "even", evenReplicas/2, func(p *corev1.PodSpec) { p.TopologySpreadConstraints = evenly })
	// The same rule in pods of another group, because of another one that they carry first.
	s.create(newPods(ns, "even", evenReplicas/2, "10m", func(p *corev1.Pod) {
		p.Labels = map[string]string{app: "even"}
		p.Spec.TopologySpreadConstraints = evenly
		p.Spec.Affinity = apartFrom("nobody")
	})...)
	s.deploy(ns, "apart", apartReplicas, func(p *corev1.PodSpec) {
		p.Affinity = apartFrom("apart")
	})
	s.create(newPods(ns, "plain", 60, "10m")...)
	s.bound(ns, evenReplicas+3+60, placedWithin)
	took := time.Since(begin)

	pods := s.pods(ns)
	history, err := f.etcd.Ledger(s.Context())
	s.must(err)
	order := s.placements(history, pods)
	s.checkOrder(order)
	conflicts, err := berth.Metric(s.Context(), "berth_ledger_txns_total", `result="conflict"`, `txn="T1"`)
	s.must(err)
	s.Logf("%d placements in %d transactions, all bound after %s; %.0f transactions lost a race",
		len(order.zones), order.transactions, took.Round(time.Millisecond), conflicts)
	zones, _ := s.zonesOf(boundOf(pods, "apart"))
	if len(zones) != 3 || len(boundOf(pods, "apart")) != 3 {
		s.Errorf("pods that repel each other, by zone: %v, want one in each of three", zones)
	}
	s.audit()
}

// apartFrom keeps a pod out of zones with pods of an app.
func apartFrom(name string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelTopologyZone, LabelSelector: matching(name)},
		},
	}}
}

// deploy makes a Deployment whose pods have app=name.
func (s *stack) deploy(ns, name string, replicas int32, change func(*corev1.PodSpec)) {
	s.Helper()
	spec := podSpec("10m")
	change(&spec)
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: matching(name),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{app: name}}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

func boundOf(pods []corev1.Pod, name string) []corev1.Pod {
	var out []corev1.Pod
	for _, p := range pods {
		if p.Labels[app] == name && p.Spec.NodeName != "" {
			out = append(out, p)
		}
	}
	return out
}

// placed is one reservation.
type placed struct {
	app, zone string
	revision  int64
}

// order is the sequence of placements in the ledger.
type order struct {
	zones        []placed
	transactions int
}

// placements reads the history of the ledger: which pods were placed where, in what order.
func (s *stack) placements(history []ledger.Event, pods []corev1.Pod) order {
	s.Helper()
	apps := map[string]string{}
	for _, p := range pods {
		apps[string(p.UID)] = p.Labels[app]
	}
	zones := map[string]string{}
	nodes, err := s.client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, n := range nodes.Items {
		zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	var o order
	seen, last := map[string]bool{}, int64(0)
	for _, ev := range history {
		if ev.Deleted || !strings.HasPrefix(ev.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ev.KV)
		s.must(err)
		for _, e := range d.Entries {
			if e.Role != ledger.RoleReservation || seen[e.PodUID] {
				continue
			}
			seen[e.PodUID] = true
			o.zones = append(o.zones, placed{app: apps[e.PodUID], zone: zones[d.NodeName], revision: ev.ModRevision})
			if ev.ModRevision != last {
				o.transactions, last = o.transactions+1, ev.ModRevision
			}
		}
	}
	return o
}

// checkOrder demands the rules after every transaction. (Within one, pods are placed one after the other, but the
// order is unknown; the state after it suffices.)
func (s *stack) checkOrder(o order) {
	s.Helper()
	even := map[string]int{"zone-a": 0, "zone-b": 0, "zone-c": 0}
	apart := map[string]int{}
	for i, p := range o.zones {
		switch p.app {
		case "even":
			even[p.zone]++
		case "apart":
			apart[p.zone]++
		}
		if i+1 < len(o.zones) && o.zones[i+1].revision == p.revision {
			continue
		}
		least, most := evenReplicas, 0
		for n := range maps.Values(even) {
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 || len(even) != 3 {
			s.Errorf("after revision %d: spread pods by zone %v, want a skew of at most 1", p.revision, even)
		}
		for zone, n := range apart {
			if n > 1 {
				s.Errorf("after revision %d: %d pods that repel each other share %s", p.revision, n, zone)
			}
		}
	}
	if got := even["zone-a"] + even["zone-b"] + even["zone-c"]; got != evenReplicas {
		s.Errorf("%d spread pods were placed, want %d", got, evenReplicas)
	}
}
