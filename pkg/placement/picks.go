package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// EvaluatesDevices reports whether the pod may need devices, because of claims that it names or of resources that are
// backed by devices, and the profile evaluates them.
func (p *Profile) EvaluatesDevices(pod *state.Pod, objects rule.Objects) bool {
	if pod.Template == nil || !devices.Wanted(pod, objects) {
		return false
	}
	r, ok := p.byName[names.DynamicResources]
	return ok && r.points.has(Filtering)
}

// DevicePicks returns what has to be written to the pod's device claims before it can start on a node, in the order
// of the claims. It returns false if Evaluate would reject the node. The names of device shares are derived from
// the seed. Devices used only by the pods in gone are treated as free.
func (p *Profile) DevicePicks(
	pod *state.Pod, node *state.Node, objects rule.Objects, seed uint64, gone ...*state.Pod,
) ([]devices.Pick, bool) {
	objects = rule.OrNone(objects)
	if !p.EvaluatesDevices(pod, objects) {
		return nil, true
	}
	claims, ok := p.byName[names.DynamicResources].plugin.(devices.Plugin)
	if !ok {
		return nil, true
	}
	if len(gone) == 0 {
		return claims.Picks(pod, node, objects, seed)
	}
	without, restore := devices.WithoutUsers(objects, gone)
	defer restore()
	return claims.Picks(pod, node, without, seed)
}

// UnboundClaims reports whether the pod has claims that get a volume only when its node has been chosen; it is
// false if the profile does not evaluate claims.
func (p *Profile) UnboundClaims(pod *state.Pod, objects rule.Objects) bool {
	d := p.volumesOf(pod, objects)
	return d != nil && len(d.Delayed) > 0
}

// VolumePicks returns what has to be done about the pod's claims before it can start on a node; nothing for nearly
// all pods. It returns false if Evaluate would reject the node.
func (p *Profile) VolumePicks(pod *state.Pod, node *state.Node, objects rule.Objects) (picks []volumes.Pick, ok bool) {
	d := p.volumesOf(pod, objects)
	if d == nil {
		return nil, true
	}
	v, picks := d.Judge(node.Object)
	return picks, v.Passes()
}

// volumesOf returns nil if the claims of the pod require nothing, or if the profile does not evaluate them.
func (p *Profile) volumesOf(pod *state.Pod, objects rule.Objects) *volumes.Demand {
	r, ok := p.byName[names.VolumeBinding]
	if !ok || !r.points.has(Filtering) || pod.Template == nil {
		return nil
	}
	c, err := r.plugin.Compile(pod, rule.OrNone(objects))
	d, ok := c.Filter.(*volumes.Demand)
	if err != nil || !ok {
		return nil
	}
	return d
}

// ExclusiveClaims returns the pod's claims that only one pod in the cluster may use (ReadWriteOncePod), in the
// order of its volumes; none if the profile does not evaluate that.
func (p *Profile) ExclusiveClaims(pod *state.Pod, objects rule.Objects) []*corev1.PersistentVolumeClaim {
	if r, ok := p.byName[names.VolumeRestrictions]; !ok || !r.points.has(Filtering) {
		return nil
	}
	claims, _ := volumes.Exclusive(pod, rule.OrNone(objects))
	return claims
}
