package neighbours

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// batchPin is the module that pins Kueue, JobSet and LeaderWorkerSet, in the versions that Kueue is tested with.
	batchPin = "tools/neighbours/batch"
	// queueLabel puts a job or a pod into a queue of Kueue, and mainQueue is the only one.
	queueLabel = "kueue.x-k8s.io/queue-name"
	mainQueue  = "main"
	// hallLabel is on the nodes that Kueue's flavor is about.
	hallLabel = "example.com/hall"
	// runsFor is the simulated kubelets' annotation for how long a job's pod runs.
	runsFor = "pod-complete.stage.kwok.x-k8s.io/delay"
	// waitMore is how much longer the pod with the longest wait may wait beside Berth, in seconds.
	waitMore = 5
	// takesMore is how much longer a script may take, in seconds.
	takesMore = 15
	// scriptWithin bounds the time that a script of jobs may take.
	scriptWithin = 5 * time.Minute
)

// kueueOperator is Kueue with its defaults, but that it also holds plain pods back and may send as many requests as it
// likes: its default of 50 a second would measure that constant.
var kueueOperator = operator{
	name: "kueue", program: "kueue", pin: batchPin, module: "sigs.k8s.io/kueue",
	namespace: "kueue-system",
	managed: managed{
		service: "kueue-webhook-service", secret: "kueue-webhook-server-cert", authority: "kueue-ca",
	},
	kustomization: "config/default",
	config: func(stage operatorStage) string {
		return fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %s, certDir: %q}
leaderElection: {leaderElect: false}
clientConnection: {qps: 1000, burst: 1000}
integrations:
  frameworks: [batch/job, pod]
featureGates: {VisibilityOnDemand: false}
`, stage.Health, stage.WebhookPort, stage.Dir)
	},
}

// kueueQueue is one queue with a quota of CPUs on the hall's nodes.
func kueueQueue(cpu int, topology string) string {
	return strings.NewReplacer("CPU", fmt.Sprint(cpu), "TOPOLOGY", topology).Replace(`apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: hall}
spec:
  levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: hall}
spec: {nodeLabels: {example.com/hall: main}TOPOLOGY}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: main}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: hall
      resources: [{name: cpu, nominalQuota: CPU}, {name: memory, nominalQuota: 4Ti}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: script}
spec: {clusterQueue: main}
`)
}

// kueue holds jobs and pods back until there is quota for them.
func kueue() Neighbour {
	return Neighbour{
		Name: "kueue", Version: "Kueue 0.17.0 (`sigs.k8s.io/kueue`)", Programs: []string{"kueue"},
		Scenarios: []Scenario{quotaScenario(), topologyScenario()},
	}
}

// batch is a job of so many pods, all of which run at the same time.
type batch struct {
	name string
	pods int
	cpu  string
	runs time.Duration
	// annotations are those of its pods.
	annotations map[string]string
}

func (b batch) create(ctx context.Context, s *Scene, queue string) error {
	pods := int32(b.pods) //nolint:gosec // a few
	annotations := map[string]string{runsFor: b.runs.String()}
	for key, value := range b.annotations {
		annotations[key] = value
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: namespace},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec:       pendingPod("", b.cpu).Spec,
			},
		},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if queue != "" {
		job.Labels, job.Spec.Suspend = map[string]string{queueLabel: queue}, ptr.To(true)
	}
	_, err := s.Client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	return err
}

// jobsDone waits until all jobs have completed, but no longer than a script may take, and returns how many have.
func jobsDone(ctx context.Context, s *Scene, want int) (done int, err error) {
	began := time.Now()
	return done, s.Eventually(ctx, 2*scriptWithin, "the jobs are done", func(ctx context.Context) (string, error) {
		jobs, err := s.Client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		done = 0
		for i := range jobs.Items {
			if jobs.Items[i].Status.CompletionTime != nil {
				done++
			}
		}
		if done >= want || time.Since(began) > scriptWithin {
			return "", nil
		}
		return fmt.Sprintf("%d of %d", done, want), nil
	})
}

// startKueue prepares the nodes, the queue, and the trail of what becomes of the pods.
func startKueue(ctx context.Context, s *Scene, h hall, queue string) (*trail, error) {
	if err := h.build(ctx, s); err != nil {
		return nil, err
	}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(namespace)); err != nil {
		return nil, err
	}
	if err := kueueOperator.start(ctx, s); err != nil {
		return nil, err
	}
	a, err := s.Applier()
	if err != nil {
		return nil, err
	}
	if err := admitted(ctx, s, a, queue); err != nil {
		return nil, err
	}
	return follow(ctx, s, namespace)
}
