package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		os.Exit(serveAlone())
	}
	goleak.VerifyTestMain(m)
}

// serve starts an API server with one handler, and returns an executor that talks to it over HTTP.
func serve(t *testing.T, handle http.HandlerFunc) *Executor {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	api, err := Connect(&rest.Config{Host: server.URL}, 0, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.CloseClientConnections)
	return New(1, Deps{API: api, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
}

func write(w http.ResponseWriter, code int, obj runtime.Object) {
	data, err := json.Marshal(obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Retry-After", "1")
	write(w, int(status.Code), &status)
}

var (
	success = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	thePod  = events.PodRef{UID: "uid", Namespace: "ns", Name: "p"}
	theRes  = corev1.Resource("pods")
)

func podObject(change func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", ResourceVersion: "7"},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestBindOutcomes(t *testing.T) {
	conflict := apierrors.NewConflict(theRes, "p", errors.New("moved"))
	noRoute := apierrors.NewGenericServerResponse(http.StatusNotFound, "post", theRes, "", "", 0, true)
	for _, tc := range []struct {
		name string
		bind *apierrors.StatusError // nil: 201
		get  *corev1.Pod            // nil: 404
		want effect.Result
		pods bool
	}{
		{"created", nil, nil, effect.Done, false},
		{"conflict, resourceVersion moved", conflict, podObject(nil), effect.Conflict, true},
		{"conflict, here", conflict, podObject(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), effect.AlreadyHere, true},
		{"conflict, elsewhere", conflict, podObject(func(p *corev1.Pod) { p.Spec.NodeName = "m" }), effect.Elsewhere, true},
		{"conflict, namesake", conflict, podObject(func(p *corev1.Pod) { p.UID = "other" }), effect.Gone, false},
		{"conflict, gone", conflict, nil, effect.Gone, false},
		{"not found", apierrors.NewNotFound(theRes, "p"), podObject(nil), effect.Gone, false},
		{"the path is not found, nor is the pod", noRoute, nil, effect.Gone, false},
		{"the path is not found, the pod is there", noRoute, podObject(nil), effect.Unknown, true},
		{"forbidden", apierrors.NewForbidden(theRes, "p", errors.New("no")), nil, effect.Refused, false},
		{"bad request", apierrors.NewBadRequest("no"), nil, effect.Refused, false},
		{"throttled", apierrors.NewTooManyRequests("later", 1), nil, effect.Unknown, false},
		{"server error", apierrors.NewInternalError(errors.New("etcd")), nil, effect.Unknown, false},
		{"timeout", apierrors.NewTimeoutError("slow", 1), nil, effect.Unknown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			r := serve(t, func(w http.ResponseWriter, req *http.Request) {
				switch {
				case req.Method == http.MethodGet && tc.get == nil:
					fail(w, apierrors.NewNotFound(theRes, "p"))
				case req.Method == http.MethodGet:
					write(w, http.StatusOK, tc.get)
				case tc.bind == nil:
					checkBinding(t, req)
					write(w, http.StatusCreated, success)
				default:
					calls.Add(1)
					fail(w, tc.bind)
				}
			})
			a := r.bindings.bind(t.Context(), effect.Bind{Op: 3, Pod: thePod, NodeName: "n", ResourceVersion: 5, Token: 9})
			if a.Op != 3 || a.Result != tc.want || (a.Pod != nil) != tc.pods {
				t.Fatalf("answer %+v, want %s", a, tc.want)
			}
			if tc.bind != nil && calls.Load() != 1 {
				t.Fatalf("the client sent the Binding %d times", calls.Load())
			}
		})
	}
}

func checkBinding(t *testing.T, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Error(err)
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Error(err)
		return
	}
	want := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", ResourceVersion: "5",
			Annotations: map[string]string{"berth.dev/attempt": "0000000000000009"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
	noType := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".TypeMeta" }, cmp.Ignore())
	if diff := cmp.Diff(want, obj, noType); diff != "" {
		t.Errorf("Binding (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(req.URL.Path, "/namespaces/ns/pods/p/binding") {
		t.Errorf("posted to %s", req.URL.Path)
	}
}

func TestConnectionThatBreaksIsUnknown(t *testing.T) {
	r := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a := r.bindings.bind(t.Context(), effect.Bind{Pod: thePod, NodeName: "n"})
	if a.Result != effect.Unknown || a.Problem == "" {
		t.Fatalf("answer %+v, want unknown", a)
	}
}

func TestFenceReallyChangesThePod(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		var body struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if body.Metadata.UID != "uid" || body.Metadata.Annotations["berth.dev/fence"] != "value" {
			t.Errorf("patch %+v", body)
		}
		if req.Method != http.MethodPatch || req.URL.Path != "/api/v1/namespaces/ns/pods/p/status" {
			t.Errorf("%s %s, want a patch of the pod's status, which leaves its spec alone", req.Method, req.URL.Path)
		}
		write(w, http.StatusOK, podObject(func(p *corev1.Pod) {
			p.Spec.NodeName, p.ResourceVersion, p.Annotations = "n", "8", body.Metadata.Annotations
		}))
	})
	a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"})
	if a.Result != effect.Done || a.Pod.NodeName != "n" || a.Pod.ResourceVersion != 8 {
		t.Fatalf("answer %+v", a)
	}
}

