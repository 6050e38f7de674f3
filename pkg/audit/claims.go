package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// claimLives is all that a history knows about claims to volumes and devices.
type claimLives struct {
	// volumeClaims is by namespace/name, with the newest claim of a name; volumes is by name.
	volumeClaims map[string]*corev1.PersistentVolumeClaim
	volumes      map[string]*corev1.PersistentVolume
	// devices is by UID.
	devices map[string]*deviceClaimLife
}

func newClaims() *claimLives {
	return &claimLives{
		volumeClaims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		devices: map[string]*deviceClaimLife{},
	}
}

// deviceClaimLife is all that a history knows about one device claim.
type deviceClaimLife struct {
	name     string // namespace/name
	tenures  []*tenure
	reserved map[string]bool // by UID: the pods that the claim has listed as users
}

// tenure is the time during which a claim has one device.
type tenure struct {
	device string
	claim  *deviceClaimLife
	from   moment
	until  moment // zero: it still has the device
}

// load applies the next version of a claim or volume.
func (c *claimLives) load(o Object, at moment) {
	switch {
	case o.Kind == KindDeviceClaim:
		c.loadDeviceClaim(o, at)
	case o.Claim != nil:
		c.volumeClaims[o.Claim.Namespace+"/"+o.Claim.Name] = o.Claim
	case o.Volume != nil:
		c.volumes[o.Volume.Name] = o.Volume
	}
}

func (c *claimLives) loadDeviceClaim(o Object, at moment) {
	life := c.devices[o.UID]
	if life == nil {
		if o.DeviceClaim == nil {
			return // it is gone, and was unknown
		}
		life = &deviceClaimLife{name: o.DeviceClaim.Namespace + "/" + o.DeviceClaim.Name, reserved: map[string]bool{}}
		c.devices[o.UID] = life
	}
	has := map[string]bool{}
	if o.DeviceClaim != nil {
		for _, device := range exclusiveDevices(o.DeviceClaim) {
			has[device] = true
		}
		for _, user := range o.DeviceClaim.Status.ReservedFor {
			life.reserved[string(user.UID)] = true
		}
	}
	for _, t := range life.tenures {
		switch {
		case t.until.known():
		case has[t.device]:
			delete(has, t.device)
		default:
			t.until = at
		}
	}
	for _, device := range slices.Sorted(maps.Keys(has)) {
		life.tenures = append(life.tenures, &tenure{device: device, claim: life, from: at})
	}
}

// exclusiveDevices returns the devices of a claim that no other claim may have at the same time. Administrator
// access does not exclude others (KEP-5018), and neither do claims that consume a part of a device's capacity, each
// of which has its own share (KEP-5075).
func exclusiveDevices(claim *resourcev1.ResourceClaim) (devices []string) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if (r.AdminAccess == nil || !*r.AdminAccess) && r.ShareID == nil {
			devices = append(devices, r.Driver+"/"+r.Pool+"/"+r.Device)
		}
	}
	return devices
}

// checkHoldings checks which pod used which claim, and which claim had which device.
func (a *replay) checkHoldings() {
	a.checkClaimsForOne()
	a.checkVolumes()
	a.checkDevices()
}

// checkClaimsForOne checks that a claim for a single pod has one user at a time (S14). Source: KEP-2485.
func (a *replay) checkClaimsForOne() {
	users := map[string][]*podLife{}
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		if !p.bound.known() {
			continue
		}
		for name := range a.claims.of(p.last().pod) {
			if forOne(a.claims.volumeClaims[name]) {
				users[name] = append(users[name], p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		all := users[name]
		slices.SortStableFunc(all, func(p, q *podLife) int { return cmp.Compare(p.bound.rv, q.bound.rv) })
		for i, p := range all {
			for _, before := range all[:i] {
				a.shareClaim(name, before, p)
			}
		}
	}
}

func (a *replay) shareClaim(name string, before, p *podLife) {
	if p.initially || before.ended.maybe(p.bound.rv) {
		return
	}
	a.report.add(Finding{
		Severity: ownFault(p.ours() && before.ours()), Invariant: "S14", ResourceVersion: p.bound.rv,
		Objects: []string{p.object(), before.object(), volumeClaimObject(name)},
		Message: fmt.Sprintf("was bound while %s used the claim, which only one pod may use", before.name),
	})
}

// of returns the volume claims that a pod names, by namespace/name.
func (c *claimLives) of(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	return names
}

func forOne(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// checkVolumes checks that volumes can be used on the nodes where Berth bound their pods (fit).
func (a *replay) checkVolumes() {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		if !p.ours() || p.initially {
			continue
		}
		reserved, node := a.placementOf(uid, p.token), a.nodeNamed(p.node, p.bound.rv)
		if reserved == nil || node == nil {
			continue
		}
		names := a.claims.of(p.last().pod)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			claim := a.claims.volumeClaims[name]
			if claim == nil {
				continue
			}
			volume := a.claims.volumes[claim.Spec.VolumeName]
			admits := func(v version[*corev1.Node]) bool { return volumeAdmits(volume, v.object) }
			if !slices.ContainsFunc(within(node.versions, reserved.knownNodes, p.bound.rv), admits) {
				a.report.add(Finding{
					Severity: Violation, Invariant: "fit", ResourceVersion: p.bound.rv,
					Objects: []string{p.object(), nodeObject(p.node), volumeClaimObject(name)},
					Message: fmt.Sprintf("was bound to a node where volume %s cannot be used", volume.Name),
				})
			}
		}
	}
}

// volumeAdmits reports whether a volume can be used on a node; an unknown volume can.
func volumeAdmits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	ok, err := nodeaffinity.NewLazyErrorNodeSelector(volume.Spec.NodeAffinity.Required).Match(node)
	return ok && err == nil
}

// checkDevices checks that a device is in one claim at a time (S15).
func (a *replay) checkDevices() {
	byDevice := map[string][]*tenure{}
	for _, uid := range slices.Sorted(maps.Keys(a.claims.devices)) {
		for _, t := range a.claims.devices[uid].tenures {
			byDevice[t.device] = append(byDevice[t.device], t)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(byDevice)) {
		all := byDevice[device]
		slices.SortStableFunc(all, func(s, t *tenure) int { return cmp.Compare(s.from.rv, t.from.rv) })
		for i, t := range all {
			for _, before := range all[:i] {
				a.shareDevice(before, t)
			}
		}
	}
}

func (a *replay) shareDevice(before, t *tenure) {
	if before.claim == t.claim || t.from.after == 0 || before.until.maybe(t.from.rv) {
		return
	}
	a.report.add(Finding{
		Severity: ownFault(a.oursAlone(t.claim) && a.oursAlone(before.claim)), Invariant: "S15",
		ResourceVersion: t.from.rv,
		Objects:         []string{deviceClaimObject(t.claim.name), deviceClaimObject(before.claim.name)},
		Message:         fmt.Sprintf("was allocated device %s, which %s had", t.device, before.claim.name),
	})
}

// oursAlone reports whether a claim was reserved only for pods that no scheduler but Berth has bound.
func (a *replay) oursAlone(c *deviceClaimLife) bool {
	for uid := range c.reserved {
		if p := a.pods[uid]; p == nil || p.bound.known() && !p.ours() {
			return false
		}
	}
	return len(c.reserved) > 0
}

func volumeClaimObject(name string) string { return string(KindVolumeClaim) + "/" + name }
func deviceClaimObject(name string) string { return string(KindDeviceClaim) + "/" + name }
