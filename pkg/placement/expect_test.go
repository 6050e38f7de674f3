package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
)

// oneClaim is a cluster with one claim, of that name.
type oneClaim struct {
	*state.Snapshot
	name string
}

func (o oneClaim) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	return &state.Object{}, k == events.KindResourceClaim && namespace == "ns" && name == o.name
}

// Only what a controller is about to create is expected: everything else is the responsibility of the pod's owner.
func TestExpectsClaimsThatAreMadeFromTemplates(t *testing.T) {
	profile, err := placement.NewProfile(placement.DefaultProfile("s"))
	if err != nil {
		t.Fatal(err)
	}
	fromTemplate := corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpus")}
	itsOwn := corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("mine")}
	named := func(name *string) []corev1.PodResourceClaimStatus {
		return []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: name}}
	}
	for _, test := range []struct {
		what     string
		claim    corev1.PodResourceClaim
		statuses []corev1.PodResourceClaimStatus
		want     bool
	}{
		{"the pod does not know its name", fromTemplate, nil, true},
		{"the facts do not show it", fromTemplate, named(ptr.To("a-gpu-2")), true},
		{"it is there", fromTemplate, named(ptr.To("a-gpu")), false},
		{"none is needed", fromTemplate, named(nil), false},
		{"a claim of its own is missing", itsOwn, nil, false},
	} {
		pod := state.NewPod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"},
			Spec:       corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{test.claim}},
			Status:     corev1.PodStatus{ResourceClaimStatuses: test.statuses},
		})
		plugin, what := profile.Expects(pod, oneClaim{Snapshot: state.New().Snapshot(), name: "a-gpu"})
		if (what != "") != test.want || test.want && plugin != names.DynamicResources {
			t.Errorf("%s: %q by %q, want something: %t", test.what, what, plugin, test.want)
		}
	}
	if _, what := profile.Expects(state.NewPod(&corev1.Pod{}), state.New().Snapshot()); what != "" {
		t.Errorf("a pod without claims: %q", what)
	}
}
