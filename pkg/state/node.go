package state

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
)

// Node is one node as a fact described it. Immutable and shared.
type Node struct {
	UID, Name       string
	ResourceVersion uint64
	Allocatable     Resources
	// Images are the sizes in bytes of the images on the node, by every name they have;
	// nil when there are none.
	Images map[string]int64
	// UIDHash spreads nodes for tie-breaks; a function of UID alone.
	UIDHash uint64
	// Object is the stripped object.
	Object *corev1.Node
}

// NewNode derives the values of a node. It keeps obj: the caller gives it away.
func NewNode(obj *corev1.Node) *Node {
	return &Node{
		UID:             string(obj.UID),
		Name:            obj.Name,
		ResourceVersion: parseResourceVersion(obj.ResourceVersion),
		Allocatable:     NewResources(obj.Status.Allocatable),
		Images:          imageSizes(obj.Status.Images),
		UIDHash:         xxhash.Sum64String(string(obj.UID)),
		Object:          obj,
	}
}

// imageSizes keeps the first size of a name that appears twice, as upstream's cache does
// (pkg/scheduler/backend/cache addNodeImageStates).
func imageSizes(images []corev1.ContainerImage) map[string]int64 {
	if len(images) == 0 {
		return nil
	}
	sizes := make(map[string]int64, len(images))
	for _, image := range images {
		for _, name := range image.Names {
			if _, ok := sizes[name]; !ok {
				sizes[name] = image.SizeBytes
			}
		}
	}
	return sizes
}

// generation numbers states of NodeInfos. It is one counter for the process, so that equal
// numbers mean equal content even for two NodeInfos of one node; it takes part in no
// decision.
var generation atomic.Uint64

// NodeInfo is one node and the sum of what stands on it: pods the API shows there and, in
// a shard's view, reservations. It belongs to one goroutine; Clone before handing it on.
type NodeInfo struct {
	Node *Node
	// Requested and NonZeroRequested are the sums over the pods. Read only.
	Requested, NonZeroRequested Resources
	// Generation moves on every change: two NodeInfos with the same Generation have the
	// same content. The number itself means nothing.
	Generation uint64

	pods         []*Pod // sorted by UID
	antiAffinity []*Pod // those of pods with required anti-affinity, sorted by UID
	affinity     []*Pod // those of pods with Terms, sorted by UID
	undescribed  int    // how many of pods are not Described
	ports        []portUse
}

// portUse counts how many pods of a node use one port, so that the port stays in use until
// the last of them is gone. (Upstream keeps a set and frees it with the first.)
type portUse struct {
	HostPort
	count int
}

// NewNodeInfo returns an empty node.
func NewNodeInfo(node *Node) *NodeInfo {
	return &NodeInfo{Node: node, Generation: generation.Add(1)}
}

// SetNode replaces the node and keeps what stands on it.
func (n *NodeInfo) SetNode(node *Node) {
	n.Node = node
	n.Generation = generation.Add(1)
}

// AddPod puts a pod on the node. A pod with the same UID that is there already is
// replaced: a pod counts once.
func (n *NodeInfo) AddPod(pod *Pod) {
	n.RemovePod(pod.UID)
	n.pods = insertPod(n.pods, pod)
	if len(pod.RequiredAntiAffinity()) > 0 {
		n.antiAffinity = insertPod(n.antiAffinity, pod)
	}
	if pod.Terms != nil {
		n.affinity = insertPod(n.affinity, pod)
	}
	if !pod.Described() {
		n.undescribed++
	}
	n.Requested.accumulate(pod.Requests)
	n.NonZeroRequested.accumulate(pod.NonZero)
	for _, p := range pod.Ports {
		n.usePort(p, 1)
	}
	n.Generation = generation.Add(1)
}

// RemovePod takes a pod off the node; false when it is not there.
func (n *NodeInfo) RemovePod(uid string) bool {
	i, ok := findPod(n.pods, uid)
	if !ok {
		return false
	}
	pod := n.pods[i]
	n.pods = slices.Delete(n.pods, i, i+1)
	if j, ok := findPod(n.antiAffinity, uid); ok {
		n.antiAffinity = slices.Delete(n.antiAffinity, j, j+1)
	}
	if j, ok := findPod(n.affinity, uid); ok {
		n.affinity = slices.Delete(n.affinity, j, j+1)
	}
	if !pod.Described() {
		n.undescribed--
	}
	n.Requested.deduct(pod.Requests)
	n.NonZeroRequested.deduct(pod.NonZero)
	for _, p := range pod.Ports {
		n.usePort(p, -1)
	}
	n.Generation = generation.Add(1)
	return true
}

// Pods yields what stands on the node, sorted by UID.
func (n *NodeInfo) Pods() iter.Seq[*Pod] { return slices.Values(n.pods) }

// PodCount is the number of pods on the node.
func (n *NodeInfo) PodCount() int { return len(n.pods) }

// AntiAffinityPods yields the pods with required anti-affinity, sorted by UID.
func (n *NodeInfo) AntiAffinityPods() iter.Seq[*Pod] { return slices.Values(n.antiAffinity) }

// AffinityPods yields the pods with inter-pod affinity terms of any sort, sorted by UID.
func (n *NodeInfo) AffinityPods() iter.Seq[*Pod] { return slices.Values(n.affinity) }

// UndescribedPods is the number of pods here that no fact has described yet (see
// Pod.Described): whatever they repel is not known.
func (n *NodeInfo) UndescribedPods() int { return n.undescribed }

// PortConflict tells whether any of want is taken on the node.
func (n *NodeInfo) PortConflict(want []HostPort) bool {
	for _, w := range want {
		for i := range n.ports {
			if n.ports[i].Conflicts(w) {
				return true
			}
		}
	}
	return false
}

// Clone returns an independent copy with the same Generation; Pods and the Node are shared
// because they are immutable.
func (n *NodeInfo) Clone() *NodeInfo {
	c := *n
	c.Requested.Extended = maps.Clone(n.Requested.Extended)
	c.NonZeroRequested.Extended = maps.Clone(n.NonZeroRequested.Extended)
	c.pods = slices.Clone(n.pods)
	c.antiAffinity = slices.Clone(n.antiAffinity)
	c.affinity = slices.Clone(n.affinity)
	c.ports = slices.Clone(n.ports)
	return &c
}

func (n *NodeInfo) usePort(p HostPort, delta int) {
	i := slices.IndexFunc(n.ports, func(u portUse) bool { return u.HostPort == p })
	if i < 0 {
		n.ports = append(n.ports, portUse{HostPort: p, count: delta})
		return
	}
	n.ports[i].count += delta
	if n.ports[i].count <= 0 {
		n.ports = slices.Delete(n.ports, i, i+1)
	}
}

func findPod(pods []*Pod, uid string) (int, bool) {
	return slices.BinarySearchFunc(pods, uid, func(p *Pod, uid string) int { return strings.Compare(p.UID, uid) })
}

func insertPod(pods []*Pod, pod *Pod) []*Pod {
	i, _ := findPod(pods, pod.UID)
	return slices.Insert(pods, i, pod)
}
