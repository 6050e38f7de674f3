package neighbours

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// What KubeVirt writes, and others read.
const (
	launcherLabel = "kubevirt.io"
	launcher      = "virt-launcher"
	machineLabel  = "vm.kubevirt.io/name"
	// evictOnly asks for an eviction that something else carries out, inProgress states that it does.
	evictOnly  = "descheduler.alpha.kubernetes.io/request-evict-only"
	inProgress = "descheduler.alpha.kubernetes.io/eviction-in-progress"
	// evacuating is in the answer to the eviction that begins a migration; the descheduler looks for these words.
	evacuating = "Eviction triggered evacuation of VMI"
)

const (
	virtNamespace = "machines"
	machineAPI    = "kubevirt.io/v1"
	machineKind   = "VirtualMachineInstance"
	// migrationTakes is the time that a machine's memory takes to the node that is ready for it.
	migrationTakes = 3 * time.Second
	// migrationWithin bounds the time in which the pod that takes a machine over has to run.
	migrationWithin = 90 * time.Second
)

// machineDefinition is as much of KubeVirt's as owners need.
const machineDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualmachineinstances.kubevirt.io}
spec:
  group: kubevirt.io
  names: {kind: VirtualMachineInstance, plural: virtualmachineinstances, singular: virtualmachineinstance}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// virt plays the part of KubeVirt that others meet: a webhook that turns the eviction of a machine's pod into a
// migration, a budget that allows no disruption of it, and the migration. Safe for concurrent use.
//
// Source, in kubevirt.io/kubevirt: docs/handling-eviction-requests.md, pkg/virt-controller/watch/drain,
// pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go.
type virt struct {
	s  *Scene
	mu struct {
		sync.Mutex
		machines map[string]*machine
		asked    asked
		err      error
	}
	group sync.WaitGroup
}

// asked counts requests for the eviction of machines' pods.
type asked struct {
	// evictions is all of them, begun is those that began a migration.
	evictions, begun int
	// signed is those of begun that state who asks and why.
	signed int
}

// machine is one virtual machine.
type machine struct {
	name string
	uid  types.UID
	cpu  string
	// pod has the machine now, of so many that it has had.
	pod  string
	pods int
	// evacuates is set from the eviction of the pod until the machine is elsewhere, or cannot be.
	evacuates bool
	// migrated and stopped count how the machine left its pods: alive, or by the pod's end.
	migrated, stopped int
}

// startVirt starts it; it ends with the scenario.
func startVirt(ctx context.Context, s *Scene) (*virt, error) {
	a, err := s.Applier()
	if err != nil {
		return nil, err
	}
	if err := a.Text(ctx, machineDefinition); err != nil {
		return nil, err
	}
	v := &virt{s: s}
	v.mu.machines = map[string]*machine{}
	ctx, cancel := context.WithCancel(ctx)
	s.AtEnd(func(context.Context) error {
		cancel()
		v.group.Wait()
		return nil
	})
	if err := v.watch(ctx); err != nil {
		return nil, err
	}
	return v, v.serve(ctx)
}

func (v *virt) pods() typedcorev1.PodInterface { return v.s.Client.CoreV1().Pods(virtNamespace) }

// add starts a machine, with a budget that allows no disruption of its pod. Its first pod is on the node, if there is
// one.
func (v *virt) add(ctx context.Context, name, cpu, node string) error {
	a, err := v.s.Applier()
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": machineAPI, "kind": machineKind}}
	object.SetName(name)
	object.SetNamespace(virtNamespace)
	if err := a.Object(ctx, object); err != nil {
		return err
	}
	in, err := a.In(object)
	if err != nil {
		return err
	}
	if object, err = in.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	_, err = v.s.Client.PolicyV1().PodDisruptionBudgets(virtNamespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{machineLabel: name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	m := &machine{name: name, uid: object.GetUID(), cpu: cpu}
	v.mu.machines[name] = m
	pod := m.next(node)
	m.pod = pod.Name
	_, err = v.pods().Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// next returns a new pod for the machine.
func (m *machine) next(node string) *corev1.Pod {
	m.pods++
	labels := map[string]string{launcherLabel: launcher, machineLabel: m.name}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", launcher, m.name, m.pods), Namespace: virtNamespace, Labels: labels,
			Annotations: map[string]string{evictOnly: ""},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: machineAPI, Kind: machineKind, Name: m.name, UID: m.uid, Controller: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:      node,
			RestartPolicy: corev1.RestartPolicyNever,
			// The pod that takes a machine over is on another node than the one that has it.
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{machineLabel: m.name}},
					TopologyKey:   corev1.LabelHostname,
				}},
			}},
			Containers: []corev1.Container{{
				Name: "compute", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(m.cpu), corev1.ResourceMemory: resource.MustParse("64Mi"),
				}},
			}},
		},
	}
}

// migrate moves a machine whose evacuation has begun to a new pod.
func (v *virt) migrate(ctx context.Context, m *machine) error {
	v.mu.Lock()
	source, target := m.pod, m.next("")
	v.mu.Unlock()
	if err := v.annotate(ctx, source, fmt.Sprintf("%q", "kubevirt")); err != nil {
		return gone(err) // it was deleted meanwhile, which the watch sees
	}
	if err := v.protect(ctx, m.name, 2); err != nil { //nolint:mnd // both pods of a migration
		return err
	}
	if _, err := v.pods().Create(ctx, target, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := v.s.Eventually(ctx, migrationWithin, target.Name+" runs", func(ctx context.Context) (string, error) {
		pod, err := v.pods().Get(ctx, target.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if pod.Status.Phase == corev1.PodRunning {
			return "", nil
		}
		return string(pod.Status.Phase), nil
	})
	if err == nil {
		err = bench.Pause(ctx, migrationTakes)
	}
	if err == nil {
		err = v.takeOver(ctx, m, source, target.Name)
	} else {
		err = v.giveUp(ctx, m, source, target.Name)
	}
	if err != nil {
		return err
	}
	return v.protect(ctx, m.name, 1)
}

// takeOver ends a migration: the machine is in its new pod, and the old one has run.
func (v *virt) takeOver(ctx context.Context, m *machine, source, target string) error {
	v.mu.Lock()
	if m.pod == source { // it was not stopped meanwhile
		m.pod, m.migrated = target, m.migrated+1
	}
	m.evacuates = false
	v.mu.Unlock()
	body := []byte(`{"status":{"phase":"Succeeded","conditions":null}}`)
	_, err := v.pods().Patch(ctx, source, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return gone(err)
}

// giveUp ends a migration to a pod that does not run in time. The machine stays where it is.
func (v *virt) giveUp(ctx context.Context, m *machine, source, target string) error {
	if err := v.pods().Delete(ctx, target, metav1.DeleteOptions{}); gone(err) != nil {
		return err
	}
	v.mu.Lock()
	m.evacuates = false
	v.mu.Unlock()
	return gone(v.annotate(ctx, source, "null"))
}

// annotate sets or, with null, removes the annotation of an eviction that is under way.
func (v *virt) annotate(ctx context.Context, pod, value string) error {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, inProgress, value)
	_, err := v.pods().Patch(ctx, pod, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// protect sets how many pods of a machine its budget keeps.
func (v *virt) protect(ctx context.Context, name string, pods int) error {
	body := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, pods)
	_, err := v.s.Client.PolicyV1().PodDisruptionBudgets(virtNamespace).Patch(
		ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// gone is nil for an object that is not there any more.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
