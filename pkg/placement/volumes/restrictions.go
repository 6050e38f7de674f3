package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Restrictions separates pods that use the same disk on one node, and pods that use a claim which only one pod in
// the cluster may use (ReadWriteOncePod). Source: plugins/volumerestrictions.
type Restrictions struct{}

const (
	diskTaken  = "node(s) had no available disk"
	claimTaken = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already " +
		"in-use by another pod"
)

// Name implements Plugin.
func (Restrictions) Name() string { return names.VolumeRestrictions }

// Compile implements Plugin. A missing claim rejects the pod on all nodes, because it is unknown whether it is
// exclusive.
func (Restrictions) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	f := &restrictionFilter{namespace: pod.Namespace}
	for _, v := range pod.Template.Spec.Volumes {
		if hasExclusiveDisk(&v) {
			f.disks = append(f.disks, v)
		}
	}
	exclusive, missing := Exclusive(pod, objects)
	if missing != "" {
		return rule.Compiled{Rejection: noClaim(missing)}, nil
	}
	for _, claim := range exclusive {
		f.claims = append(f.claims, claim.Name)
	}
	if len(f.disks)+len(f.claims) == 0 {
		return rule.Compiled{}, nil
	}
	return rule.Compiled{Filter: f}, nil
}

// Exclusive returns the claims of a pod that only one pod in the cluster may use; missing is the name of a
// claim that does not exist.
func Exclusive(pod *state.Pod, objects rule.Objects) (list []*corev1.PersistentVolumeClaim, missing string) {
	for _, use := range ClaimsOf(pod) {
		if use.Ephemeral {
			continue
		}
		claim, ok := findClaim(objects, pod.Namespace, use.Name)
		if !ok {
			return nil, use.Name
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && !slices.Contains(list, claim) {
			list = append(list, claim)
		}
	}
	return list, ""
}

// restrictionFilter knows how often the claims are in use after it has seen all nodes.
type restrictionFilter struct {
	disks     []corev1.Volume
	namespace string
	claims    []string
	// inUse counts the uses of claims by pods on any node. It is a count so that the removal of a user can be
	// undone.
	inUse int
}

// Survey implements ClusterFilter: a claim with ReadWriteOncePod is taken wherever its user runs, so that all
// nodes count. Pods without such claims need no count.
func (f *restrictionFilter) Survey(all []*state.NodeInfo) rule.Filter {
	surveyed := *f
	if len(f.claims) == 0 {
		return &surveyed
	}
	for _, n := range all {
		for p := range n.Pods() {
			surveyed.inUse += f.uses(p)
		}
	}
	return &surveyed
}

// uses counts those of the claims that a pod uses. A claim that two volumes of a pod name counts twice, which
// does no harm: it is compared with 0.
func (f *restrictionFilter) uses(pod *state.Pod) (count int) {
	if pod.Namespace != f.namespace || len(f.claims) == 0 {
		return 0
	}
	for _, use := range ClaimsOf(pod) {
		if !use.Ephemeral && slices.Contains(f.claims, use.Name) {
			count++
		}
	}
	return count
}

// Recount counts again when a pod is removed (-1) or put back (1).
func (f *restrictionFilter) Recount(_ *state.Node, pod *state.Pod, by int) {
	f.inUse += by * f.uses(pod)
}

// Check implements Filter.
func (f *restrictionFilter) Check(n *state.NodeInfo) rule.Code {
	if f.inUse > 0 || f.diskIsTaken(n) {
		return rule.Unschedulable
	}
	return rule.Success
}

// Explain implements Filter.
func (f *restrictionFilter) Explain(n *state.NodeInfo) []string {
	if f.diskIsTaken(n) {
		return []string{diskTaken}
	}
	return []string{claimTaken}
}

// diskIsTaken reports whether a pod on the node uses one of the disks.
func (f *restrictionFilter) diskIsTaken(n *state.NodeInfo) bool {
	if len(f.disks) == 0 {
		return false
	}
	for p := range n.Pods() {
		if sharesDisk(f.disks, p) {
			return true
		}
	}
	return false
}

// sharesDisk reports whether a pod uses one of the disks, unless both only read it. A pod that no fact has
// described yet uses none.
func sharesDisk(disks []corev1.Volume, pod *state.Pod) bool {
	if pod.Template == nil {
		return false
	}
	for i := range disks {
		for j := range pod.Template.Spec.Volumes {
			if conflict(&disks[i], &pod.Template.Spec.Volumes[j]) {
				return true
			}
		}
	}
	return false
}

// hasExclusiveDisk reports whether a volume is a disk that pods on one node cannot share unless they only read
// it.
func hasExclusiveDisk(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// conflict reports whether two volumes are the same disk and not both read-only. (An EBS volume is never shared.)
// RBD images are the same if pool, image and one of the monitors are. Source: volume_restrictions.go
// isVolumeConflict.
func conflict(a, b *corev1.Volume) bool {
	if x, y := a.GCEPersistentDisk, b.GCEPersistentDisk; x != nil && y != nil &&
		x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly) {
		return true
	}
	if x, y := a.AWSElasticBlockStore, b.AWSElasticBlockStore; x != nil && y != nil && x.VolumeID == y.VolumeID {
		return true
	}
	if x, y := a.ISCSI, b.ISCSI; x != nil && y != nil && x.IQN == y.IQN && !(x.ReadOnly && y.ReadOnly) {
		return true
	}
	x, y := a.RBD, b.RBD
	return x != nil && y != nil && x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage &&
		!(x.ReadOnly && y.ReadOnly) &&
		slices.ContainsFunc(x.CephMonitors, func(m string) bool { return slices.Contains(y.CephMonitors, m) })
}

// Events implements Plugin.
func (Restrictions) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindPod, Actions: rule.Delete},
		{Kind: events.KindNode, Actions: rule.Add},
		{Kind: events.KindVolumeClaim, Actions: rule.Add},
	}
}

// Hint implements Plugin. A deleted pod helps if it used one of the disks or claims.
func (Restrictions) Hint(pod *state.Pod, c rule.Change) bool {
	switch c.Kind {
	case events.KindVolumeClaim:
		return namesClaim(pod, c.NewObject.Namespace, c.NewObject.Name)
	case events.KindPod:
		return freesVolume(pod, c.OldPod)
	default:
		return true
	}
}

// freesVolume reports whether a deleted pod used a disk or a claim that the other pod needs.
func freesVolume(pod, gone *state.Pod) bool {
	if gone.Namespace != pod.Namespace {
		return false
	}
	var disks []corev1.Volume
	for _, v := range pod.Template.Spec.Volumes {
		if hasExclusiveDisk(&v) {
			disks = append(disks, v)
		}
	}
	return sharesDisk(disks, gone) || slices.ContainsFunc(ClaimsOf(gone), func(u claimUse) bool {
		return !u.Ephemeral && namesClaim(pod, gone.Namespace, u.Name)
	})
}
