package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// exclusiveHall has fewer racks than a script has groups.
var exclusiveHall = hall{blocks: 2, racks: 3, hosts: 2, cpu: 8}

// jobSetOperator is JobSet with its defaults.
var jobSetOperator = operator{
	name: "jobset", program: "jobset", pin: batchPin, module: "sigs.k8s.io/jobset",
	namespace:     "jobset-system",
	kustomization: "config/default",
	config: func(stage operatorStage) string {
		return fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %s, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, stage.Health, stage.WebhookPort, stage.Dir)
	},
}

// jobSets are two sets of jobs, each of which wants a rack for itself: together they want more racks than there are.
const jobSets = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: NAME
  namespace: script
  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}
spec:
  replicatedJobs:
  - name: workers
    replicas: 4
    template:
      spec:
        parallelism: 6
        completions: 6
        backoffLimit: 0
        template:
          metadata: {annotations: {pod-complete.stage.kwok.x-k8s.io/delay: 20s}}
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: registry.k8s.io/pause:3.10
              resources: {requests: {cpu: "2", memory: 64Mi}}
`

// jobSet runs several jobs as one.
func jobSet() Neighbour {
	return Neighbour{
		Name: "jobset", Version: "JobSet 0.11.1 (`sigs.k8s.io/jobset`)", Programs: []string{"jobset"},
		Scenarios: []Scenario{{
			Name: "exclusive",
			About: "two JobSets of four jobs of six pods each, every job in a rack of its own, on six racks: two jobs wait " +
				"for others to end. JobSet gives the first pod of a job affinities, and the others its rack.",
			Run: func(ctx context.Context, s *Scene) (Result, error) {
				const sets, jobs, podsOfJob = 2, 4, 6
				t, a, err := exclusiveGround(ctx, s, jobSetOperator)
				if err != nil {
					return Result{}, err
				}
				began := time.Now()
				for _, name := range []string{"first", "second"} {
					if err := admitted(ctx, s, a, replaced(jobSets, "NAME", name)); err != nil {
						return Result{}, err
					}
				}
				done, err := jobsDone(ctx, s, sets*jobs)
				if err != nil {
					return Result{}, err
				}
				r, err := exclusiveResult(ctx, s, t, jobOf)
				r.Measures = append([]Measure{
					{Name: "jobs done", Value: float64(done), Margin: Within(0)},
				}, append(r.Measures, Measure{
					Name: "it takes", Unit: "s", Value: time.Since(began).Seconds(), Margin: AtMost(takesMore),
				})...)
				return r, err
			},
		}},
	}
}

// exclusiveGround starts nodes, an operator, and the trail of what becomes of the pods.
func exclusiveGround(ctx context.Context, s *Scene, o operator) (*trail, *Applier, error) {
	if err := exclusiveHall.build(ctx, s); err != nil {
		return nil, nil, err
	}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(namespace)); err != nil {
		return nil, nil, err
	}
	if err := o.start(ctx, s); err != nil {
		return nil, nil, err
	}
	t, err := follow(ctx, s, namespace)
	if err != nil {
		return nil, nil, err
	}
	a, err := s.Applier()
	return t, a, err
}

// exclusiveResult counts pods, and groups that share a rack or are in two.
func exclusiveResult(ctx context.Context, s *Scene, t *trail, group func(*corev1.Pod) string) (Result, error) {
	pods, err := t.all()
	if err != nil {
		return Result{}, err
	}
	racks, err := domains(ctx, s, rackLabel)
	if err != nil {
		return Result{}, err
	}
	exclusive := placement{domain: racks, group: group, alone: true}
	return Result{
		Measures: []Measure{
			{Name: "pods bound", Value: float64(boundPods(pods)), Margin: Within(0)},
		},
		Wrong: append(exclusive.violations(pods), crowded(pods, int64(exclusiveHall.cpu)*1000)...), //nolint:mnd // millicores
	}, nil
}
