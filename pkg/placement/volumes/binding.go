package volumes

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// binding keeps pods on nodes that can reach their volumes, including volumes that are still to be chosen or
// provisioned. Continue reading at Demand, which holds a pod's claims, sorted; at matching (which existing
// volumes a claim can have) and provisioning (what can be provisioned for it). Source: plugins/volumebinding,
// without StorageCapacityScoring (alpha, disabled).
type binding struct{ inTree inTree }

// Annotations of claims, see component-helpers/storage/volume.
const (
	// AnnotationBindCompleted is on a claim that is permanently bound to its volume.
	AnnotationBindCompleted = "pv.kubernetes.io/bind-completed"
	// AnnotationSelectedNode names the node for which a volume must be provisioned.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
)

// Reasons of the rule, in upstream's order. A node can have several: the first stands for a bound volume, the
// next two for claims without a volume.
const (
	volumeElsewhere = "node(s) didn't match PersistentVolume's node affinity"
	noVolumeToBind  = "node(s) didn't find available persistent volumes to bind"
	noStorage       = "node(s) did not have enough free storage"
	volumeMissing   = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// NewBinding is the factory. Of the arguments, bindTimeoutSeconds is for the component that waits for
// volumes, and shape is for a score that is disabled.
func NewBinding(args runtime.Object) (rule.Plugin, error) {
	_, err := rule.Args[configv1.VolumeBindingArgs](args)
	return binding{}, err
}

// Name implements Plugin.
func (binding) Name() string { return names.VolumeBinding }

// Compile implements Plugin. A claim that is missing, lost, being deleted or another pod's rejects the pod on all
// nodes, and so does one that another component should bind first: no node changes that. Source:
// volume_binding.go PreFilter.
func (p binding) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	uses := ClaimsOf(pod)
	if len(uses) == 0 {
		return rule.Compiled{}, nil
	}
	claims := make([]*corev1.PersistentVolumeClaim, 0, len(uses))
	for _, use := range uses {
		claim, why := usable(use, pod, objects)
		if why != "" {
			return rule.Compiled{Rejection: why}, nil
		}
		claims = append(claims, claim)
	}
	d := Demand{objects: objects}
	for _, claim := range claims {
		if err := d.add(p, claim); err != nil {
			return rule.Compiled{}, err
		}
	}
	if d.immediate {
		return rule.Compiled{Rejection: "pod has unbound immediate PersistentVolumeClaims"}, nil
	}
	if err := d.prepare(); err != nil {
		return rule.Compiled{}, err
	}
	return rule.Compiled{Filter: &d}, nil
}

// usable returns the claim of a volume, or why it is unusable now. The texts are upstream's.
func usable(use claimUse, pod *state.Pod, objects rule.Objects) (claim *corev1.PersistentVolumeClaim, why string) {
	claim, ok := findClaim(objects, pod.Namespace, use.Name)
	switch {
	case !ok && use.Ephemeral:
		return nil, fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", use.Name)
	case !ok:
		return nil, noClaim(use.Name)
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q",
			claim.Name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name)
	case use.Ephemeral:
		return claim, misowned(claim, pod)
	}
	return claim, ""
}

// Demand holds the requirements of a pod's claims on a node. It is the filter of the rule for one pod.
type Demand struct {
	objects rule.Objects
	// bound holds the claims that have a volume.
	bound []boundTo
	// immediate reports that one of the claims should already have a volume, independent of the node, and has none.
	immediate bool
	// Delayed holds the claims that get a volume when the node is chosen; toMatch holds those of them that may be
	// bound to an existing volume, the smallest first.
	Delayed []*corev1.PersistentVolumeClaim
	toMatch []matching
	// toMake holds, for every delayed claim, where a volume can be provisioned for it.
	toMake map[*corev1.PersistentVolumeClaim]*provisioning
}

// boundTo is a claim that is bound; volume is nil if the volume does not exist.
type boundTo struct {
	volume *reach
	// csi is the same volume as the CSI driver that replaces the in-tree plugin sees it, for nodes where it does;
	// nil for other volumes.
	csi    *reach
	plugin string
}

// add classifies a claim as bound, delayed or immediate. Source: volumebinding/binder.go GetPodVolumeClaims.
func (d *Demand) add(p binding, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, AnnotationBindCompleted) {
		d.bound = append(d.bound, p.boundTo(claim.Spec.VolumeName, d.objects))
		return nil
	}
	class, ok := findClass(d.objects, state.ClaimClass(claim))
	switch {
	case ok && class.VolumeBindingMode == nil:
		return errors.New(noBindingMode(class.Name))
	case ok && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && claim.Spec.VolumeName == "":
		d.Delayed = append(d.Delayed, claim)
	default:
		d.immediate = true
	}
	return nil
}

// boundTo looks up the volume of a claim, and how the CSI driver that may replace its plugin sees it. The
// translation can change the volume's node affinity.
func (p binding) boundTo(name string, objects rule.Objects) boundTo {
	volume, ok := findVolume(objects, name)
	if !ok {
		return boundTo{}
	}
	b := boundTo{volume: newReach(volume)}
	if csi, plugin, ok := p.inTree.volume(volume); ok {
		b.csi, b.plugin = newReach(csi), plugin
	}
	return b
}

