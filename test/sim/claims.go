package sim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// claimKinds are the additional kinds in a cluster with volumes.
var claimKinds = []events.Kind{events.KindPersistentVolume, events.KindVolumeClaim}

// claimsForOne is how many claims there are that one pod at a time may use: few enough that several pods
// always want the same.
const claimsForOne = 3

func claimName(i int) string { return fmt.Sprintf("c%d", i) }

// claimVolumes makes the claims, each with its volume, which can be used on any node.
func (c *cluster) claimVolumes(w *world) {
	for i := range claimsForOne {
		name := claimName(i)
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		w.api.put(events.KindPersistentVolume, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v-" + name, UID: types.UID("volume-" + name)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: modes,
				ClaimRef: &corev1.ObjectReference{
					Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: types.UID("claim-" + name),
				},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
				},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		})
		w.api.put(events.KindVolumeClaim, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: types.UID("claim-" + name),
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
			},
			Spec:   corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: "v-" + name},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
	}
}

// wantsClaim has most pods want one of the claims.
func wantsClaim(w *world, p *corev1.Pod) {
	if !w.chance(75) {
		return
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(w.rng.IntN(claimsForOne))},
	}}}
}

// claimOf is the claim that a pod names; empty for none.
func claimOf(p *corev1.Pod) string {
	if len(p.Spec.Volumes) == 0 {
		return ""
	}
	return p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
}

// checkUsers is S14: of the pods that are bound or may yet be, one has a claim that is for one.
func (o *oracle) checkUsers(all []podPlacement) {
	users := map[string]podPlacement{}
	for _, s := range all {
		name := claimOf(s.pod)
		if name == "" {
			continue
		}
		other, taken := users[name]
		if taken && !o.w.cluster.boundBeforeReregistration(s) && !o.w.cluster.boundBeforeReregistration(other) {
			o.w.note("S14", "claim %s is for one pod, and %s on %s and %s on %s have it",
				name, other.pod.Name, other.node.Name, s.pod.Name, s.node.Name)
		}
		users[name] = s
	}
}

// claimTaken reports whether one of the bound pods uses the claim that pod p wants.
func claimTaken(p *corev1.Pod, all []podPlacement) bool {
	name := claimOf(p)
	for _, s := range all {
		if name != "" && claimOf(s.pod) == name {
			return true
		}
	}
	return false
}

func isExclusive(key string) bool { return strings.HasPrefix(key, ledger.PrefixVolume) }

func claimMutants() []Mutant {
	return []Mutant{{
		Name: "volume-compare", expected: expected{rare: true, family: claimed},
		Missing: "placements do not compare the document of a claim that is for one pod",
		txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
			return without(t, what == "T1", isExclusive)
		},
	}}
}
