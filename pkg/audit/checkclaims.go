package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/mark"
	"github.com/berth-scheduler/berth/pkg/audit/strip"
)

// checkClaims checks the current claims: those for one pod have one user (S14), no device is in two claims (S15),
// volumes can be used where their pods are (fit), and claims with devices have a pod (L7).
func (c *stateCheck) checkClaims(in CurrentState) {
	volumeClaims := map[string]*corev1.PersistentVolumeClaim{}
	for i := range in.VolumeClaims {
		claim := &in.VolumeClaims[i]
		volumeClaims[claim.Namespace+"/"+claim.Name] = claim
	}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range in.Volumes {
		volumes[in.Volumes[i].Name] = &in.Volumes[i]
	}
	users := map[string]*placedPod{}
	// A claim is used by the pods on nodes that name it; pods that wait do not use it yet.
	for _, r := range c.placed {
		for _, name := range volumeClaimsOf(r.pod) {
			claim := volumeClaims[name]
			if claim == nil {
				continue
			}
			if volume := volumes[claim.Spec.VolumeName]; r.boundByBerth && !fit.VolumeAdmits(volume, r.node) {
				c.add(Violation, "fit", fmt.Sprintf("is on node %s, where its volume %s cannot be used",
					r.node.Name, volume.Name), podObjectOf(r.pod), volumeClaimObject(name))
			}
			if other := users[name]; singlePod(claim) && other != nil && other != r {
				severity := severityFor(r.boundByBerth && other.boundByBerth)
				c.add(severity, "S14", fmt.Sprintf("uses the same claim as %s, but only one pod may use it",
					podObjectOf(other.pod)), podObjectOf(r.pod), podObjectOf(other.pod), volumeClaimObject(name))
			}
			users[name] = r
		}
	}
	c.checkDevices(in)
}

// volumeClaimsOf returns the claims that a pod names, including those of its ephemeral volumes.
func volumeClaimsOf(p *corev1.Pod) (names []string) {
	for _, v := range strip.Pod(p).Spec.Volumes {
		names = append(names, p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
	}
	return names
}

// checkDevices checks that a device is in one claim (S15), and that claims with devices have a pod (L7). Devices are
// visited in order, and each claim is compared with the first that has the device.
func (c *stateCheck) checkDevices(in CurrentState) {
	pods := map[string]*corev1.Pod{}
	for i := range in.Pods {
		pods[string(in.Pods[i].UID)] = &in.Pods[i]
	}
	owners := map[string][]*resourcev1.ResourceClaim{}
	for i := range in.DeviceClaims {
		claim := &in.DeviceClaims[i]
		if claim.Status.Allocation == nil {
			continue
		}
		for _, device := range exclusiveDevices(claim) {
			owners[device] = append(owners[device], claim)
		}
		c.checkUsers(claim, pods)
	}
	for _, device := range slices.Sorted(maps.Keys(owners)) {
		for _, claim := range owners[device][1:] {
			first := owners[device][0]
			c.add(severityFor(claimOurs(claim, pods) && claimOurs(first, pods)), "S15",
				fmt.Sprintf("has device %s, which %s also has", device, claimName(first)),
				deviceClaimObject(claimName(claim)), deviceClaimObject(claimName(first)))
		}
	}
}

// claimName returns a device claim as namespace/name.
func claimName(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// checkUsers warns about devices that no pod uses. Kubernetes' controller takes them back, and may be about to.
func (c *stateCheck) checkUsers(claim *resourcev1.ResourceClaim, pods map[string]*corev1.Pod) {
	var gone []string
	for _, user := range claim.Status.ReservedFor {
		if user.Resource == "pods" && user.APIGroup == "" && pods[string(user.UID)] == nil {
			gone = append(gone, user.Name)
		}
	}
	switch {
	case len(claim.Status.ReservedFor) == 0:
		c.add(Warning, "L7", "has devices, but no pod uses them", deviceClaimObject(claimName(claim)))
	case len(gone) > 0:
		c.add(Warning, "L7", "is reserved for deleted pods: "+strings.Join(gone, ", "),
			deviceClaimObject(claimName(claim)))
	}
}

// claimOurs reports whether a claim is reserved only for pods that no scheduler but Berth has bound.
func claimOurs(claim *resourcev1.ResourceClaim, pods map[string]*corev1.Pod) bool {
	for _, user := range claim.Status.ReservedFor {
		p := pods[string(user.UID)]
		if p == nil {
			return false
		}
		if _, ours := mark.AttemptOf(p); p.Spec.NodeName != "" && !ours {
			return false
		}
	}
	return len(claim.Status.ReservedFor) > 0
}