// The error of a refused fence names the write and the API server's reason.
func TestRefusedFenceNamesTheWrite(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, apierrors.NewForbidden(theRes, "p", errors.New("frozen")))
	})
	a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"})
	if want := `patch of pods/status: pods "p" is forbidden: frozen`; a.Result != effect.Refused || a.Problem != want {
		t.Fatalf("answer %+v, want refused: %s", a, want)
	}
}

// A patch that an admission webhook empties changes nothing, and is answered as if it had.
func TestMarkThatIsTakenOutIsNoFence(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"all are": nil, "an older mark stays": {"berth.dev/fence": "older"},
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				write(w, http.StatusOK, podObject(func(p *corev1.Pod) { p.Annotations = annotations }))
			})
			a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "value"})
			const problem = "dropped condition berth.dev/fence"
			if a.Result != effect.Refused || !strings.Contains(a.Problem, problem) || a.Pod != nil {
				t.Fatalf("answer %+v, want refused, and that the condition is missing too", a)
			}
		})
	}
}

func TestPatchesOfANamesakeAreGone(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			write(w, http.StatusOK, podObject(func(p *corev1.Pod) { p.UID = "other" }))
			return
		}
		fail(w, apierrors.NewConflict(theRes, "p", errors.New("precondition: UID")))
	})
	if a := r.fences.fencePod(t.Context(), effect.FencePod{Pod: thePod, Value: "v"}); a.Result != effect.Gone {
		t.Fatalf("fence: %+v", a)
	}
	if a := r.conditions.patchCondition(t.Context(), effect.PatchCondition{Pod: thePod}); a.Result != effect.Gone {
		t.Fatalf("condition: %+v", a)
	}
	if a := r.evictions.evict(t.Context(), effect.Evict{Pod: thePod}); a.Result != effect.Gone {
		t.Fatalf("eviction: %+v", a)
	}
}

func TestAGateIsTakenOutOfTheList(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		want := `{"metadata":{"uid":"uid"},"spec":{"schedulingGates":[{"$patch":"delete","name":"berth.dev/quota"}]}}`
		if !strings.HasSuffix(req.URL.Path, "/pods/p") || string(body) != want {
			t.Errorf("%s: %s", req.URL.Path, body)
		}
		write(w, http.StatusOK, podObject(nil))
	})
	a := r.gates.removeGate(t.Context(), effect.RemoveGate{Op: 3, Pod: thePod, Gate: events.QuotaGate})
	if a.Result != effect.Done || a.Op != 3 {
		t.Fatalf("answer %+v", a)
	}
}

func TestConditionGoesToTheStatus(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if !strings.HasSuffix(req.URL.Path, "/pods/p/status") || !strings.Contains(string(body), `"uid":"uid"`) ||
			!strings.Contains(string(body), `"message":"100% full"`) {
			t.Errorf("%s: %s", req.URL.Path, body)
		}
		write(w, http.StatusOK, podObject(nil))
	})
	a := r.conditions.patchCondition(t.Context(), effect.PatchCondition{Pod: thePod,
		Condition: corev1.PodCondition{Type: corev1.PodScheduled, Message: "100% full"}})
	if a.Result != effect.Done || a.ResourceVersion != 7 {
		t.Fatalf("answer %+v", a)
	}
}

// denied is what a webhook answers with a code, as the API server passes it on (k8s.io/apiserver
// pkg/admission/plugin/webhook/errors ToStatusErr).
func denied(code int32, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code,
		Message: `admission webhook "w.example.com" denied the request: ` + message,
	}}
}

// budgetSpent is what the eviction API answers for a budget that allows nothing.
func budgetSpent() *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "needs 1 healthy pods and has 1 currently"})
	return err
}

// uncalled is the answer of the API server when it cannot call a webhook whose failure policy is Fail (k8s.io/apiserver
// pkg/admission/plugin/webhook/validating/dispatcher.go, pkg/util/webhook/error.go).
func uncalled(why string) *apierrors.StatusError {
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: Post %q: %s",
		"w.example.com", "https://w.ns.svc:443/?timeout=10s", why))
}

