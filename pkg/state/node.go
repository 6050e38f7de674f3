package state

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// Node is one node as a fact described it. It is immutable and shared.
type Node struct {
	// UID and Name are the object's own.
	UID, Name       string
	ResourceVersion uint64
	Allocatable     resources.Resources
	// Images are the images on the node; nil when there are none.
	Images *Images
	// UIDHash spreads nodes for tie-breaks; it is a function of UID alone.
	UIDHash uint64
	// Marks is the note of the marks that Berth has written for autoscalers (nodemark.Read); empty if there are none.
	// No decision about pods reads it.
	Marks string
	// Object is the stripped object without status.images, which are in Images, and without the annotation of Marks.
	Object *corev1.Node

	// form keeps the shared part of Object.Status alive, and with it the uniqueness of its content.
	form *nodeForm
}

// nodeForm is the part of the status that many nodes have in common: everything except times and images. It is
// immutable, and unique for its content in this process.
type nodeForm struct {
	status      corev1.NodeStatus
	allocatable resources.Resources
}

var nodeForms intern.Table[nodeForm]

// NewNode derives the values of a node. It keeps references to what obj points to, which the caller must not use
// any more.
func NewNode(obj *corev1.Node) *Node { return newNode(obj, 0) }

// newNode is NewNode; the resourceVersion is the greater of rv and the object's. Marks are stripped here as well, since
// a queue of an earlier version writes facts with the marks themselves. Of a node without marks, that allocates
// nothing.
func newNode(obj *corev1.Node, rv uint64) *Node {
	obj = nodemark.Stripped(obj)
	kept := *obj
	marks, marked := obj.Annotations[nodemark.FactAnnotation]
	if marked {
		kept.Annotations = without(obj.Annotations, nodemark.FactAnnotation)
	}
	form := nodeFormOf(&kept.Status)
	conditions := kept.Status.Conditions
	kept.Status = form.status
	kept.Status.Conditions = slices.Clone(form.status.Conditions)
	for i := range conditions {
		c := &kept.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = conditions[i].LastHeartbeatTime, conditions[i].LastTransitionTime
	}
	return &Node{
		UID:             string(obj.UID),
		Name:            obj.Name,
		ResourceVersion: max(parseResourceVersion(obj.ResourceVersion), rv),
		Allocatable:     form.allocatable,
		Images:          newImages(obj.Status.Images),
		UIDHash:         xxhash.Sum64String(string(obj.UID)),
		Marks:           marks,
		Object:          &kept,
		form:            form,
	}
}

// without returns a copy of a map that lacks a key; nil if it would be empty.
func without(m map[string]string, key string) map[string]string {
	if len(m) == 1 {
		return nil
	}
	out := maps.Clone(m)
	delete(out, key)
	return out
}

// nodeFormOf returns the shared part of a status. Times differ between nodes and between versions of one node, so
// they are left out of the key.
func nodeFormOf(s *corev1.NodeStatus) *nodeForm {
	hollow := *s
	hollow.Images = nil
	hollow.Conditions = slices.Clone(s.Conditions)
	for i := range hollow.Conditions {
		c := &hollow.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
	}
	return nodeForms.Get(Marshalled(&hollow), func() *nodeForm {
		return &nodeForm{status: hollow, allocatable: resources.NewResources(hollow.Allocatable)}
	})
}

// ReadsLike reports whether two versions of a node are equal in everything that a decision reads. They may differ in
// resourceVersion and generation, in the times of conditions, and in Marks: a heartbeat changes nothing else.
func (n *Node) ReadsLike(o *Node) bool {
	a, b := n.Object, o.Object
	return n.UID == o.UID && n.Name == o.Name && n.form == o.form && n.Images == o.Images &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(&a.Spec, &b.Spec) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil)
}

// api returns the whole stripped object.
func (n *Node) api() *corev1.Node {
	obj := *n.Object
	obj.Status.Images = n.Images.api()
	if n.Marks != "" {
		obj.Annotations = maps.Clone(obj.Annotations)
		if obj.Annotations == nil {
			obj.Annotations = map[string]string{}
		}
		obj.Annotations[nodemark.FactAnnotation] = n.Marks
	}
	return &obj
}

// Closed reports whether the facts contain a reduced node that accepts no new pods, see Reduce.
func (n *Node) Closed() bool { return Closed(n.Object) }

// Closed reports whether a node is closed, see Node.Closed.
func Closed(n *corev1.Node) bool {
	_, closed := n.Annotations[strip.ClosedAnnotation]
	return closed && n.Spec.Unschedulable
}

