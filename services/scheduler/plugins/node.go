package plugins

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// nodeInfo is a node as plugins see it; it implements framework.NodeInfo. Those in a cluster are shared and must not
// be changed; Snapshot returns a copy that belongs to the plugin. Lists that upstream keeps per node are computed
// when a plugin asks for them: most plugins never do.
type nodeInfo struct {
	node *corev1.Node
	pods []framework.PodInfo
	// requested are the requests of the pods; nonZero are those with upstream's defaults for pods that request
	// nothing.
	requested, nonZero *amounts
	allocatable        *amounts
	images             map[string]*framework.ImageStateSummary
	// generation grows with each change of the node or its pods, as upstream's does; the numbers are those of
	// Berth's state.
	generation int64
}

// newNodeInfo returns the plugins' form of a copied node.
func newNodeInfo(from *state.NodeInfo) *nodeInfo {
	n := &nodeInfo{
		node: from.Node.Object, requested: amountsOf(from.Requested), nonZero: amountsOf(from.NonZeroRequested),
		allocatable: amountsOf(from.Node.Allocatable), generation: int64(from.Generation),
		pods: make([]framework.PodInfo, 0, from.PodCount()),
	}
	n.requested.pods, n.nonZero.pods = 0, 0 // upstream counts pods by their list
	// A pod's form for plugins is built with its node's, and shared as long as the node does not change.
	for pod := range from.Pods() {
		n.pods = append(n.pods, newPodInfo(pod, from.Node.Name))
	}
	// Plugins may range over the map: it is never nil.
	n.images = map[string]*framework.ImageStateSummary{}
	if from.Node.Images != nil {
		for name, bytes := range from.Node.Images.All() {
			n.images[name] = &framework.ImageStateSummary{Size: bytes}
		}
	}
	return n
}

// Node returns the shared object; nil for a nil nodeInfo, as upstream.
func (n *nodeInfo) Node() *corev1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

// GetPods returns the pods that count on the node: bound ones, reserved ones, and those whose places are held.
func (n *nodeInfo) GetPods() []framework.PodInfo { return n.pods }

// GetPodsWithAffinity returns the pods with any inter-pod affinity or anti-affinity.
func (n *nodeInfo) GetPodsWithAffinity() []framework.PodInfo {
	return n.podsThat(func(p framework.PodInfo) bool {
		a := p.GetPod().Spec.Affinity
		return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
	})
}

// GetPodsWithRequiredAntiAffinity returns the pods with required anti-affinity.
func (n *nodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo {
	return n.podsThat(func(p framework.PodInfo) bool { return len(p.GetRequiredAntiAffinityTerms()) > 0 })
}

// podsThat returns the pods that match, in their order.
func (n *nodeInfo) podsThat(match func(framework.PodInfo) bool) (list []framework.PodInfo) {
	for _, p := range n.pods {
		if match(p) {
			list = append(list, p)
		}
	}
	return list
}

// GetUsedPorts returns the host ports of regular containers and of sidecars.
func (n *nodeInfo) GetUsedPorts() framework.HostPortInfo {
	used := framework.HostPortInfo{}
	for _, p := range n.pods {
		pod := p.GetPod()
		for i := range pod.Spec.Containers {
			usePorts(used, &pod.Spec.Containers[i])
		}
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				usePorts(used, c)
			}
		}
	}
	return used
}

// usePorts adds the host ports of a container.
func usePorts(used framework.HostPortInfo, c *corev1.Container) {
	for _, port := range c.Ports {
		used.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
}

// The amounts are shared with the nodeInfo. Their numbers of pods are zero but for that of GetAllocatable.
func (n *nodeInfo) GetRequested() framework.Resource        { return n.requested }
func (n *nodeInfo) GetNonZeroRequested() framework.Resource { return n.nonZero }
func (n *nodeInfo) GetAllocatable() framework.Resource      { return n.allocatable }

// GetImageStates returns the sizes of the images on the node, without the number of nodes that have them.
func (n *nodeInfo) GetImageStates() map[string]*framework.ImageStateSummary { return n.images }

// GetPVCRefCounts counts the pods of the node that use a claim.
func (n *nodeInfo) GetPVCRefCounts() map[string]int {
	counts := map[string]int{}
	for _, p := range n.pods {
		pod := p.GetPod()
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				counts[pod.Namespace+"/"+claim.ClaimName]++
			}
		}
	}
	return counts
}

// GetGeneration returns the generation; see the field.
func (n *nodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures is always empty: plugins find the names in the node's status.
func (n *nodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return ndf.FeatureSet{} }

// GetNodeAllocatableDRAClaimState is always empty: its feature gate is alpha.
func (n *nodeInfo) GetNodeAllocatableDRAClaimState() map[types.NamespacedName]*framework.NodeAllocatableDRAClaimState {
	return nil
}

// Snapshot returns a copy that belongs to the caller.
func (n *nodeInfo) Snapshot() framework.NodeInfo {
	c := *n
	c.pods = slices.Clone(n.pods)
	c.requested = n.requested.clone()
	c.nonZero = n.nonZero.clone()
	c.allocatable = n.allocatable.clone()
	return &c
}

// String returns the node in one line, for logs of plugins.
func (n *nodeInfo) String() string {
	name := ""
	if n.node != nil {
		name = n.node.Name
	}
	return fmt.Sprintf("node %s: %d pods, %dm cpu and %d bytes of memory requested", name, len(n.pods),
		n.requested.cpu, n.requested.memory)
}

// AddPodInfo adds a pod and its resources. The nodeInfo must be a Snapshot.
func (n *nodeInfo) AddPodInfo(p framework.PodInfo) {
	n.pods = append(n.pods, p)
	n.count(1, p)
}

// RemovePod removes the pod with that UID and its resources. The error names a pod that is not there. The nodeInfo
// must be a Snapshot.
func (n *nodeInfo) RemovePod(_ klog.Logger, pod *corev1.Pod) error {
	i := slices.IndexFunc(n.pods, func(p framework.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if i < 0 {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.node.Name)
	}
	n.count(-1, n.pods[i])
	n.pods = slices.Delete(n.pods, i, i+1)
	return nil
}

// count adds the resources of a pod to the requests, or subtracts them if sign is -1.
func (n *nodeInfo) count(sign int64, p framework.PodInfo) {
	r := p.CalculateResource()
	requested := &amounts{
		cpu: r.Resource.GetMilliCPU(), memory: r.Resource.GetMemory(), storage: r.Resource.GetEphemeralStorage(),
		scalars: r.Resource.GetScalarResources(),
	}
	n.requested.add(sign, requested)
	n.nonZero.add(sign, &amounts{cpu: r.Non0CPU, memory: r.Non0Mem})
}

// SetNode replaces the node and its allocatable resources.
func (n *nodeInfo) SetNode(node *corev1.Node) {
	n.node, n.allocatable = node, amountsOf(resources.NewResources(node.Status.Allocatable))
}
