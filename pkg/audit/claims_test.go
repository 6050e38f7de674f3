package audit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/audit/strip"
)

// volumeClaim creates a claim for one pod.
func (s *scenario) volumeClaim(name, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	c.Namespace, c.Name, c.UID = "d", name, types.UID(name+"-uid")
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	c.Spec.VolumeName = volume
	s.happens(recording.Object{Kind: recording.KindVolumeClaim, UID: string(c.UID), Claim: c})
	return c
}

// volume creates a volume that is restricted to one node.
func (s *scenario) volume(name, host string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{host}},
		}}},
	}}
	s.happens(recording.Object{Kind: recording.KindVolume, UID: string(v.UID), Volume: v})
	return v
}

// deviceClaim writes the next version of a claim that has devices, reserved for pods.
func (s *scenario) deviceClaim(name string, devices []string, pods ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name, c.UID = "d", name, types.UID(name+"-uid")
	if len(devices) > 0 {
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: "gpu", Pool: "n", Device: d})
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID(p + "-uid")})
	}
	s.happens(recording.Object{Kind: recording.KindDeviceClaim, UID: string(c.UID), DeviceClaim: c})
	return c
}

func withVolume(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

func TestClaimsForOnePod(t *testing.T) {
	begin := func(t *testing.T) *scenario {
		s := begin(t).node("n", "4", nil).node("m", "4", nil)
		s.volumeClaim("c", "")
		s.pod("a", "1m", withVolume("c")).pod("b", "1m", withVolume("c")).place("n", "a")
		s.bind("a", "n")
		return s
	}
	t.Run("one after the other", func(t *testing.T) {
		s := begin(t)
		s.remove("a")
		s.place("m", "b")
		s.bind("b", "m")
		s.finds()
	})
	t.Run("two at once", func(t *testing.T) {
		s := begin(t)
		s.place("m", "b")
		s.bind("b", "m")
		s.finds("violation S14 pod/d/b pod/d/a persistentvolumeclaim/d/c")
	})
	t.Run("somebody else's", func(t *testing.T) {
		s := begin(t)
		s.foreign("b", "m")
		s.finds("warning S14 pod/d/b pod/d/a persistentvolumeclaim/d/c")
	})
}

func TestVolumesOfOtherNodes(t *testing.T) {
	s := begin(t).node("n", "4", map[string]string{"host": "n"}).node("m", "4", map[string]string{"host": "m"})
	s.volume("v", "n")
	s.volumeClaim("c", "v")
	s.pod("a", "1m", withVolume("c")).place("m", "a")
	s.bind("a", "m")
	s.finds("violation fit pod/d/a node/m persistentvolumeclaim/d/c")
}

func TestDevicesInClaims(t *testing.T) {
	begin := func(t *testing.T) *scenario {
		s := begin(t).node("n", "4", nil).pod("a", "1m").pod("b", "1m").place("n", "a", "b")
		s.deviceClaim("x", []string{"0", "1"}, "a")
		s.bind("a", "n")
		s.bind("b", "n")
		return s
	}
	t.Run("given back in between", func(t *testing.T) {
		s := begin(t)
		s.deviceClaim("x", []string{"1"}, "a")
		s.deviceClaim("y", []string{"0"}, "b")
		s.finds()
	})
	t.Run("gone in between", func(t *testing.T) {
		s := begin(t)
		s.happens(recording.Object{Kind: recording.KindDeviceClaim, UID: "x-uid", Gone: true})
		s.deviceClaim("y", []string{"0"}, "b")
		s.finds()
	})
	t.Run("in two", func(t *testing.T) {
		s := begin(t)
		s.deviceClaim("y", []string{"0"}, "b")
		s.finds("violation S15 resourceclaim/d/y resourceclaim/d/x")
	})
	t.Run("somebody else's", func(t *testing.T) {
		s := begin(t)
		s.pod("f", "1m")
		s.deviceClaim("y", []string{"0"}, "f")
		s.foreign("f", "n")
		s.finds("warning S15 resourceclaim/d/y resourceclaim/d/x")
	})
}

func TestCheckOfClaims(t *testing.T) {
	s := begin(t).node("n", "4", map[string]string{"host": "n"}).node("m", "4", map[string]string{"host": "m"})
	s.pod("a", "1m", withVolume("c")).pod("b", "1m", withVolume("c")).place("n", "a").place("m", "b")
	s.bind("a", "n")
	s.bind("b", "m")
	claim, volume := s.volumeClaim("c", "v"), s.volume("v", "n")
	in := s.now()
	in.Pods = []corev1.Pod{*s.pods["a"], *s.pods["b"]}
	in.VolumeClaims, in.Volumes = []corev1.PersistentVolumeClaim{*claim}, []corev1.PersistentVolume{*volume}
	both := []string{
		"violation S14 pod/d/b pod/d/a persistentvolumeclaim/d/c", "violation fit pod/d/b persistentvolumeclaim/d/c",
	}
	s.check(in, both...)

	in.DeviceClaims = []resourcev1.ResourceClaim{
		*s.deviceClaim("x", []string{"0"}, "a"), *s.deviceClaim("y", []string{"0"}, "b"),
		*s.deviceClaim("orphan", []string{"1"}), *s.deviceClaim("late", []string{"2"}, "a", "gone"),
		*s.deviceClaim("empty", nil),
	}
	s.check(in, append(both, "violation S15 resourceclaim/d/y resourceclaim/d/x",
		"warning L7 resourceclaim/d/orphan", "warning L7 resourceclaim/d/late")...)

	shared := in.DeviceClaims[1].DeepCopy()
	shared.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	in.DeviceClaims = []resourcev1.ResourceClaim{in.DeviceClaims[0], *shared}
	s.check(in, both...)
}

// TestClaimsAreStripped checks that a history keeps only the parts of claims that the rules look at.
func TestClaimsAreStripped(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "empty"},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	kept := strip.Pod(p).Spec.Volumes
	if len(kept) != 1 || kept[0].PersistentVolumeClaim.ClaimName != "p-scratch" {
		t.Errorf("volumes %+v, want the claim p-scratch", kept)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r"}}
	if out := strip.DeviceClaim(claim); len(out.Spec.Devices.Requests) != 0 || out.Status.Allocation != nil {
		t.Errorf("claim %+v, want neither requests nor devices", out)
	}
}
