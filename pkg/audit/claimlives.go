package audit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
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
func (c *claimLives) load(o recording.Object, at moment) {
	switch {
	case o.Kind == recording.KindDeviceClaim:
		c.loadDeviceClaim(o, at)
	case o.Claim != nil:
		c.volumeClaims[o.Claim.Namespace+"/"+o.Claim.Name] = o.Claim
	case o.Volume != nil:
		c.volumes[o.Volume.Name] = o.Volume
	}
}

func (c *claimLives) loadDeviceClaim(o recording.Object, at moment) {
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

// volumeAdmits reports whether a volume can be used on a node; an unknown volume can.
func volumeAdmits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	ok, err := nodeaffinity.NewLazyErrorNodeSelector(volume.Spec.NodeAffinity.Required).Match(node)
	return ok && err == nil
}

func volumeClaimObject(name string) string { return string(recording.KindVolumeClaim) + "/" + name }

func deviceClaimObject(name string) string { return string(recording.KindDeviceClaim) + "/" + name }
