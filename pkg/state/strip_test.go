package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// TestStripPod: stripped data is gone, and decisions about the pod are as before.
func TestStripPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := statetest.Pod("default", "a", "cpu", "1")
	pod.Annotations = map[string]string{"keep": "me", corev1.LastAppliedConfigAnnotation: "{}"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "a"}}
	main := &pod.Spec.Containers[0]
	main.Env = []corev1.EnvVar{{Name: "SECRET", Value: "x"}}
	main.Command = []string{"sh"}
	main.LivenessProbe = &corev1.Probe{}
	main.Ports = []corev1.ContainerPort{{HostPort: 80}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: &always, Args: []string{"x"}}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "claim", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}},
	}
	pod.Status = corev1.PodStatus{
		PodIP: "10.0.0.1", HostIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", RestartCount: 3, ContainerID: "x", ImageID: "y", LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, ContainerID: "z"}},
		}},
	}
	before := state.NewPod(pod.DeepCopy())

	strip.Strip(pod)

	want := statetest.Pod("default", "a", "cpu", "1")
	want.Annotations = map[string]string{"keep": "me"}
	want.OwnerReferences = pod.OwnerReferences
	want.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	want.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: &always}}
	want.Spec.Volumes = []corev1.Volume{{Name: "claim", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	want.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", RestartCount: 3, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
	}}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("stripped (-want +got):\n%s", diff)
	}
	values := cmp.Options{cmpopts.IgnoreUnexported(state.Pod{}), cmpopts.IgnoreFields(state.Pod{}, "Template")}
	if diff := cmp.Diff(before, state.NewPod(pod), values); diff != "" {
		t.Errorf("values (-full +stripped):\n%s", diff)
	}
	again := pod.DeepCopy()
	strip.Strip(again)
	if diff := cmp.Diff(pod, again); diff != "" {
		t.Errorf("stripping twice (-once +twice):\n%s", diff)
	}
}

func TestStripOthers(t *testing.T) {
	node := statetest.Node("n", "cpu", "1")
	node.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", MachineID: "x"}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"a"}}}
	strip.Strip(node)
	if node.Annotations != nil || !node.Status.Conditions[0].LastHeartbeatTime.IsZero() ||
		node.Status.NodeInfo.MachineID != "" || node.Status.NodeInfo.KubeletVersion == "" || len(node.Status.Images) == 0 {
		t.Errorf("node: %+v", node)
	}
	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "x"}},
	}}
	strip.Strip(set)
	if set.Spec.Template.Spec.NodeName != "" || set.Spec.Selector == nil {
		t.Errorf("replica set: %+v", set)
	}
}

// TestKeepSpec: a pod keeps its whole spec and a node everything except its heartbeats; both lose data that no
// decision reads and every process would hold; other kinds are stripped as usual.
func TestKeepSpec(t *testing.T) {
	pod := statetest.Pod("default", "a", "cpu", "1")
	pod.Annotations = map[string]string{"keep": "me", corev1.LastAppliedConfigAnnotation: "{}"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEVEL", Value: "x"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{}}}}
	pod.Status.PodIP = "10.0.0.1"
	spec := pod.Spec.DeepCopy()
	strip.KeepSpec(pod)
	if diff := cmp.Diff(spec, &pod.Spec); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}
	if pod.ManagedFields != nil || pod.Status.PodIP != "" || len(pod.Annotations) != 1 || pod.Annotations["keep"] != "me" {
		t.Errorf("pod: %+v", pod)
	}

	node := statetest.Node("n", "cpu", "1")
	node.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "x"}
	strip.KeepSpec(node)
	if node.Annotations != nil || !node.Status.Conditions[0].LastHeartbeatTime.IsZero() ||
		node.Status.NodeInfo.MachineID != "x" {
		t.Errorf("node: %+v", node)
	}

	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "x"}},
	}}
	strip.KeepSpec(set)
	if set.Spec.Template.Spec.NodeName != "" {
		t.Errorf("replica set: %+v", set)
	}
}
