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

// nodeInfo is a node as plugins see it. Those in a cluster are shared and must not be changed; Snapshot gives a
// plugin one of its own.
type nodeInfo struct {
	node               *corev1.Node
	pods               []framework.PodInfo
	requested, nonZero *amounts
	allocatable        *amounts
	images             map[string]*framework.ImageStateSummary
	generation         int64
}

// newNodeInfo takes over what a copy of the state has.
func newNodeInfo(from *state.NodeInfo) *nodeInfo {
	n := &nodeInfo{
		node: from.Node.Object, requested: amountsOf(from.Requested), nonZero: amountsOf(from.NonZeroRequested),
		allocatable: amountsOf(from.Node.Allocatable), generation: int64(from.Generation),
		pods: make([]framework.PodInfo, 0, from.PodCount()),
	}
	n.requested.pods, n.nonZero.pods = 0, 0 // upstream counts pods by the list of them
	for pod := range from.Pods() {
		n.pods = append(n.pods, newPodInfo(pod, from.Node.Name))
	}
	n.images = map[string]*framework.ImageStateSummary{}
	if from.Node.Images != nil {
		for name, bytes := range from.Node.Images.All() {
			n.images[name] = &framework.ImageStateSummary{Size: bytes}
		}
	}
	return n
}

func (n *nodeInfo) Node() *corev1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

func (n *nodeInfo) GetPods() []framework.PodInfo { return n.pods }

func (n *nodeInfo) GetPodsWithAffinity() []framework.PodInfo {
	return n.podsThat(func(p framework.PodInfo) bool {
		a := p.GetPod().Spec.Affinity
		return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
	})
}

func (n *nodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo {
	return n.podsThat(func(p framework.PodInfo) bool { return len(p.GetRequiredAntiAffinityTerms()) > 0 })
}

func (n *nodeInfo) podsThat(match func(framework.PodInfo) bool) (list []framework.PodInfo) {
	for _, p := range n.pods {
		if match(p) {
			list = append(list, p)
		}
	}
	return list
}

// GetUsedPorts are the host ports of regular containers and of sidecars.
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

func usePorts(used framework.HostPortInfo, c *corev1.Container) {
	for _, port := range c.Ports {
		used.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
}

func (n *nodeInfo) GetRequested() framework.Resource        { return n.requested }
func (n *nodeInfo) GetNonZeroRequested() framework.Resource { return n.nonZero }
func (n *nodeInfo) GetAllocatable() framework.Resource      { return n.allocatable }

// GetImageStates has the sizes of the images on the node, and not on how many nodes they are.
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

func (n *nodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures is always empty: a plugin finds the names in the status of the node.
func (n *nodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return ndf.FeatureSet{} }

// GetNodeAllocatableDRAClaimState is always empty: its feature gate is alpha.
func (n *nodeInfo) GetNodeAllocatableDRAClaimState() map[types.NamespacedName]*framework.NodeAllocatableDRAClaimState {
	return nil
}

// Snapshot is a copy that is the caller's.
func (n *nodeInfo) Snapshot() framework.NodeInfo {
	c := *n
	c.pods = slices.Clone(n.pods)
	c.requested = n.requested.clone()
	c.nonZero = n.nonZero.clone()
	c.allocatable = n.allocatable.clone()
	return &c
}

func (n *nodeInfo) String() string {
	name := ""
	if n.node != nil {
		name = n.node.Name
	}
	return fmt.Sprintf("node %s: %d pods, %dm cpu and %d bytes of memory requested", name, len(n.pods),
		n.requested.cpu, n.requested.memory)
}

// AddPodInfo counts a pod.
func (n *nodeInfo) AddPodInfo(p framework.PodInfo) {
	n.pods = append(n.pods, p)
	n.count(1, p)
}

// RemovePod takes a pod off, found by its UID. The error names one that is not there.
func (n *nodeInfo) RemovePod(_ klog.Logger, pod *corev1.Pod) error {
	i := slices.IndexFunc(n.pods, func(p framework.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if i < 0 {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.node.Name)
	}
	n.count(-1, n.pods[i])
	n.pods = slices.Delete(n.pods, i, i+1)
	return nil
}

func (n *nodeInfo) count(sign int64, p framework.PodInfo) {
	r := p.CalculateResource()
	requested := &amounts{
		cpu: r.Resource.GetMilliCPU(), memory: r.Resource.GetMemory(), storage: r.Resource.GetEphemeralStorage(),
		scalars: r.Resource.GetScalarResources(),
	}
	n.requested.add(sign, requested)
	n.nonZero.add(sign, &amounts{cpu: r.Non0CPU, memory: r.Non0Mem})
}

// SetNode replaces the node and what it has to give.
func (n *nodeInfo) SetNode(node *corev1.Node) {
	n.node, n.allocatable = node, amountsOf(resources.NewResources(node.Status.Allocatable))
}
