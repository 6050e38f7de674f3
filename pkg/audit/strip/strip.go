package strip

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// ownPrefix is the prefix of the annotations and pod conditions that a history keeps, which are Berth's own.
const ownPrefix = "berth.dev/"

// Pod returns the part of a pod that the rules read, without its resourceVersion. It shares memory with the
// pod.
func Pod(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: meta(p.ObjectMeta)}
	out.DeletionTimestamp = p.DeletionTimestamp
	out.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity,
		TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, Tolerations: p.Spec.Tolerations,
		SchedulerName: p.Spec.SchedulerName, Priority: p.Spec.Priority, SchedulingGates: p.Spec.SchedulingGates,
		Overhead: p.Spec.Overhead, Resources: p.Spec.Resources, HostNetwork: p.Spec.HostNetwork,
		SchedulingGroup: p.Spec.SchedulingGroup,
		Containers:      containers(p.Spec.Containers), InitContainers: containers(p.Spec.InitContainers),
	}
	for _, v := range p.Spec.Volumes {
		out.Spec.Volumes = append(out.Spec.Volumes, claimOnly(p.Name, v)...)
	}
	out.Status.Phase = p.Status.Phase
	out.Status.ExtendedResourceClaimStatus = p.Status.ExtendedResourceClaimStatus
	out.Status.ContainerStatuses = statuses(p.Status.ContainerStatuses)
	out.Status.InitContainerStatuses = statuses(p.Status.InitContainerStatuses)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			kept := corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason}
			out.Status.Conditions = append(out.Status.Conditions, kept)
		}
		if c.Type == corev1.DisruptionTarget || strings.HasPrefix(string(c.Type), ownPrefix) {
			kept := corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
			out.Status.Conditions = append(out.Status.Conditions, kept)
		}
	}
	return out
}

// claimOnly returns a pod's volume reduced to its claim, if it has one; the claim of an ephemeral volume is named
// after the pod and the volume.
func claimOnly(pod string, v corev1.Volume) []corev1.Volume {
	var claim *corev1.PersistentVolumeClaimVolumeSource
	switch {
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim
	case v.Ephemeral != nil:
		claim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod + "-" + v.Name}
	default:
		return nil
	}
	return []corev1.Volume{{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
}

// VolumeClaim returns the part of a volume claim that the rules read.
func VolumeClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{ObjectMeta: meta(c.ObjectMeta)}
	out.Spec.AccessModes, out.Spec.VolumeName = c.Spec.AccessModes, c.Spec.VolumeName
	return out
}

// Volume returns the part of a volume that the rules read.
func Volume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{ObjectMeta: meta(v.ObjectMeta)}
	out.Spec.NodeAffinity = v.Spec.NodeAffinity
	return out
}

// DeviceClaim returns the part of a device claim that the rules read: its devices and its users.
func DeviceClaim(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{ObjectMeta: meta(c.ObjectMeta)}
	out.Status.ReservedFor = c.Status.ReservedFor
	if a := c.Status.Allocation; a != nil {
		out.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: a.Devices.Results},
		}
	}
	return out
}

// Budget returns the part of a disruption budget that the rules read, without its resourceVersion.
func Budget(b *recording.Budget) *recording.Budget {
	out := &recording.Budget{ObjectMeta: meta(b.ObjectMeta), Spec: b.Spec, Status: b.Status}
	out.Generation = b.Generation
	out.Status.Conditions = nil
	out.Status.DisruptedPods = nil
	return out
}

// PodGroup returns the part of a PodGroup that the rules read, without its resourceVersion.
func PodGroup(g *recording.PodGroup) *recording.PodGroup {
	out := &recording.PodGroup{ObjectMeta: meta(g.ObjectMeta)}
	out.Spec.SchedulingPolicy, out.Spec.SchedulingConstraints = g.Spec.SchedulingPolicy, g.Spec.SchedulingConstraints
	return out
}

// Node returns the part of a node that the rules read, without its resourceVersion.
func Node(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: meta(n.ObjectMeta)}
	out.Spec.Taints, out.Spec.Unschedulable = fit.Obeyed(n.Spec.Taints), n.Spec.Unschedulable
	out.Status.Allocatable = n.Status.Allocatable
	return out
}

// Namespace returns the part of a namespace that the rules read, without its resourceVersion.
func Namespace(n *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: meta(n.ObjectMeta)}
}

// meta keeps what identifies an object, its labels, and Berth's own annotations. The resourceVersion is a field
// of the record (recording.Object.RV).
func meta(m metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: m.Labels}
	for k, v := range m.Annotations {
		if strings.HasPrefix(k, ownPrefix) {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[k] = v
		}
	}
	return out
}

// containers keeps requests, host ports, and what upstream's arithmetic needs to treat init containers: their
// restart policy and name. Limits, images, commands and environment variables are removed.
func containers(in []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range in {
		kept := corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy}
		kept.Resources.Requests = maps.Clone(c.Resources.Requests)
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				port := corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol}
				kept.Ports = append(kept.Ports, port)
			}
		}
		out = append(out, kept)
	}
	return out
}

// statuses keeps the resources that the kubelet has allocated, by which a resize is counted (KEP-1287); a status
// without any is left out.
func statuses(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, s := range in {
		if s.AllocatedResources == nil && (s.Resources == nil || s.Resources.Requests == nil) {
			continue
		}
		kept := corev1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources}
		if s.Resources != nil {
			kept.Resources = &corev1.ResourceRequirements{Requests: s.Resources.Requests}
		}
		out = append(out, kept)
	}
	return out
}
