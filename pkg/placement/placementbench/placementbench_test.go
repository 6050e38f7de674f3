package placementbench_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

const (
	nodes   = 60
	pending = 60
)

// Objects with the same name or UID, or with shared memory, would make a workload differ from its description.
func TestObjectsAreDistinctAndRepeatable(t *testing.T) {
	for _, w := range placementbench.All() {
		t.Run(w.Name, func(t *testing.T) {
			c := w.Cluster(nodes)
			if len(c.Nodes) != nodes || len(c.Pods) != nodes*w.PodsPerNode {
				t.Fatalf("%d nodes and %d pods, want %d and %d", len(c.Nodes), len(c.Pods), nodes, nodes*w.PodsPerNode)
			}
			pods := c.Pods
			for i := range pending {
				pods = append(pods, w.Pending(i))
			}
			uids, names := map[any]bool{}, map[any]bool{}
			for _, p := range pods {
				uids[p.UID], names[p.Namespace+"/"+p.Name] = true, true
			}
			if len(uids) != len(pods) || len(names) != len(pods) {
				t.Errorf("%d pods have %d UIDs and %d names", len(pods), len(uids), len(names))
			}
			if diff := cmp.Diff(w.Pending(7), w.Pending(7)); diff != "" {
				t.Errorf("the same pod twice differs:\n%s", diff)
			}
			before := w.Pending(7)
			spoiled := w.Pending(7)
			spoiled.Labels["spoiled"] = "yes"
			if a := spoiled.Spec.Affinity; a != nil {
				*a = corev1.Affinity{}
			}
			if diff := cmp.Diff(before, w.Pending(7)); diff != "" {
				t.Errorf("a change of one pod changed another:\n%s", diff)
			}
		})
	}
}

// The existing pods of a cluster satisfy their own rules: no two of one app are on a node, those that have to be
// are even over the zones, and pairs stay out of one zone.
func TestBoundPodsKeepTheirRules(t *testing.T) {
	zones := map[string]int{"spread": 3, "pod-affinity": 2}
	for _, w := range placementbench.All() {
		site, err := placementbench.NewSite(w.Cluster(nodes))
		if err != nil {
			t.Fatal(err)
		}
		inZone := map[string]map[string]int{} // by app and zone
		for _, n := range site.Nodes() {
			apps := map[string]bool{}
			for p := range n.Pods() {
				app := p.Kind.Labels["app.kubernetes.io/name"]
				apps[app] = true
				count(inZone, app, n.Node.Object.Labels[corev1.LabelTopologyZone])
			}
			if len(apps) != n.PodCount() {
				t.Errorf("%s: node %s has %d pods of %d apps", w.Name, n.Node.Name, n.PodCount(), len(apps))
			}
		}
		for app, counts := range inZone {
			numbers := slices.Sorted(maps.Values(counts))
			even := numbers[len(numbers)-1]-numbers[0] <= 1
			if want, ok := zones[w.Name]; ok && (len(counts) != want || want == 3 && !even) {
				t.Errorf("%s: %s is in %v, want it in %d zones", w.Name, app, counts, want)
			}
		}
	}
}

func count(inZone map[string]map[string]int, app, zone string) {
	if inZone[app] == nil {
		inZone[app] = map[string]int{}
	}
	inZone[app][zone]++
}

// Every arriving pod finds a node, even as nodes change, and the engine gives the same answers as an evaluation
// from scratch.
func TestPendingPodsFit(t *testing.T) {
	for _, w := range placementbench.All() {
		t.Run(w.Name, func(t *testing.T) {
			c := w.Cluster(nodes)
			churn := w.NewChurn(w.Cluster(nodes).Nodes)
			site, err := placementbench.NewSite(c)
			if err != nil {
				t.Fatal(err)
			}
			for i := range pending {
				if w.EventEvery > 0 && i%w.EventEvery == 0 {
					site.Change(churn.Next())
				}
				pod := placementbench.Arrive(w.Pending(i))
				want := site.Profile.Evaluate(placement.Input{
					Pod: pod, Nodes: site.Nodes(), Objects: site.Objects, Seed: uint64(i),
				})
				got := site.Decide(pod, uint64(i))
				if want.Err != nil || len(want.Feasible) == 0 {
					t.Fatalf("pod %d fits nowhere: %s %v", i, want.Diagnosis.Message(), want.Err)
				}
				if got.FeasibleCount != want.FeasibleCount || got.Feasible[0].Node != want.Feasible[0].Node {
					t.Fatalf("pod %d: %s of %d, from scratch %s of %d", i, got.Feasible[0].Node.Node.Name,
						got.FeasibleCount, want.Feasible[0].Node.Node.Name, want.FeasibleCount)
				}
			}
		})
	}
}

// A pod of unique shape requests amounts that no other pod requests.
func TestUniqueShapes(t *testing.T) {
	w, err := placementbench.Named("basic-unique")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range pending {
		p := w.Pending(i)
		memory := p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
		shape := p.Labels["app.kubernetes.io/name"] + memory.String()
		if seen[shape] {
			t.Errorf("pod %d has a shape that was there before", i)
		}
		seen[shape] = true
	}
}

// The events of a churn are consistent: a node that changes or is removed exists in its last version, and a new one
// did not exist.
func TestChurnFollows(t *testing.T) {
	w, err := placementbench.Named("mixed")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, n := range w.Cluster(nodes).Nodes {
		there[n.Name] = n.ResourceVersion
	}
	churn := w.NewChurn(w.Cluster(nodes).Nodes)
	kinds := map[string]int{}
	for i := range 1000 {
		e := churn.Next()
		switch {
		case e.Before == nil:
			if _, ok := there[e.After.Name]; ok {
				t.Fatalf("event %d adds %s, which is there", i, e.After.Name)
			}
			kinds["added"]++
		case there[e.Before.Name] != e.Before.ResourceVersion:
			t.Fatalf("event %d changes %s from version %s, it is %q", i, e.Before.Name, e.Before.ResourceVersion,
				there[e.Before.Name])
		case e.After == nil:
			kinds["removed"]++
		default:
			kinds["changed"]++
		}
		if e.Before != nil {
			delete(there, e.Before.Name)
		}
		if e.After != nil {
			there[e.After.Name] = e.After.ResourceVersion
		}
	}
	if len(kinds) != 3 || len(there) < nodes-1 {
		t.Errorf("events were %v, %d of %d nodes are left", kinds, len(there), nodes)
	}
}

func TestNamedRefusesWhatIsNotThere(t *testing.T) {
	if _, err := placementbench.Named("nothing"); err == nil {
		t.Error("no error, want one that lists the workloads")
	}
}
