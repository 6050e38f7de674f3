package volumes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// noProvisioner is the provisioner of classes whose volumes are not provisioned dynamically, such as local
// volumes.
const noProvisioner = "kubernetes.io/no-provisioner"

// prepare finds, for every claim that gets its volume together with the node, the candidates on any node. Claims
// are matched in the order of their size: small claims get the smallest volumes that fit, which leaves the large
// ones to large claims.
func (d *Demand) prepare() error {
	if len(d.Delayed) == 0 {
		return nil
	}
	d.toMake = map[*corev1.PersistentVolumeClaim]*provisioning{}
	for _, claim := range d.Delayed {
		var err error
		if d.toMake[claim], err = newProvisioning(claim, d.objects); err != nil {
			return err
		}
		if _, selected := claim.Annotations[AnnotationSelectedNode]; selected {
			continue
		}
		m, err := newMatching(claim, d.objects)
		if err != nil {
			return err
		}
		d.toMatch = append(d.toMatch, m)
	}
	slices.SortStableFunc(d.toMatch, func(a, b matching) int { return a.size.Cmp(b.size) })
	return nil
}

// matching is a claim with the volumes that it could be bound to.
type matching struct {
	claim *corev1.PersistentVolumeClaim
	size  resource.Quantity
	// promised holds the volumes that name the claim in spec.claimRef, by name; only the first of them is
	// considered. others are free, the smallest first, then by name.
	promised, others []*reach
}

// newMatching leaves out volumes that fit the claim on no node: of another class, too small, of another mode,
// without an access mode, or not selected by the claim. Volumes are found by an index on their class. Source:
// component-helpers/storage/volume FindMatchingVolume.
func newMatching(claim *corev1.PersistentVolumeClaim, objects rule.Objects) (matching, error) {
	m := matching{claim: claim, size: claim.Spec.Resources.Requests[corev1.ResourceStorage]}
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return m, fmt.Errorf("claim %s: selector: %w", claimKey(claim), err)
		}
	}
	for o := range objects.ObjectsOf(events.KindPersistentVolume, state.ClaimClass(claim)) {
		v, ok := o.API.(*corev1.PersistentVolume)
		if !ok || !suits(v, claim) {
			continue
		}
		// A promised volume has been chosen already, so that its labels and access modes are not compared.
		switch {
		case v.Spec.ClaimRef != nil:
			m.promised = append(m.promised, newReach(v))
		case v.Status.Phase == corev1.VolumeAvailable && selector.Matches(labels.Set(v.Labels)) && grants(v, claim):
			m.others = append(m.others, newReach(v))
		}
	}
	slices.SortFunc(m.others, func(a, b *reach) int {
		x, y := capacityOf(a.volume), capacityOf(b.volume)
		return cmp.Or(x.Cmp(y), cmp.Compare(a.volume.Name, b.volume.Name))
	})
	return m, nil
}

// suits reports whether a volume may be bound to a claim, by the conditions that also apply to promised volumes:
// it is not promised to another claim, large enough, of the same mode and attributes class, and not being
// deleted.
func suits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size := capacityOf(v)
	return (v.Spec.ClaimRef == nil || isFor(v.Spec.ClaimRef, claim)) &&
		size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 &&
		modeOf(v.Spec.VolumeMode) == modeOf(claim.Spec.VolumeMode) &&
		ptr.Deref(v.Spec.VolumeAttributesClassName, "") == ptr.Deref(claim.Spec.VolumeAttributesClassName, "") &&
		v.DeletionTimestamp == nil
}

// capacityOf returns the size of a volume; zero if it has none.
func capacityOf(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// modeOf applies the default volume mode, Filesystem.
func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem)
}

// isFor reports whether a volume's reference means the claim. A reference without UID means any claim with that
// name: an administrator has reserved the volume before the claim existed.
func isFor(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// grants reports whether a volume has all access modes of a claim.
func grants(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return !slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, m)
	})
}