func TestEvictionOutcomes(t *testing.T) {
	grace := int64(3)
	for _, tc := range []struct {
		name        string
		err         *apierrors.StatusError
		want        effect.Result
		intercepted bool
	}{
		{"created", nil, effect.Done, false},
		{"too many requests", apierrors.NewTooManyRequests("try again later", 10), effect.Throttled, false},
		{"budget", budgetSpent(), effect.Throttled, true},
		{"two budgets", apierrors.NewInternalError(errors.New("more than one PDB")), effect.Unknown, false},
		{"conflict of a pod that is there", apierrors.NewConflict(theRes, "p", errors.New("no")), effect.Refused, false},
		{"forbidden", apierrors.NewForbidden(theRes, "p", errors.New("no")), effect.Refused, false},
		{"KubeVirt", denied(429, `Eviction triggered evacuation of VMI "ns/vm"`), effect.Throttled, true},
		{"drain cleaner", denied(500, "The pod will be rolled by the Strimzi Cluster Operator"), effect.Refused, true},
		{"policy", denied(403, "no evictions in this namespace"), effect.Refused, false},
		{"webhook without a code", denied(400, "no"), effect.Refused, false},
		{"webhook that answers not found", denied(404, "no"), effect.Refused, false},
		{"webhook that answers with a conflict", denied(409, "no"), effect.Refused, false},
		{"webhook that is overloaded", denied(503, "later"), effect.Refused, true},
		{"webhook that does not answer", uncalled("context deadline exceeded"), effect.Refused, true},
		{"webhook that cannot be reached", uncalled("connect: connection refused"), effect.Refused, true},
		{"another error", apierrors.NewInternalError(errors.New("etcdserver: leader changed")), effect.Unknown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			r := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					write(w, http.StatusOK, podObject(nil))
					return
				}
				calls.Add(1)
				checkEviction(t, req, grace)
				if tc.err != nil {
					fail(w, tc.err)
					return
				}
				write(w, http.StatusCreated, success)
			})
			a := r.evictions.evict(t.Context(), effect.Evict{
				Pod: thePod, DryRun: true, GracePeriodSeconds: &grace, Reason: "why", RequestedBy: "who",
			})
			if a.Result != tc.want || a.Intercepted != tc.intercepted || calls.Load() != 1 {
				t.Fatalf("answer %+v after %d calls, want %s (intercepted %t) after one",
					a, calls.Load(), tc.want, tc.intercepted)
			}
		})
	}
}

func checkEviction(t *testing.T, req *http.Request, grace int64) {
	body, _ := io.ReadAll(req.Body)
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	e, ok := obj.(*policyv1.Eviction)
	if err != nil || !ok || e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil {
		t.Errorf("eviction %T: %v", obj, err)
		return
	}
	o := e.DeleteOptions
	if *o.Preconditions.UID != "uid" || len(o.DryRun) != 1 || *o.GracePeriodSeconds != grace {
		t.Errorf("delete options %+v", o)
	}
	if want := map[string]string{"reason": "why", "requested-by": "who"}; !maps.Equal(e.Annotations, want) {
		t.Errorf("annotations %v, want %v", e.Annotations, want)
	}
}

func TestCut(t *testing.T) {
	for _, note := range []string{
		"", strings.Repeat("a", noteLimit), strings.Repeat("a", noteLimit+1), strings.Repeat("é", noteLimit),
	} {
		got := truncate(note)
		if len(got) > noteLimit || !utf8.ValidString(got) || len(note) <= noteLimit && got != note {
			t.Fatalf("cut of %d bytes: %d bytes, valid %v", len(note), len(got), utf8.ValidString(got))
		}
	}
}

func TestPublisherRepeatsWhatWasNotAcknowledged(t *testing.T) {
	log := memlog.New(memlog.Options{})
	p := newPublisher(log, slog.New(slog.DiscardHandler), clock.RealClock{})
	log.LoseNextAnswer(eventlog.Decisions)
	const n = eventlog.MaxBatch + 10
	for i := range n {
		p.queue <- effect.Publish{Decision: events.Decision{
			Kind: events.DecisionBound, Pod: events.PodRef{UID: fmt.Sprint("uid", i)}, Token: "0000000000000001"}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last, err := log.Last(t.Context(), eventlog.Decisions); err != nil || last < n {
		t.Fatalf("%d records (%v), want at least %d", last, err, n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A decision that the log refuses is left out, and the others are appended.
func TestARefusedDecisionIsLeftOut(t *testing.T) {
	log := memlog.New(memlog.Options{})
	log.RefuseAbove(1000)
	p := newPublisher(log, slog.New(slog.DiscardHandler), clock.RealClock{})
	for i, message := range []string{"no", strings.Repeat("x", 2000), "no", strings.Repeat("x", 2000)} {
		p.queue <- effect.Publish{Decision: events.Decision{
			Kind: events.DecisionReleased, Pod: events.PodRef{UID: fmt.Sprint("uid", i)}, Message: message}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	if err := p.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last, err := log.Last(t.Context(), eventlog.Decisions); err != nil || last != 2 {
		t.Errorf("%d records (%v), want the two that are small", last, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
