package strip

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/nodemark"
)

// Strip removes, in place, what no decision and no explanation needs, so that facts and snapshots stay small:
// managedFields, the last-applied annotation, commands, environment, mounts, probes, projected volumes, addresses,
// pod templates, node system info and the like. It keeps what scheduling, eviction and explaining read: owner
// references, labels, all other annotations, conditions, phases, and of containers the image, ports, resources,
// restart policy and status. Of volumes and the objects that provide them it keeps what shows where they can be
// used, of devices and claims to them what shows their allocation. Objects of other types lose only managedFields
// and the annotation. A pod whose annotations have no room gets FullAnnotation. Of the marks on a node for autoscalers
// a note remains (nodemark.Strip).
//
// The caller must own obj (a freshly decoded one). Stripping twice has no further effect.
func Strip(obj metav1.Object) {
	stripMeta(obj)
	switch o := obj.(type) {
	case *corev1.Pod:
		stripPodSpec(&o.Spec)
		stripPodStatus(&o.Status)
	case *corev1.Node:
		stripNode(o)
	case *appsv1.ReplicaSet:
		o.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.StatefulSet:
		o.Spec.Template = corev1.PodTemplateSpec{}
		o.Spec.VolumeClaimTemplates = nil
	case *corev1.ReplicationController:
		o.Spec.Template = nil
	default:
		stripStorage(obj)
	}
}

// stripMeta removes what no kind needs. MarkFull comes first, because it counts annotations that are removed here.
func stripMeta(obj metav1.Object) {
	obj.SetManagedFields(nil)
	if _, ok := obj.(*corev1.Pod); ok {
		MarkFull(obj)
	}
	if annotations := obj.GetAnnotations(); annotations != nil {
		maps.DeleteFunc(annotations, func(k, _ string) bool {
			return k == corev1.LastAppliedConfigAnnotation
		})
		if len(annotations) == 0 {
			annotations = nil
		}
		obj.SetAnnotations(annotations)
	}
	if _, marked := obj.GetLabels()[LabelsCut]; marked && !Reduced(obj) {
		delete(obj.GetLabels(), LabelsCut)
	}
}

// KeepSpec is Strip for a service that shows pods and nodes to consumers that may read anything in them: of a pod
// it keeps the whole spec, of a node everything except heartbeats. It costs memory in every process, and pods of
// one template that differ in what Strip would have removed do not share a template.
func KeepSpec(obj metav1.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		stripMeta(obj)
		stripPodStatus(&o.Status)
	case *corev1.Node:
		stripMeta(obj)
		nodemark.Strip(o)
		stripHeartbeats(&o.Status)
	default:
		Strip(obj)
	}
}

// stripPodSpec removes what only the kubelet needs.
func stripPodSpec(s *corev1.PodSpec) {
	stripContainers(s.Containers)
	stripContainers(s.InitContainers)
	s.EphemeralContainers = nil
	s.ImagePullSecrets = nil
	s.HostAliases = nil
	s.DNSConfig = nil
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v corev1.Volume) bool { return v.Projected != nil })
	if len(s.Volumes) == 0 {
		s.Volumes = nil
	}
	for i := range s.Volumes {
		stripVolume(&s.Volumes[i])
	}
}

// stripContainers lists the fields to keep, so that a field of a later API version is dropped rather than kept.
func stripContainers(containers []corev1.Container) {
	for i, c := range containers {
		containers[i] = corev1.Container{
			Name:               c.Name,
			Image:              c.Image,
			Ports:              c.Ports,
			Resources:          c.Resources,
			ResizePolicy:       c.ResizePolicy,
			RestartPolicy:      c.RestartPolicy,
			RestartPolicyRules: c.RestartPolicyRules,
		}
	}
}

// stripVolume keeps only the kind of a volume that is mere content (no node, no claim): local storage decides
// evictability, its items decide nothing. (Projected volumes are removed altogether: the API server adds one to
// nearly every pod, under a random name, which would give each pod a kind of its own.)
func stripVolume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: v.ConfigMap.LocalObjectReference}
	case v.Secret != nil:
		v.Secret = &corev1.SecretVolumeSource{SecretName: v.Secret.SecretName}
	case v.DownwardAPI != nil:
		v.DownwardAPI = &corev1.DownwardAPIVolumeSource{}
	}
}

// stripPodStatus removes identifiers and addresses, which differ for each pod.
func stripPodStatus(s *corev1.PodStatus) {
	stripContainerStatuses(s.ContainerStatuses)
	stripContainerStatuses(s.InitContainerStatuses)
	// Of ephemeral containers only the statuses are kept: how they ended decides about evictions. Few pods have
	// any.
	stripContainerStatuses(s.EphemeralContainerStatuses)
	Addresses(s)
}

// Addresses removes the addresses of a pod.
func Addresses(s *corev1.PodStatus) {
	s.HostIP, s.HostIPs = "", nil
	s.PodIP, s.PodIPs = "", nil
}

// stripContainerStatuses keeps names, images, states, restart counts and resources.
func stripContainerStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		s.ImageID = ""
		s.ContainerID = ""
		s.VolumeMounts = nil
		s.User = nil
		s.AllocatedResourcesStatus = nil
		stripContainerState(&s.State)
		stripContainerState(&s.LastTerminationState)
	}
}

func stripContainerState(s *corev1.ContainerState) {
	if s.Terminated != nil {
		s.Terminated.ContainerID = ""
	}
}

// stripNode also clears the conditions' heartbeat times: they change without meaning anything, and would make two
// equal states of a node look different.
func stripNode(n *corev1.Node) {
	nodemark.Strip(n)
	s := &n.Status
	s.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: s.NodeInfo.KubeletVersion}
	s.Addresses = nil
	s.VolumesInUse = nil
	s.VolumesAttached = nil
	s.DaemonEndpoints = corev1.NodeDaemonEndpoints{}
	s.Config = nil
	s.RuntimeHandlers = nil
	stripHeartbeats(s)
}

// stripHeartbeats clears the times at which conditions were last confirmed.
func stripHeartbeats(s *corev1.NodeStatus) {
	for i := range s.Conditions {
		s.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
}
