package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// machines is how many there are in a script, machineCPU what each has.
	machines, machineCPU = 6, "2"
	// drainRetry is the time after which `kubectl drain` asks again.
	drainRetry = 5 * time.Second
	// drainWithin bounds a script.
	drainWithin = 2 * time.Minute
	// oldNode has the machines at first.
	oldNode = "host-0-0-0"
	// leavingTaint is the taint of a node that machines have to leave.
	leavingTaint = "example.com/leaving"
	urgent       = "urgent"
)

// machineHall has room for all machines on any two of its nodes.
var machineHall = hall{blocks: 1, racks: 1, hosts: 4, cpu: 12}

// leavePolicy has machines leave nodes whose taints they do not tolerate. A pass is made every second.
const leavePolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: leave
  pluginConfig:
  - name: DefaultEvictor
  - name: RemovePodsViolatingNodeTaints
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints]
`

// kubeVirt is a program that carries virtual machines to other nodes when their pods are evicted.
func kubeVirt() Neighbour {
	return Neighbour{
		Name:    "kubevirt",
		Version: "KubeVirt, main (`kubevirt.io/kubevirt`)",
		Played: "Its module could not be had for this comparison, and KubeVirt itself needs kubelets that run machines. " +
			"So its part is played by a program that follows docs/handling-eviction-requests.md and the eviction webhook " +
			"of its source: [test/neighbours/virt.go](../test/neighbours/virt.go)",
		Scenarios: []Scenario{
			{
				Name: "drain",
				About: "a node with six virtual machines is drained: each eviction is refused, begins a migration, and the " +
					"new pod needs a node; no machine may stop.",
				Run: drainMachines,
			},
			{
				Name: "descheduler",
				About: "six virtual machines stand on a node whose taint they do not tolerate; the descheduler asks for their " +
					"eviction once each, and they migrate.",
				Scheduling: Scheduling{
					Policy: leavePolicy, Interval: time.Second, DeschedulerGates: "EvictionsInBackground=true",
				},
				Run: deschedulerMovesMachines,
			},
			{
				Name: "preemption",
				About: "an urgent pod fits only where a virtual machine stands, and the machine could be elsewhere; " +
					"the machine should not stop for it.",
				Run: preemptMachine,
			},
		},
	}
}

// machineGround starts the nodes and the machines on the first of them.
func machineGround(ctx context.Context, s *Scene, count int) (*virt, error) {
	if err := machineHall.build(ctx, s); err != nil {
		return nil, err
	}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(virtNamespace)); err != nil {
		return nil, err
	}
	v, err := startVirt(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range count {
		if err := v.add(ctx, fmt.Sprintf("vm-%d", i), machineCPU, oldNode); err != nil {
			return nil, err
		}
	}
	return v, s.Eventually(ctx, time.Minute, "the machines run", func(ctx context.Context) (string, error) {
		pods, err := v.pods().List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
		if err != nil || len(pods.Items) == count {
			return "", err
		}
		return fmt.Sprintf("%d of %d", len(pods.Items), count), nil
	})
}

// drainMachines evicts as `kubectl drain` does: every pod, again and again until it is gone.
func drainMachines(ctx context.Context, s *Scene) (Result, error) {
	v, err := machineGround(ctx, s, machines)
	if err != nil {
		return Result{}, err
	}
	if err := patchNode(ctx, s, oldNode, `{"spec":{"unschedulable":true}}`); err != nil {
		return Result{}, err
	}
	began, asked := time.Now(), time.Time{}
	err = s.Eventually(ctx, 2*drainWithin, "the node is drained", func(ctx context.Context) (string, error) {
		left, err := v.on(ctx, oldNode)
		if err != nil || len(left) == 0 || time.Since(began) > drainWithin {
			return "", err
		}
		if time.Since(asked) >= drainRetry {
			asked = time.Now()
			if err := v.evict(ctx, left); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d pods are left", len(left)), nil
	})
	if err != nil {
		return Result{}, err
	}
	return v.result(time.Since(began), drainMore, Measure{Name: "migrations", Margin: Within(0)})
}

// on returns the machines' pods on a node that have not run.
func (v *virt) on(ctx context.Context, node string) (left []corev1.Pod, err error) {
	list, err := v.pods().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if !hasRun(&list.Items[i]) {
			left = append(left, list.Items[i])
		}
	}
	return left, nil
}

func (v *virt) evict(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		err := v.pods().EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: virtNamespace, Name: pods[i].Name},
		})
		if err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// deschedulerMovesMachines waits until all machines have left the node, or have been there too long.
func deschedulerMovesMachines(ctx context.Context, s *Scene) (Result, error) {
	v, err := machineGround(ctx, s, machines)
	if err != nil {
		return Result{}, err
	}
	taint := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, leavingTaint)
	if err := patchNode(ctx, s, oldNode, taint); err != nil {
		return Result{}, err
	}
	began := time.Now()
	err = s.Eventually(ctx, 2*drainWithin, "the machines have left", func(ctx context.Context) (string, error) {
		left, err := v.on(ctx, oldNode)
		if err != nil || len(left) == 0 || time.Since(began) > drainWithin {
			return "", err
		}
		return fmt.Sprintf("%d are left", len(left)), nil
	})
	if err != nil {
		return Result{}, err
	}
	t, err := v.look()
	if err != nil {
		return Result{}, err
	}
	r, err := v.result(time.Since(began), drainMore, Measure{Name: "migrations", Margin: Within(0)})
	r.Measures = append(r.Measures,
		Measure{Name: "evictions requested", Value: float64(t.evictions), Margin: AtMost(0)},
		Measure{Name: "evictions that state who asks and why", Value: float64(t.signed), Margin: AtLeast(0)})
	return r, err
}

// preemptMachine has an urgent pod wait for the room of one of the machines.
func preemptMachine(ctx context.Context, s *Scene) (Result, error) {
	v, err := machineGround(ctx, s, machines)
	if err != nil {
		return Result{}, err
	}
	_, err = s.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000, //nolint:mnd // above that of the machines, 0
	}, metav1.CreateOptions{})
	if err != nil {
		return Result{}, err
	}
	pod := (&machine{name: urgent, cpu: machineCPU}).next("")
	pod.Name, pod.Labels, pod.Annotations, pod.OwnerReferences = urgent, nil, nil, nil
	pod.Spec.Affinity, pod.Spec.PriorityClassName = nil, urgent
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: oldNode}
	if _, err := v.pods().Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return Result{}, err
	}
	began, bound := time.Now(), 0.0
	err = s.Eventually(ctx, drainWithin, "the urgent pod is bound", func(ctx context.Context) (string, error) {
		now, err := v.pods().Get(ctx, urgent, metav1.GetOptions{})
		if err != nil || time.Since(began) > drainWithin/2 { //nolint:mnd // it may wait for ever
			return "", err
		}
		if now.Spec.NodeName == "" {
			return "it is pending", nil
		}
		bound = 1
		return "", nil
	})
	if err != nil {
		return Result{}, err
	}
	return v.result(time.Since(began), urgentMore,
		Measure{Name: "urgent pods bound", Value: bound, Margin: AtLeast(0)}, Measure{Name: "migrations", Margin: AtLeast(0)})
}

// result adds what became of the machines to measures; the one of migrations is filled in. Beside Berth the script may
// take so many seconds more.
func (v *virt) result(took time.Duration, more float64, measures ...Measure) (Result, error) {
	t, err := v.look()
	r := Result{Measures: measures}
	for i := range measures {
		if measures[i].Name == "migrations" {
			measures[i].Value = float64(t.migrated)
		}
	}
	r.Measures = append(r.Measures, Measure{Name: "it takes", Unit: "s", Value: took.Seconds(), Margin: AtMost(more)})
	if t.stopped > 0 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%d virtual machines were stopped", t.stopped))
	}
	return r, err
}

func patchNode(ctx context.Context, s *Scene, name, body string) error {
	_, err := s.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// drainMore is how much longer a script may take beside Berth, in seconds, and urgentMore how much longer an urgent pod
// may wait: kube-scheduler stops the machine at once, and a migration takes its time.
const drainMore, urgentMore = 10, 30
