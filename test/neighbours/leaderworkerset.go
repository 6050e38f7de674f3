package neighbours

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// groupKey is a label of the pods of a group.
	groupKey = "leaderworkerset.sigs.k8s.io/group-key"
	// groups of groupSize pods each are in the script.
	groups    = 4
	groupSize = 4
)

// leaderWorkerSetOperator is LeaderWorkerSet with its defaults.
var leaderWorkerSetOperator = operator{
	name: "lws", program: "lws", pin: batchPin, module: "sigs.k8s.io/lws",
	namespace:     "lws-system",
	kustomization: "config/default",
	config: func(stage operatorStage) string {
		return fmt.Sprintf(`apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %s, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, stage.Health, stage.WebhookPort, stage.Dir)
	},
}

// leaderWorkers are groups that want a rack each.
const leaderWorkers = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: model
  namespace: script
  annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack}
spec:
  replicas: GROUPS
  leaderWorkerTemplate:
    size: SIZE
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      spec:
        containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: "3", memory: 64Mi}}
`

// leaderWorkerSet runs groups of a leader and workers.
func leaderWorkerSet() Neighbour {
	return Neighbour{
		Name: "leaderworkerset", Version: "LeaderWorkerSet 0.8.0 (`sigs.k8s.io/lws`)", Programs: []string{"lws"},
		Scenarios: []Scenario{{
			Name: "exclusive",
			About: fmt.Sprintf("%d groups of %d pods each come to racks of their own. Then the leader of one is deleted, and "+
				"its group is created again and comes to a rack of its own.", groups, groupSize),
			Run: playGroups,
		}},
	}
}

func playGroups(ctx context.Context, s *Scene) (Result, error) {
	t, a, err := exclusiveGround(ctx, s, leaderWorkerSetOperator)
	if err != nil {
		return Result{}, err
	}
	text := replaced(leaderWorkers, "GROUPS", fmt.Sprint(groups), "SIZE", fmt.Sprint(groupSize))
	began := time.Now()
	if err := admitted(ctx, s, a, text); err != nil {
		return Result{}, err
	}
	first, err := groupsRun(ctx, s, "")
	if err != nil {
		return Result{}, err
	}
	ready := time.Since(began)
	leader, err := s.Client.CoreV1().Pods(namespace).Get(ctx, "model-0", metav1.GetOptions{})
	if err != nil {
		return Result{}, err
	}
	began = time.Now()
	if err := s.Client.CoreV1().Pods(namespace).Delete(ctx, leader.Name, metav1.DeleteOptions{}); err != nil {
		return Result{}, err
	}
	second, err := groupsRun(ctx, s, string(leader.UID))
	if err != nil {
		return Result{}, err
	}
	again := time.Since(began)
	r, err := exclusiveResult(ctx, s, t, func(pod *corev1.Pod) string { return pod.Labels[groupKey] })
	r.Measures = append([]Measure{
		{Name: "pods run", Value: float64(first), Margin: Within(0)},
		{Name: "until they run", Unit: "s", Value: ready.Seconds(), Margin: AtMost(waitMore)},
		{Name: "pods run after the restart", Value: float64(second), Margin: Within(0)},
		{Name: "until they run again", Unit: "s", Value: again.Seconds(), Margin: AtMost(waitMore)},
	}, r.Measures...)
	return r, err
}

// groupsRun waits until all pods of all groups run, none of which has this UID, and returns how many do; it gives up
// after the time that a script may take.
func groupsRun(ctx context.Context, s *Scene, without string) (running int, err error) {
	began := time.Now()
	return running, s.Eventually(ctx, 2*scriptWithin, "all groups run", func(ctx context.Context) (string, error) {
		list, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: groupKey})
		if err != nil {
			return "", err
		}
		running = 0
		old := false
		for i := range list.Items {
			pod := &list.Items[i]
			old = old || string(pod.UID) == without || pod.DeletionTimestamp != nil
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running == groups*groupSize && !old || time.Since(began) > scriptWithin {
			return "", nil
		}
		return fmt.Sprintf("%d of %d, the old leader among them: %t", running, groups*groupSize, old), nil
	})
}

// replaced returns a text with words replaced by others.
func replaced(text string, oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(text)
}
