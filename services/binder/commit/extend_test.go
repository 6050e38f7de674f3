package commit

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Whatever an extender answers, the pod shows the outcome.
func TestAnExtenderBinds(t *testing.T) {
	type call struct {
		node   string // where the extender binds the pod; empty for nowhere
		answer string // its error
		status int
	}
	for name, tc := range map[string]struct {
		call      call
		before    func(*corev1.Pod)
		ignorable bool
		want      effect.Result
		calls     int
	}{
		"bound":                       {call: call{node: "n"}, want: effect.Done, calls: 1},
		"bound, and says it is not":   {call: call{node: "n", answer: "conflict"}, want: effect.Done, calls: 1},
		"says bound, and is not":      {want: effect.Unknown, calls: 1},
		"refused":                     {call: call{answer: "no GPU left"}, want: effect.Refused, calls: 1},
		"refused by status":           {call: call{status: http.StatusInternalServerError}, want: effect.Refused, calls: 1},
		"bound elsewhere":             {call: call{node: "m"}, want: effect.Elsewhere, calls: 1},
		"ignored, so the binder does": {call: call{answer: "no"}, ignorable: true, want: effect.Done, calls: 1},
		"changed before":              {before: func(p *corev1.Pod) { p.ResourceVersion = "8" }, want: effect.Conflict},
		"here before":                 {before: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, want: effect.AlreadyHere},
		"elsewhere before":            {before: func(p *corev1.Pod) { p.Spec.NodeName = "m" }, want: effect.Elsewhere},
		"another of that name":        {before: func(p *corev1.Pod) { p.UID = "other" }, want: effect.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			p := podObject(tc.before)
			client, calls := fake.NewClientset(p), 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				var args extenderv1.ExtenderBindingArgs
				if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.Node != "n" || args.PodUID != types.UID("uid") {
					t.Errorf("asked %+v (%v)", args, err)
				}
				if tc.call.node != "" {
					bound := p.DeepCopy()
					bound.Spec.NodeName = tc.call.node
					if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), bound, "ns"); err != nil {
						t.Error(err)
					}
				}
				if tc.call.status != 0 {
					w.WriteHeader(tc.call.status)
				}
				_ = json.NewEncoder(w).Encode(extenderv1.ExtenderBindingResult{Error: tc.call.answer})
			}))
			t.Cleanup(server.Close)
			set, err := extender.NewSet([]configv1.Extender{
				{URLPrefix: server.URL, BindVerb: "bind", Ignorable: tc.ignorable},
			}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(set.Close)
			r := New(1, Deps{
				API: APIOf(client), Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
				Extenders: map[string]*extender.Set{"s": set},
			})
			got := r.bindings.bind(t.Context(), effect.Bind{
				Op: 3, Pod: thePod, NodeName: "n", SchedulerName: "s", ResourceVersion: 7,
			})
			if got.Result != tc.want || got.Op != 3 || calls != tc.calls {
				t.Fatalf("%s (%s) after %d calls, want %s after %d", got.Result, got.Problem, calls, tc.want, tc.calls)
			}
		})
	}
}

// Pods of profiles without extenders, and those that the binding extender does not handle, are bound as usual.
func TestExtendersLeavePodsToTheBinder(t *testing.T) {
	set, err := extender.NewSet([]configv1.Extender{{
		URLPrefix: "http://127.0.0.1:1", BindVerb: "bind",
		ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}},
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, scheduler := range []string{"s", "another"} {
		client := fake.NewClientset(podObject(nil))
		r := New(1, Deps{
			API: APIOf(client), Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
			Extenders: map[string]*extender.Set{"s": set},
		})
		e := effect.Bind{Pod: thePod, NodeName: "n", SchedulerName: scheduler, ResourceVersion: 7}
		if got := r.bindings.bind(context.Background(), e); got.Result != effect.Done {
			t.Fatalf("%s: %s (%s), want the pod bound", scheduler, got.Result, got.Problem)
		}
		if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