// generation numbers states of NodeInfos. It is one counter for the process, so that equal numbers mean equal
// content even for two NodeInfos of one node. No decision depends on it.
var generation atomic.Uint64

// NodeInfo is one node and the sum of the pods on it: pods that the API shows there and, in a shard's view,
// reservations. It belongs to one goroutine; Clone it before passing it on.
//
// Adding and removing a pod cost a binary search and a copy of part of a list; the sums are up to date at any time.
// A NodeInfo does not check that its pods fit: it may be overcommitted, as a real node may.
type NodeInfo struct {
	Node *Node
	// Requested and NonZeroRequested are the sums over the pods. Read only.
	Requested, NonZeroRequested resources.Resources
	// Generation changes on every change: two NodeInfos with the same Generation have the same content. The number
	// itself has no meaning.
	Generation uint64

	pods         []*Pod // sorted by UID
	antiAffinity []*Pod // those of pods with required anti-affinity, sorted by UID
	affinity     []*Pod // those of pods with Terms, sorted by UID
	undescribed  int    // how many of pods are not Described
	ports        []portUse
}

// portUse counts how many pods of a node use one port, so that the port stays in use until the last of them is
// gone. (Upstream keeps a set and frees the port with the first.)
type portUse struct {
	HostPort
	count int
}

// NewNodeInfo returns an empty node.
func NewNodeInfo(node *Node) *NodeInfo {
	return &NodeInfo{Node: node, Generation: generation.Add(1)}
}

// SetNode replaces the node and keeps the pods on it.
func (n *NodeInfo) SetNode(node *Node) {
	n.Node = node
	n.Generation = generation.Add(1)
}

// AddPod adds a pod to the node. It replaces a pod with the same UID: a pod counts once.
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
	n.Requested.Accumulate(pod.Requests)
	n.NonZeroRequested.Accumulate(pod.NonZero)
	for _, p := range pod.Ports {
		n.usePort(p, 1)
	}
	n.Generation = generation.Add(1)
}

// ReplacePod replaces the version of a pod that is on the node. A version that counts like the one before
// (Pod.CountsLike) takes its place in the lists, and the sums stay. Any other version costs as much as RemovePod and
// AddPod, and so does a pod that is not there, which is added.
func (n *NodeInfo) ReplacePod(pod *Pod) {
	i, ok := findPod(n.pods, pod.UID)
	if !ok || !n.pods[i].CountsLike(pod) {
		n.AddPod(pod)
		return
	}
	n.pods[i] = pod
	for _, list := range [][]*Pod{n.antiAffinity, n.affinity} {
		if j, there := findPod(list, pod.UID); there {
			list[j] = pod
		}
	}
	n.Generation = generation.Add(1)
}

// RemovePod removes a pod from the node; it returns false when the pod is not there.
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
	n.Requested.Deduct(pod.Requests)
	n.NonZeroRequested.Deduct(pod.NonZero)
	for _, p := range pod.Ports {
		n.usePort(p, -1)
	}
	n.Generation = generation.Add(1)
	return true
}

// Pods yields the pods on the node, sorted by UID.
func (n *NodeInfo) Pods() iter.Seq[*Pod] { return slices.Values(n.pods) }

// PodCount returns the number of pods on the node.
func (n *NodeInfo) PodCount() int { return len(n.pods) }

// AntiAffinityPods yields the pods with required anti-affinity, sorted by UID.
func (n *NodeInfo) AntiAffinityPods() iter.Seq[*Pod] { return slices.Values(n.antiAffinity) }

// AffinityPods yields the pods with inter-pod affinity terms of any kind, sorted by UID.
func (n *NodeInfo) AffinityPods() iter.Seq[*Pod] { return slices.Values(n.affinity) }

// UndescribedPods returns the number of pods on the node that no fact has described yet (see Pod.Described): it is
// not known which pods they repel.
func (n *NodeInfo) UndescribedPods() int { return n.undescribed }

// PortConflict reports whether any port of want is in use on the node.
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

// usePort changes the number of pods that use a port.
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

// findPod returns the position of a UID among pods that are sorted by UID, and whether it is there.
func findPod(pods []*Pod, uid string) (int, bool) {
	return slices.BinarySearchFunc(pods, uid, func(p *Pod, uid string) int { return strings.Compare(p.UID, uid) })
}

// insertPod inserts a pod in the order of UIDs; no pod with its UID may be in the list.
func insertPod(pods []*Pod, pod *Pod) []*Pod {
	i, _ := findPod(pods, pod.UID)
	return slices.Insert(pods, i, pod)
}
