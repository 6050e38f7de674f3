package placement_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// BenchmarkTopology decides about one pod in a cluster of 1,000 nodes in 3 zones and 5,000
// pods of 50 workloads, with the default profile.
func BenchmarkTopology(b *testing.B) {
	const nodeCount, podCount, apps = 1000, 5000, 50
	objects := world(b, map[events.Kind][]state.APIObject{
		events.KindReplicaSet: {
			&appsv1.ReplicaSet{ObjectMeta: meta("default", "rs"), Spec: appsv1.ReplicaSetSpec{Selector: selecting("app-7")}},
		},
		events.KindService: {
			&corev1.Service{ObjectMeta: meta("default", "s"), Spec: selects("app-7")},
		},
	})
	small := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = statetest.List("cpu", "100m", "memory", "500Mi")
	}
	owned := ownedBy("apps/v1", "ReplicaSet", "rs")
	anti := prefersAway(term(hostname, "app-7"))
	for _, bench := range []struct {
		name  string
		there func(*corev1.Pod)
		pod   *state.Pod
	}{
		{"plain", small, app("x", "p", small)},
		{"default-spread", small, app("app-7", "p", small, owned)},
		{"hard-zone-spread", small, app("app-7", "p", small, spread(zone, hard, func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector, c.MaxSkew = selecting("app-7"), 5
		}))},
		{"preferred-anti-affinity", small, app("app-7", "p", small, anti)},
		{"required-anti-affinity", small, app("app-7", "p", small, away(term(hostname, "app-7")))},
		{"all-pods-prefer", anti, app("app-7", "p", small, anti)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			list := make([]*state.NodeInfo, nodeCount)
			for i := range list {
				obj := statetest.Node(fmt.Sprintf("node-%04d", i), "cpu", "32", "memory", "256Gi", "pods", "110")
				obj.Labels[zone] = fmt.Sprintf("zone-%d", i%3)
				list[i] = state.NewNodeInfo(state.NewNode(obj))
			}
			for i := range podCount {
				list[i%nodeCount].AddPod(app(fmt.Sprintf("app-%d", i%apps), fmt.Sprintf("p-%d", i), bench.there))
			}
			p := profileOf(b, placement.EvaluateCrossNode)
			in := placement.Input{Pod: bench.pod, Nodes: list, Objects: objects}
			if r := p.Evaluate(in); len(r.Feasible) == 0 {
				b.Fatalf("fits nowhere: %s %v", r.Diagnosis.Message(), r.Err)
			}
			b.ReportAllocs()
			for b.Loop() {
				in.Seed++
				p.Evaluate(in)
			}
		})
	}
}
