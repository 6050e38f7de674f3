package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// quotaCPU is less than half of what the nodes have, and what quotaPods plain pods and eight jobs request.
	quotaCPU, quotaJobs, quotaPods = 40, 40, 4
	// jobPods of jobCPU CPUs each make a job, which runs for jobRuns.
	jobPods, jobCPU, jobRuns = 2, "2", 4 * time.Second
)

var quotaHall = hall{blocks: 1, racks: 2, hosts: 6, cpu: 8}

// quotaScenario is about jobs that are suspended, and pods that have a gate, until there is quota.
func quotaScenario() Scenario {
	return Scenario{
		Name: "quota",
		About: fmt.Sprintf("%d jobs of %d pods and %d single pods with gates compete for a quota of %d CPUs, on nodes with "+
			"%d; at no time more CPUs than the quota are bound.", quotaJobs, jobPods, quotaPods, quotaCPU,
			quotaHall.racks*quotaHall.hosts*quotaHall.cpu),
		Run: func(ctx context.Context, s *Scene) (Result, error) {
			t, err := startKueue(ctx, s, quotaHall, kueueQueue(quotaCPU, ""))
			if err != nil {
				return Result{}, err
			}
			began := time.Now()
			if err := gatedPods(ctx, s); err != nil {
				return Result{}, err
			}
			for i := range quotaJobs {
				one := batch{name: fmt.Sprintf("job-%02d", i), pods: jobPods, cpu: jobCPU, runs: jobRuns}
				if err := one.create(ctx, s, mainQueue); err != nil {
					return Result{}, err
				}
			}
			done, err := jobsDone(ctx, s, quotaJobs)
			if err != nil {
				return Result{}, err
			}
			return quotaResult(t, done, time.Since(began))
		},
	}
}

// gatedPods creates pods that Kueue gives a gate.
func gatedPods(ctx context.Context, s *Scene) error {
	for i := range quotaPods {
		pod := pendingPod(fmt.Sprintf("single-%d", i), jobCPU)
		pod.Labels = map[string]string{queueLabel: mainQueue}
		created, err := s.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if len(created.Spec.SchedulingGates) == 0 {
			return fmt.Errorf("pod %s has no gate: Kueue's webhook did not see it", pod.Name)
		}
	}
	return nil
}

func quotaResult(t *trail, done int, took time.Duration) (Result, error) {
	pods, err := t.all()
	r := Result{
		Measures: []Measure{
			{Name: "jobs done", Value: float64(done), Margin: Within(0)},
			{Name: "single pods bound", Value: float64(boundPods(singles(pods))), Margin: Within(0)},
			{Name: "CPUs bound at one time, most", Value: t.mostCPU(), Margin: Anything()},
			{Name: "wait for a node, longest", Unit: "s", Value: longest(waits(pods, time.Now())), Margin: AtMost(waitMore)},
			{Name: "it takes", Unit: "s", Value: took.Seconds(), Margin: AtMost(takesMore)},
		},
		Wrong: crowded(pods, int64(quotaHall.cpu)*1000), //nolint:mnd // millicores
	}
	if most := t.mostCPU(); most > quotaCPU {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%g CPUs were bound at one time, of a quota of %d", most, quotaCPU))
	}
	return r, err
}

// singles are the pods without an owner.
func singles(pods []traced) (list []traced) {
	for _, one := range pods {
		if metav1.GetControllerOf(one.pod) == nil {
			list = append(list, one)
		}
	}
	return list
}

// longest returns the first of waits, in seconds; 0 if there are none.
func longest(seconds []float64) float64 {
	if len(seconds) == 0 {
		return 0
	}
	return seconds[0]
}

// jobOf names the job that a pod is of, empty for none.
func jobOf(pod *corev1.Pod) string { return pod.Labels["batch.kubernetes.io/job-name"] }