// reach defines on which nodes a volume can be used.
type reach struct {
	volume   *corev1.PersistentVolume
	required *nodeaffinity.LazyErrorNodeSelector // nil for all
}

// newReach parses the node affinity of a volume once, for all nodes.
func newReach(v *corev1.PersistentVolume) *reach {
	r := &reach{volume: v}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		r.required = nodeaffinity.NewLazyErrorNodeSelector(a.Required)
	}
	return r
}

// includes reports whether the volume can be used on a node. The node has only its labels set, because volumes do
// not select nodes by name. A volume whose terms cannot be parsed can be used on no node.
func (r *reach) includes(labelled *corev1.Node) bool {
	if r.required == nil {
		return true
	}
	match, err := r.required.Match(labelled)
	return err == nil && match
}

// Pick is a claim in the pod's namespace that has no volume yet, its UID, and the name of the volume that it
// gets; Volume is empty if one must be provisioned for it on the pod's node. The binder writes the volume's
// claimRef in the first case, and the annotation AnnotationSelectedNode in the second.
type Pick struct{ Claim, UID, Volume string }

// Verdict is the result of the rule for one node: one flag per reason. elsewhere: a bound volume cannot be used
// there; nothing: no volume can be found or provisioned; noSpace: the driver reports too little storage; missing:
// a bound volume does not exist.
type Verdict struct{ elsewhere, nothing, noSpace, missing bool }

// Passes reports whether the node passes.
func (v Verdict) Passes() bool { return v == Verdict{} }

// Check implements Filter.
func (d *Demand) Check(n *state.NodeInfo) rule.Code {
	if v, _ := d.Judge(n.Node.Object); !v.Passes() {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Explain implements Filter.
func (d *Demand) Explain(n *state.NodeInfo) []string {
	v, _ := d.Judge(n.Node.Object)
	var list []string
	for _, r := range []struct {
		holds bool
		text  string
	}{{v.elsewhere, volumeElsewhere}, {v.nothing, noVolumeToBind}, {v.noSpace, noStorage}, {v.missing, volumeMissing}} {
		if r.holds {
			list = append(list, r.text)
		}
	}
	return list
}

// Judge evaluates one node. The picks are valid only if it passes. The order is upstream's: bound volumes, then
// claims whose node is already selected, then existing volumes for the smallest claims first, then provisioning
// for the claims that are left. It does not look for the best assignment of volumes to claims: like upstream's,
// it is greedy. Source: volumebinding/binder.go FindPodVolumes.
func (d *Demand) Judge(node *corev1.Node) (v Verdict, picks []Pick) {
	labelled := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}}
	v.elsewhere, v.missing = d.judgeBound(node.Name, labelled)
	var lacking []*corev1.PersistentVolumeClaim
	for _, claim := range d.Delayed {
		selected, ok := claim.Annotations[AnnotationSelectedNode]
		if ok && selected != node.Name {
			v.nothing = true
			return v, picks
		}
		if ok {
			lacking = append(lacking, claim)
		}
	}
	// A volume that one claim of the pod takes is not there for the others.
	taken := map[string]bool{}
	for i := range d.toMatch {
		m := &d.toMatch[i]
		volume := m.best(labelled, taken)
		if volume == nil {
			lacking = append(lacking, m.claim)
			continue
		}
		taken[volume.Name] = true
		picks = append(picks, Pick{m.claim.Name, string(m.claim.UID), volume.Name})
	}
	// What no existing volume serves must be provisioned.
	for _, claim := range lacking {
		made := d.toMake[claim].judge(labelled)
		if !made.Passes() {
			v.nothing, v.noSpace = made.nothing, made.noSpace
			return v, picks
		}
		picks = append(picks, Pick{Claim: claim.Name, UID: string(claim.UID)})
	}
	return v, picks
}

// judgeBound stops at the first volume that does not fit.
func (d *Demand) judgeBound(node string, labelled *corev1.Node) (elsewhere, missing bool) {
	for i := range d.bound {
		b := &d.bound[i]
		if b.volume == nil {
			return false, true
		}
		volume := b.volume
		// The kubelet of this node uses the CSI driver in place of the in-tree plugin.
		if b.csi != nil && isMigrated(b.plugin, csiNodeOf(d.objects, node)) {
			volume = b.csi
		}
		if !volume.includes(labelled) {
			return true, false
		}
	}
	return false, false
}

// isMigrated reports whether a node's CSI driver replaces an in-tree plugin. The kubelet lists the replaced
// plugins in an annotation of the CSINode. A node without a CSINode still uses the in-tree plugin.
func isMigrated(plugin string, n *storagev1.CSINode) bool {
	if n == nil {
		return false
	}
	for name := range strings.SplitSeq(n.Annotations[corev1.MigratedPluginsAnnotationKey], ",") {
		if name == plugin {
			return true
		}
	}
	return false
}

// claimKey names a claim in errors.
func claimKey(c *corev1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }
