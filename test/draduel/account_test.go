package draduel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

func user(name, node string) corev1.Pod {
	claim := name + "-gpu"
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
			{Name: "gpu", ResourceClaimName: &claim},
		}},
	}
}

func given(pod, device string) resourcev1.ResourceClaim {
	return resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: pod + "-gpu"},
		Status: resourcev1.ResourceClaimStatus{
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "n", Device: device}},
			}},
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Name: pod, UID: types.UID(pod)}},
		},
	}
}

func rival(name, node string) corev1.Pod {
	p := user(name, node)
	p.Spec.ResourceClaims, p.Status.ResourceClaimStatuses = nil, nil
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "one"},
	}}}
	return p
}

func TestWhatIsWrongIsCounted(t *testing.T) {
	good := count([]corev1.Pod{user("a", "n"), user("b", "n"), user("c", ""), rival("x", "n"), rival("y", "")},
		[]resourcev1.ResourceClaim{given("a", "0"), given("b", "1")})
	if good.bad() || good.bound != 3 || good.waiting != 2 || good.allocated != 2 {
		t.Errorf("a good state counts as %+v", good)
	}
	a := count([]corev1.Pod{user("a", "n"), user("b", "n"), user("c", "n"), rival("x", "n"), rival("y", "m")},
		[]resourcev1.ResourceClaim{given("a", "0"), given("b", "0"), given("gone", "1")})
	want := account{
		bound: 5, allocated: 3, twice: []string{"d/n/0: a-gpu, b-gpu"}, shared: []string{"one: x, y"},
		without: []string{"c"}, leaked: []string{"gone-gpu"},
	}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(account{})); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

func TestBadCommandLines(t *testing.T) {
	for args, want := range map[string]string{"--contenders=volcano": "kube-scheduler, berth", "--rivals=1": "at least"} {
		if err := bench.Parse(&options{}, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
}
