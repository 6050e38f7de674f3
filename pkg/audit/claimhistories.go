package audit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

// claimHistories is all that a history knows about claims to volumes and devices. Of volume claims and volumes it
// keeps only the newest version: the fields that rules read (access modes, the volume's name, its node affinity) do
// not change once they are set.
type claimHistories struct {
	// volumeClaims is by namespace/name, with the newest claim of a name; volumes is by name.
	volumeClaims map[string]*corev1.PersistentVolumeClaim
	volumes      map[string]*corev1.PersistentVolume
	// devices is by UID.
	devices map[string]*deviceClaimHistory
}

// newClaims returns empty histories.
func newClaims() *claimHistories {
	return &claimHistories{
		volumeClaims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		devices: map[string]*deviceClaimHistory{},
	}
}

// deviceClaimHistory is all that a history knows about one device claim: which devices it had and when, and for which
// pods.
type deviceClaimHistory struct {
	name        string // namespace/name
	allocations []*deviceAllocation
	reserved    map[string]bool // by UID: the pods that the claim has listed as users
}

// deviceAllocation is the time during which a claim has one device. A claim that loses a device and gets it again has
// two of them.
type deviceAllocation struct {
	device string
	claim  *deviceClaimHistory
	from   moment
	until  moment // zero: it still has the device
}

// load applies the next version of a claim or volume. A volume or volume claim that is deleted stays known.
func (c *claimHistories) load(o recording.Object, at moment) {
	switch {
	case o.Kind == recording.KindDeviceClaim:
		c.loadDeviceClaim(o, at)
	case o.Claim != nil:
		c.volumeClaims[o.Claim.Namespace+"/"+o.Claim.Name] = o.Claim
	case o.Volume != nil:
		c.volumes[o.Volume.Name] = o.Volume
	}
}

// loadDeviceClaim applies the next version of a device claim: it ends the allocations of devices that the version no
// longer has, and begins those of new ones. A deleted claim has no devices.
func (c *claimHistories) loadDeviceClaim(o recording.Object, at moment) {
	history := c.devices[o.UID]
	if history == nil {
		if o.DeviceClaim == nil {
			return // it is gone, and was unknown
		}
		history = &deviceClaimHistory{name: o.DeviceClaim.Namespace + "/" + o.DeviceClaim.Name, reserved: map[string]bool{}}
		c.devices[o.UID] = history
	}
	has := map[string]bool{}
	if o.DeviceClaim != nil {
		for _, device := range exclusiveDevices(o.DeviceClaim) {
			has[device] = true
		}
		for _, user := range o.DeviceClaim.Status.ReservedFor {
			history.reserved[string(user.UID)] = true
		}
	}
	for _, t := range history.allocations {
		switch {
		case t.until.happened():
		case has[t.device]:
			delete(has, t.device)
		default:
			t.until = at
		}
	}
	for _, device := range slices.Sorted(maps.Keys(has)) {
		history.allocations = append(history.allocations, &deviceAllocation{device: device, claim: history, from: at})
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

// of returns the volume claims that a pod names, by namespace/name.
func (c *claimHistories) of(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	return names
}

// singlePod reports whether only one pod may use a claim. It is false for an unknown claim.
func singlePod(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// volumeClaimObject and deviceClaimObject return claims as objects of a finding, from namespace/name.
func volumeClaimObject(name string) string { return string(recording.KindVolumeClaim) + "/" + name }

func deviceClaimObject(name string) string { return string(recording.KindDeviceClaim) + "/" + name }