// best returns the volume for the claim on a node, among those not taken; nil for none. A volume that names the
// claim is the only choice, even if the node cannot reach it: the claim will be bound to it, as the volume
// controller does.
func (m *matching) best(labelled *corev1.Node, taken map[string]bool) *corev1.PersistentVolume {
	for _, r := range m.promised {
		if taken[r.volume.Name] {
			continue
		}
		if r.includes(labelled) {
			return r.volume
		}
		return nil
	}
	for _, r := range m.others {
		if !taken[r.volume.Name] && r.includes(labelled) {
			return r.volume
		}
	}
	return nil
}

// provisioning describes where a volume can be provisioned for a claim: in the topologies that the class allows,
// and, if the driver publishes its capacity, where one pool has enough. Only the largest volume that a pool can
// hold is compared: two claims of one pod may each fit and together not, as upstream. Source:
// volumebinding/binder.go checkVolumeProvisions, hasEnoughCapacity.
type provisioning struct {
	// never means that volumes of the class are not provisioned at all.
	never bool
	// topologies are those that the class allows, nil for all.
	topologies []labels.Selector
	// limited means that the driver publishes its capacity; pools select the nodes where there is enough.
	limited bool
	pools   []labels.Selector
}

// newProvisioning looks up the class of a claim, its allowed topologies and, if its driver publishes them, the
// pools of storage (CSIStorageCapacity) that are large enough. An error means that the class does not exist.
func newProvisioning(claim *corev1.PersistentVolumeClaim, objects rule.Objects) (*provisioning, error) {
	class, ok := findClass(objects, state.ClaimClass(claim))
	if !ok {
		return nil, fmt.Errorf("claim %s: %s", claimKey(claim), noClass(state.ClaimClass(claim)))
	}
	p := &provisioning{never: class.Provisioner == "" || class.Provisioner == noProvisioner}
	// A list of terms that all match nothing allows no node, unlike an absent list.
	if len(class.AllowedTopologies) > 0 {
		p.topologies = []labels.Selector{}
	}
	for _, term := range class.AllowedTopologies {
		if selector, some := topologySelector(term); some {
			p.topologies = append(p.topologies, selector)
		}
	}
	size, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver, ok := rule.Find[*storagev1.CSIDriver](objects, events.KindCSIDriver, "", class.Provisioner)
	p.limited = sized && ok && ptr.Deref(driver.Spec.StorageCapacity, false)
	if !p.limited {
		return p, nil
	}
	// One pool that is large enough is enough for a node in its topology.
	for o := range objects.ObjectsOf(events.KindStorageCapacity, class.Name) {
		c, ok := o.API.(*storagev1.CSIStorageCapacity)
		if !ok || c.NodeTopology == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if most := mostOf(c); err == nil && most != nil && most.Value() >= size.Value() {
			p.pools = append(p.pools, selector)
		}
	}
	return p, nil
}

// topologySelector returns false for a term that matches nothing.
func topologySelector(term corev1.TopologySelectorTerm) (labels.Selector, bool) {
	selector := labels.NewSelector()
	for _, e := range term.MatchLabelExpressions {
		r, err := labels.NewRequirement(e.Key, "in", e.Values)
		if err != nil {
			return nil, false
		}
		selector = selector.Add(*r)
	}
	return selector, len(term.MatchLabelExpressions) > 0
}

// mostOf returns the largest possible volume in a pool; nil if that is unknown.
func mostOf(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// judge reports whether a volume can be provisioned on a node. Topologies come before capacity, as in upstream.
func (p *provisioning) judge(labelled *corev1.Node) (v Verdict) {
	matches := func(s labels.Selector) bool { return s.Matches(labels.Set(labelled.Labels)) }
	switch {
	case p.never, p.topologies != nil && !slices.ContainsFunc(p.topologies, matches):
		v.nothing = true
	case p.limited:
		v.noSpace = !slices.ContainsFunc(p.pools, matches)
	}
	return v
}
