package neighbours

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	requiredTopology  = "kueue.x-k8s.io/podset-required-topology"
	preferredTopology = "kueue.x-k8s.io/podset-preferred-topology"
	freeTopology      = "kueue.x-k8s.io/podset-unconstrained-topology"
	topologyJobs      = 30
	// standing pods are bound before the jobs arrive, and Kueue has to count them.
	standing = 9
	// plenty is more CPUs than the nodes have: only their topology limits what Kueue admits.
	plenty = 1000
)

var topologyHall = hall{blocks: 2, racks: 3, hosts: 3, cpu: 8}

// shapes are the jobs, in turn. Their names begin with the level on which the pods must be together.
var shapes = []batch{
	{name: "rack", pods: 8, cpu: "2", annotations: map[string]string{requiredTopology: rackLabel}},
	{name: "preferred", pods: 10, cpu: "2", annotations: map[string]string{preferredTopology: rackLabel}},
	{name: "host", pods: 3, cpu: "2", annotations: map[string]string{requiredTopology: corev1.LabelHostname}},
	{name: "block", pods: 20, cpu: "2", annotations: map[string]string{requiredTopology: blockLabel}},
	{name: "free", pods: 6, cpu: "1", annotations: map[string]string{freeTopology: "true"}},
}

// levels are the labels by the first word of the jobs that require them.
var levels = map[string]string{"rack": rackLabel, "host": corev1.LabelHostname, "block": blockLabel}

// topologyScenario is about pods whose nodes Kueue chooses: it gives each a node selector together with its freedom.
func topologyScenario() Scenario {
	return Scenario{
		Name: "topology",
		About: fmt.Sprintf("Kueue assigns the pods of %d jobs to hosts, racks and blocks, around %d pods that are not its "+
			"own; each pod comes to the host that Kueue chose, and no job is outside its domain.", topologyJobs, standing),
		Run: playTopology,
	}
}

func playTopology(ctx context.Context, s *Scene) (Result, error) {
	t, err := startKueue(ctx, s, topologyHall, kueueQueue(plenty, ", topologyName: hall"))
	if err != nil {
		return Result{}, err
	}
	if err := stand(ctx, s); err != nil {
		return Result{}, err
	}
	began := time.Now()
	for i := range topologyJobs {
		one := shapes[i%len(shapes)]
		one.name, one.runs = fmt.Sprintf("%s-%02d", one.name, i), time.Duration(3+i%4)*time.Second //nolint:mnd // 3 to 6 s
		if err := one.create(ctx, s, mainQueue); err != nil {
			return Result{}, err
		}
	}
	done, err := jobsDone(ctx, s, topologyJobs)
	if err != nil {
		return Result{}, err
	}
	took := time.Since(began)
	pods, err := t.all()
	if err != nil {
		return Result{}, err
	}
	wrong, err := topologyWrong(ctx, s, pods)
	return Result{
		Measures: []Measure{
			{Name: "jobs done", Value: float64(done), Margin: Within(0)},
			{Name: "pods bound", Value: float64(boundPods(pods)), Margin: Within(0)},
			{Name: "wait for a node, longest", Unit: "s", Value: longest(waits(pods, time.Now())), Margin: AtMost(waitMore)},
			{Name: "it takes", Unit: "s", Value: took.Seconds(), Margin: AtMost(takesMore)},
		},
		Wrong: wrong,
	}, err
}

// stand starts pods that are not Kueue's, and waits until they are bound.
func stand(ctx context.Context, s *Scene) error {
	for i := range standing {
		pod := pendingPod(fmt.Sprintf("standing-%d", i), "2")
		if _, err := s.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := waitBound(ctx, s, pod.Name); err != nil {
			return err
		}
	}
	return nil
}

// topologyWrong: pods that are not together as they must be, or not where Kueue wanted them, and nodes with too much.
func topologyWrong(ctx context.Context, s *Scene, pods []traced) (wrong []string, err error) {
	for _, word := range slices.Sorted(maps.Keys(levels)) {
		domain, err := domains(ctx, s, levels[word])
		if err != nil {
			return nil, err
		}
		together := placement{domain: domain, group: func(pod *corev1.Pod) string {
			if name := jobOf(pod); strings.HasPrefix(name, word+"-") {
				return name
			}
			return ""
		}}
		wrong = append(wrong, together.violations(pods)...)
	}
	for _, one := range pods {
		chosen, node := one.pod.Spec.NodeSelector[corev1.LabelHostname], one.pod.Spec.NodeName
		switch {
		case jobOf(one.pod) == "" || node == "":
		case chosen == "":
			wrong = append(wrong, one.pod.Name+" was bound without a host that Kueue chose")
		case chosen != node:
			wrong = append(wrong, fmt.Sprintf("%s is on %s, Kueue chose %s", one.pod.Name, node, chosen))
		}
	}
	return append(wrong, crowded(pods, int64(topologyHall.cpu)*1000)...), nil //nolint:mnd // millicores
}
