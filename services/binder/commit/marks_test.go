package commit

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// patched is the content of a patch of a pod's status.
type patched struct {
	Metadata metav1.ObjectMeta
	Status   struct{ Conditions []patchedCondition }
}

func readPatch(t *testing.T, req *http.Request) (p patched) {
	t.Helper()
	if err := json.NewDecoder(req.Body).Decode(&p); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(req.URL.Path, "/pods/p/status") {
		t.Errorf("a write of %s, want of the status", req.URL.Path)
	}
	return p
}

// tooLong returns the API server's answer to annotations that are too large.
func tooLong() *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{
		field.TooLong(field.NewPath("metadata", "annotations"), "", 262144),
	})
}

// A fence whose annotation has no room becomes a condition. Either form deletes the condition of the attempt.
func TestFenceOfFullAnnotations(t *testing.T) {
	writes := 0
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		p := readPatch(t, req)
		writes++
		if len(p.Status.Conditions) == 0 || p.Status.Conditions[0] != noAttempt {
			t.Errorf("conditions %+v, want that of the attempt to go", p.Status.Conditions)
		}
		if len(p.Metadata.Annotations) > 0 {
			fail(w, tooLong())
			return
		}
		write(w, http.StatusOK, podObject(func(pod *corev1.Pod) {
			mark := p.Status.Conditions[1]
			pod.ResourceVersion = "8"
			pod.Status.Conditions = []corev1.PodCondition{{Type: mark.Type, Status: mark.Status, Message: mark.Message}}
		}))
	})
	a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"})
	if a.Result != effect.Done || a.Pod.ResourceVersion != 8 || writes != 2 {
		t.Fatalf("answer %+v after %d writes, want done after two", a, writes)
	}
}

// The bind of a pod whose annotations are full adds none. Its attempt is named by a condition that is written before.
func TestBindLeavesFullAnnotationsAlone(t *testing.T) {
	named := false
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPatch {
			p := readPatch(t, req)
			want := patchedCondition{Type: "berth.dev/attempt", Status: "True", Message: "0000000000000009 n"}
			if c := p.Status.Conditions; len(c) != 1 || c[0] != want || len(p.Metadata.Annotations) > 0 ||
				p.Metadata.UID != "uid" || p.Metadata.ResourceVersion != "5" {
				t.Errorf("patch %+v, want the attempt alone, at the version of the bind", p)
			}
			named = true
			write(w, http.StatusOK, podObject(func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: want.Type, Status: want.Status, Message: want.Message}}
			}))
			return
		}
		body, _ := io.ReadAll(req.Body)
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		binding, ok := obj.(*corev1.Binding)
		if err != nil || !ok || !named || len(binding.Annotations) > 0 || binding.ResourceVersion != "7" {
			t.Errorf("binding %+v (%v), want one without annotations, at the version of the patch", obj, err)
		}
		write(w, http.StatusCreated, success)
	})
	a := r.bindings.bind(t.Context(), effect.Bind{
		Pod: thePod, NodeName: "n", ResourceVersion: 5, Token: 9, AnnotationsFull: true,
	})
	if a.Result != effect.Done {
		t.Fatalf("answer %+v", a)
	}
}

// An admission webhook removes the condition of the attempt: the bind could not be recognised as Berth's.
func TestBindWhoseAttemptIsLeftOutIsRefused(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPatch {
			t.Errorf("%s of %s, want no bind", req.Method, req.URL.Path)
		}
		write(w, http.StatusOK, podObject(func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: effect.ConditionAttempt, Message: "0000000000000008 n"}}
		}))
	})
	a := r.bindings.bind(t.Context(), effect.Bind{
		Pod: thePod, NodeName: "n", ResourceVersion: 5, Token: 9, AnnotationsFull: true,
	})
	if a.Result != effect.Refused || !strings.Contains(a.Problem, "berth.dev/attempt") {
		t.Errorf("answer %+v, want a refusal that names the condition", a)
	}
}

// The API server's storage rejects a pod that is too large: the answer to a bind is a conflict, and to a patch an
// internal error. A retry would be rejected again.
func TestPodThatIsTooLargeIsRefused(t *testing.T) {
	const message = "etcdserver: request is too large"
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			fail(w, apierrors.NewConflict(corev1.Resource("pods/binding"), "p", errors.New(message)))
			return
		}
		fail(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
		}})
	})
	for what, a := range map[string]effect.Answered{
		"bind":  r.bindings.bind(t.Context(), effect.Bind{Pod: thePod, NodeName: "n", ResourceVersion: 5, Token: 9}),
		"fence": r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"}),
	} {
		if a.Result != effect.Refused || a.Failed || !strings.Contains(a.Problem, message) {
			t.Errorf("%s: %+v, want refused: %s", what, a, message)
		}
	}
}

// An internal error of the API server may be transient, or not.
func TestWebhookThatCannotBeReachedFailsTheFence(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, apierrors.NewInternalError(errors.New("failed calling webhook")))
	})
	a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"})
	if a.Result != effect.Unknown || !a.Failed {
		t.Fatalf("answer %+v, want unknown, and that the API server failed", a)
	}
}

// The version of a claim that has not moved since the decision is moved, and nothing is left on the claim: its
// annotations may be full.
func TestClaimIsSettledWithoutAnnotations(t *testing.T) {
	client := claimStore(t, &faults{})
	client.PrependReactor("patch", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(clienttesting.PatchAction)
		if ok && strings.Contains(string(patch.GetPatch()), "annotations") {
			return true, nil, tooLong()
		}
		return false, nil, nil
	})
	version := settleClaims(t, client, false)
	claim := claimNow(t, client)
	if version <= 10 || versionOf(claim) != version || len(claim.Finalizers) > 0 || len(claim.Annotations) > 0 {
		t.Errorf("settled at %d: %+v, want a later version with nothing on it", version, claim.ObjectMeta)
	}
}
