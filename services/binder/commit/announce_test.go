package commit

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// nominatedIn returns the nominated node in a patch of a pod's status, whether the patch has the field, and the
// resourceVersion that it requires.
func nominatedIn(t *testing.T, req *http.Request) (value any, has bool, version any) {
	t.Helper()
	var patch struct {
		Metadata, Status map[string]any
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	if err != nil {
		t.Error(err)
	}
	value, has = patch.Status["nominatedNodeName"]
	return value, has, patch.Metadata["resourceVersion"]
}

// Patches of a pod's status name the nominated node, remove it with null, or leave it alone.
func TestPatchesOfTheNominatedNode(t *testing.T) {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}
	for _, test := range []struct {
		name    string
		e       effect.Effect
		value   any
		has     bool
		version any
	}{
		{"a condition alone", effect.PatchCondition{Pod: thePod, Condition: condition}, nil, false, nil},
		{"with a node", effect.PatchCondition{Pod: thePod, Condition: condition, NominatedNodeName: "n"}, "n", true, nil},
		{"that clears it", effect.PatchCondition{Pod: thePod, Condition: condition, ClearNomination: true}, nil, true, nil},
		{"that clears it at a version", effect.PatchCondition{
			Pod: thePod, Condition: condition, ClearNomination: true, ResourceVersion: 7,
		}, nil, true, "7"},
		{"a hold", effect.Nominate{Pod: thePod, NodeName: "n"}, "n", true, nil},
		{"the end of one", effect.Nominate{Pod: thePod}, nil, true, nil},
		{"an announcement", effect.Announce{Pod: thePod, NodeName: "n", ResourceVersion: 7}, "n", true, "7"},
		{"a fence", effect.FencePod{Pod: thePod, Value: "v"}, nil, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			writes := 0
			x := serve(t, func(w http.ResponseWriter, req *http.Request) {
				writes++
				value, has, version := nominatedIn(t, req)
				if value != test.value || has != test.has || version != test.version {
					t.Errorf("patch to %v (%t) at %v, want %v (%t) at %v",
						value, has, version, test.value, test.has, test.version)
				}
				write(w, http.StatusOK, podObject(func(p *corev1.Pod) {
					p.Annotations = map[string]string{effect.AnnotationFence: "v"}
				}))
			})
			in, err := x.carryOut(t.Context(), test.e)
			if a, ok := in.(effect.Answered); err != nil || !ok || a.Result != effect.Done || writes != 1 {
				t.Errorf("%+v, %v after %d writes", in, err, writes)
			}
		})
	}
}

// An announcement that loses to another change of the pod is answered like a bind that does.
func TestAnnouncementLosesLikeABind(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want effect.Result
	}{
		{"moved", podObject(nil), effect.Conflict},
		{"bound here", podObject(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), effect.AlreadyHere},
		{"bound elsewhere", podObject(func(p *corev1.Pod) { p.Spec.NodeName = "m" }), effect.Elsewhere},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					write(w, http.StatusOK, test.pod)
					return
				}
				fail(w, apierrors.NewConflict(theRes, "p", errors.New("moved")))
			})
			in, err := x.carryOut(t.Context(), effect.Announce{Pod: thePod, NodeName: "n", ResourceVersion: 7})
			if a := in.(effect.Answered); err != nil || a.Result != test.want || a.Pod == nil {
				t.Errorf("%+v, %v; want %s", in, err, test.want)
			}
		})
	}
}

// A patch that is bound to a version of the pod, and finds another one, is answered with the pod as it is. One that is
// not bound, and loses all the same, has no outcome.
func TestPatchOfAnotherVersion(t *testing.T) {
	for version, want := range map[uint64]effect.Result{6: effect.Conflict, 0: effect.Unknown} {
		x := serve(t, func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet {
				write(w, http.StatusOK, podObject(nil))
				return
			}
			fail(w, apierrors.NewConflict(theRes, "p", errors.New("moved")))
		})
		in, err := x.carryOut(t.Context(), effect.PatchCondition{Op: 5, Pod: thePod, ResourceVersion: version})
		if a := in.(effect.Answered); err != nil || a.Op != 5 || a.Result != want || a.Pod == nil {
			t.Errorf("%+v, %v; want %s", in, err, want)
		}
	}
}
