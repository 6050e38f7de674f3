package scaler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/test/e2e/audit"
)

// selectedNode is the annotation with which a scheduler names the node for a claim's volume.
const selectedNode = "volume.kubernetes.io/selected-node"

// room is a node with what is free on it.
type room struct {
	node             *corev1.Node
	cpu, memory, pod int64
	pods             []*corev1.Pod
}

// storage is what decides on which nodes a pod's volumes can be.
type storage struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

// simulation is the cluster with pods placed by way of trial. A change can be undone.
type simulation struct {
	storage
	rooms []*room
	undo  []placement
}

type placement struct {
	room *room
	pod  *corev1.Pod
}

func newRoom(node *corev1.Node) *room {
	free := node.Status.Allocatable
	return &room{node: node, cpu: free.Cpu().MilliValue(), memory: free.Memory().Value(), pod: free.Pods().Value()}
}

// take puts a pod on a node, whether or not it fits; give takes it away again.
func (r *room) take(pod *corev1.Pod) {
	needs := audit.Requests(pod)
	r.cpu, r.memory, r.pod = r.cpu-needs.Cpu().MilliValue(), r.memory-needs.Memory().Value(), r.pod-1
	r.pods = append(r.pods, pod)
}

func (r *room) give(pod *corev1.Pod) {
	needs := audit.Requests(pod)
	r.cpu, r.memory, r.pod = r.cpu+needs.Cpu().MilliValue(), r.memory+needs.Memory().Value(), r.pod+1
	r.pods = slices.DeleteFunc(slices.Clone(r.pods), func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

// fits reports whether a pod can be placed on a node.
func (s *simulation) fits(pod *corev1.Pod, r *room) bool {
	needs := audit.Requests(pod)
	if r.pod < 1 || r.cpu < needs.Cpu().MilliValue() || r.memory < needs.Memory().Value() || !tolerates(pod, r.node) {
		return false
	}
	suits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(r.node)
	return err == nil && suits && s.reaches(pod, r.node)
}

func tolerates(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerated(t, taint) })
	})
}

// tolerated is the rule without operators that compare numbers.
func tolerated(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == taint.Value
}

// reaches reports whether the volumes of a pod can be used on a node, or can be made there. A claim for which a node
// was selected can be served on that node only.
func (s *simulation) reaches(pod *corev1.Pod, node *corev1.Node) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := s.claims[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
		if claim == nil {
			return false
		}
		if claim.Spec.VolumeName == "" {
			if at := claim.Annotations[selectedNode]; at != "" && at != node.Name {
				return false
			}
			continue
		}
		volume := s.volumes[claim.Spec.VolumeName]
		if volume == nil || volumehelpers.CheckNodeAffinity(volume, node.Labels) != nil {
			return false
		}
	}
	return true
}

// place puts a pod on the first accepted node that it fits, and returns nil if there is none.
func (s *simulation) place(pod *corev1.Pod, accept func(*room) bool) *room {
	for _, r := range s.rooms {
		if accept(r) && s.fits(pod, r) {
			r.take(pod)
			s.undo = append(s.undo, placement{r, pod})
			return r
		}
	}
	return nil
}

// back undoes all placements since there were so many.
func (s *simulation) back(to int) {
	for _, p := range slices.Backward(s.undo[to:]) {
		p.room.give(p.pod)
	}
	s.undo = s.undo[:to]
}

func anywhere(*room) bool { return true }
