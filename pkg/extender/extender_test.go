package extender_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an extender over HTTP that has an answer for each path and records its calls.
type server struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		calls []string
	}
}

// serve starts a server whose answers are JSON; an error becomes status 500.
func serve(t *testing.T, answers map[string]func(args extenderv1.ExtenderArgs) (any, error)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s.handler(t, answers))
	t.Cleanup(s.Close)
	return s
}

func (s *server) handler(
	t *testing.T, answers map[string]func(args extenderv1.ExtenderArgs) (any, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		s.mu.Lock()
		s.mu.calls = append(s.mu.calls, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+namesIn(args))
		s.mu.Unlock()
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		body, err := answer(args)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	})
}

func (s *server) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.calls)
}

// namesIn returns the nodes of a question, prefixed by the form in which they were sent.
func namesIn(args extenderv1.ExtenderArgs) string {
	if args.NodeNames != nil {
		return "names " + strings.Join(*args.NodeNames, ",")
	}
	var names []string
	if args.Nodes != nil {
		for _, n := range args.Nodes.Items {
			names = append(names, n.Name)
		}
	}
	return "nodes " + strings.Join(names, ",")
}

func node(name string) *state.Node {
	return &state.Node{Name: name, UID: "uid-" + name, Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

func nodes(names ...string) []*state.Node {
	list := make([]*state.Node, len(names))
	for i, name := range names {
		list[i] = node(name)
	}
	return list
}

func pod(resourceName corev1.ResourceName) *state.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", UID: types.UID("pod-uid"), ResourceVersion: "7",
	}}
	c := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "KEPT", Value: "1"}}}
	if resourceName != "" {
		c.Resources.Limits = corev1.ResourceList{resourceName: resource.MustParse("1")}
	}
	p.Spec.Containers = []corev1.Container{c}
	return state.NewPod(p)
}

func newSet(t *testing.T, list ...configv1.Extender) *extender.Set {
	t.Helper()
	set, err := extender.NewSet(list, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// answer returns an answer that does not depend on the question.
func answer(body any) func(extenderv1.ExtenderArgs) (any, error) {
	return func(extenderv1.ExtenderArgs) (any, error) { return body, nil }
}

func failure(extenderv1.ExtenderArgs) (any, error) { return nil, errors.New("no") }

// TestConsult checks that filters are called one after the other with the remaining nodes, ignorable ones last, and
// that prioritizers see the nodes that all have left, and their points add up.
func TestConsult(t *testing.T) {
	s := serve(t, map[string]func(extenderv1.ExtenderArgs) (any, error){
		"first": answer(extenderv1.ExtenderFilterResult{
			NodeNames: &[]string{"a", "b", "c"}, FailedNodes: extenderv1.FailedNodesMap{"d": "busy"},
			FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"e": "never"},
		}),
		"second": func(args extenderv1.ExtenderArgs) (any, error) {
			return extenderv1.ExtenderFilterResult{
				Nodes:       &corev1.NodeList{Items: args.Nodes.Items[:2]},
				FailedNodes: extenderv1.FailedNodesMap{"c": "too far"},
			}, nil
		},
		"third": failure,
		"score": answer(extenderv1.HostPriorityList{{Host: "a", Score: 3}, {Host: "b", Score: 10}, {Host: "x", Score: 9}}),
		"more":  answer(extenderv1.HostPriorityList{{Host: "a", Score: 1}, {Host: "d", Score: 9}}),
		"bad":   failure,
	})
	s.Start()
	set := newSet(t,
		configv1.Extender{URLPrefix: s.URL + "/", FilterVerb: "third", PrioritizeVerb: "bad", Weight: 9, Ignorable: true},
		configv1.Extender{URLPrefix: s.URL, FilterVerb: "first", NodeCacheCapable: true},
		configv1.Extender{URLPrefix: s.URL, FilterVerb: "second", PrioritizeVerb: "score", Weight: 2},
		configv1.Extender{URLPrefix: s.URL, PrioritizeVerb: "more", Weight: 1, NodeCacheCapable: true},
		configv1.Extender{URLPrefix: s.URL, FilterVerb: "never-asked", ManagedResources: []configv1.ExtenderManagedResource{
			{Name: "example.com/other"},
		}},
	)
	got, err := set.Consult(t.Context(), pod("example.com/gpu"), nodes("e", "d", "c", "b", "a", "f"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]placement.Opinion{
		"a": {Points: 2*3*10 + 10}, "b": {Points: 2 * 10 * 10},
		"c": {Rejected: true, Reasons: []string{"too far"}}, "d": {Rejected: true, Reasons: []string{"busy"}},
		"e": {Rejected: true, Unresolvable: true, Reasons: []string{"never"}}, "f": {Rejected: true, Unresolvable: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("opinions (-want +got):\n%s", diff)
	}
	calls := s.calls()
	slices.Sort(calls[3:]) // prioritizers are called concurrently
	wantCalls := []string{
		"POST /first application/json names a,b,c,d,e,f",
		"POST /second application/json nodes a,b,c",
		"POST /third application/json nodes a,b",
		"POST /bad application/json nodes a,b",
		"POST /more application/json names a,b",
		"POST /score application/json nodes a,b",
	}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestOneNodeIsNotScored checks that a single remaining node is not scored.
func TestOneNodeIsNotScored(t *testing.T) {
	s := serve(t, map[string]func(extenderv1.ExtenderArgs) (any, error){})
	s.Start()
	set := newSet(t, configv1.Extender{URLPrefix: s.URL, PrioritizeVerb: "score", Weight: 1})
	got, err := set.Consult(t.Context(), pod(""), nodes("a"))
	if diff := cmp.Diff(map[string]placement.Opinion{"a": {}}, got); err != nil || diff != "" || len(s.calls()) > 0 {
		t.Fatalf("%v, calls %v, opinions (-want +got):\n%s", err, s.calls(), diff)
	}
}

func TestConsultFails(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(extenderv1.ExtenderArgs) (any, error)
		want   string
	}{
		"status": {failure, "failed filter with extender at URL"},
		"error":  {answer(extenderv1.ExtenderFilterResult{Error: "out of luck"}), "out of luck"},
		"stranger": {
			answer(extenderv1.ExtenderFilterResult{NodeNames: &[]string{"z"}}),
			`claims a filtered node "z" which is not found in the input node list`,
		},
		"no JSON": {answer("text"), "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string]func(extenderv1.ExtenderArgs) (any, error){"filter": tc.answer})
			s.Start()
			e := configv1.Extender{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true}
			_, err := newSet(t, e).Consult(t.Context(), pod(""), nodes("a"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q in it", err, tc.want)
			}
			e.Ignorable = true
			got, err := newSet(t, e).Consult(t.Context(), pod(""), nodes("a"))
			if diff := cmp.Diff(map[string]placement.Opinion{"a": {}}, got); err != nil || diff != "" {
				t.Fatalf("ignorable: %v, opinions (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	e := configv1.Extender{URLPrefix: s.URL, FilterVerb: "filter"}
	e.HTTPTimeout.Duration = 20 * time.Millisecond
	_, err := newSet(t, e).Consult(t.Context(), pod(""), nodes("a"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want a time-out", err)
	}
}

func TestBind(t *testing.T) {
	body := make(chan string, 1)
	result := extenderv1.ExtenderBindingResult{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderBindingArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		body <- fmt.Sprint(args)
		_ = json.NewEncoder(w).Encode(result)
	}))
	t.Cleanup(s.Close)
	e := configv1.Extender{
		URLPrefix: s.URL, BindVerb: "bind",
		ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}},
	}
	set, p := newSet(t, e), pod("example.com/gpu")
	if set.BindsPod(pod("")) || !set.BindsPod(p) || !set.Binds() {
		t.Fatal("it binds what it manages, and nothing else")
	}
	if asked, err := set.Bind(t.Context(), p, "n"); !asked || err != nil {
		t.Fatal(asked, err)
	}
	if got, want := <-body, "{p ns pod-uid n}"; got != want {
		t.Fatalf("asked %s, want %s", got, want)
	}
	result.Error = "not today"
	asked, err := set.Bind(t.Context(), p, "n")
	var refused *extender.RefusedError
	if !asked || !errors.As(err, &refused) || refused.Message != "not today" {
		t.Fatal(asked, err)
	}
	<-body
	e.Ignorable = true
	if asked, err := newSet(t, e).Bind(t.Context(), p, "n"); asked || err != nil {
		t.Fatal(asked, err)
	}
	<-body
}

// TestTLS checks that the server's certificate is verified with a CA, and is not with HTTPS without one, as in
// kube-scheduler.
func TestTLS(t *testing.T) {
	s := serve(t, map[string]func(extenderv1.ExtenderArgs) (any, error){
		"filter": answer(extenderv1.ExtenderFilterResult{NodeNames: &[]string{"a"}}),
	})
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	consult := func(change func(*configv1.Extender)) error {
		e := configv1.Extender{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true}
		change(&e)
		_, err := newSet(t, e).Consult(t.Context(), pod(""), nodes("a"))
		return err
	}
	for name, change := range map[string]func(*configv1.Extender){
		"CA":       func(e *configv1.Extender) { e.TLSConfig = &configv1.ExtenderTLSConfig{CAData: ca} },
		"insecure": func(e *configv1.Extender) { e.TLSConfig = &configv1.ExtenderTLSConfig{Insecure: true} },
		"no CA":    func(e *configv1.Extender) { e.EnableHTTPS = true },
	} {
		if err := consult(change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*configv1.Extender){
		"default": func(*configv1.Extender) {},
		"another name": func(e *configv1.Extender) {
			e.TLSConfig = &configv1.ExtenderTLSConfig{CAData: ca, ServerName: "elsewhere"}
		},
	} {
		if err := consult(change); err == nil {
			t.Errorf("%s: no error, want one about the certificate", name)
		}
	}
}

func TestTLSMistakes(t *testing.T) {
	for name, c := range map[string]configv1.ExtenderTLSConfig{
		"tlsConfig.caFile: open":                  {CAFile: "missing.pem"},
		"no certificate found":                    {CAData: []byte("text")},
		"only one of certificate and key":         {CertData: []byte("text")},
		"tlsConfig.certFile and keyFile":          {CertData: []byte("text"), KeyData: []byte("text")},
		"tlsConfig.insecure: true with a CA":      {Insecure: true, CAData: []byte("text")},
		"tlsConfig.keyFile: open nowhere/key.pem": {CertData: []byte("text"), KeyFile: "nowhere/key.pem"},
	} {
		_, err := extender.NewClient(configv1.Extender{URLPrefix: "https://x", TLSConfig: &c})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q in it", err, name)
		}
	}
}

// TestPasswordsAreNotShown checks that the password in an extender's address stays out of every error, including
// those that end up in a pod's condition and in the log.
func TestPasswordsAreNotShown(t *testing.T) {
	const password = "hunter2"
	s := serve(t, map[string]func(extenderv1.ExtenderArgs) (any, error){
		"filter": answer(extenderv1.ExtenderFilterResult{NodeNames: &[]string{"elsewhere"}}),
	})
	s.Start()
	host := strings.TrimPrefix(s.URL, "http://")
	for name, c := range map[string]struct{ address, verb, want string }{
		"not there":        {"http://berth:" + password + "@127.0.0.1:1", "filter", "connection refused"},
		"another status":   {"http://berth:" + password + "@" + host, "missing", "http://berth:xxxxx@" + host + "/missing"},
		"a foolish answer": {"http://berth:" + password + "@" + host, "filter", "claims a filtered node"},
		"not an address":   {"http://berth:" + password + " @" + host, "filter", "extender (not a URL)"},
	} {
		e := configv1.Extender{URLPrefix: c.address, FilterVerb: c.verb, NodeCacheCapable: true}
		_, err := newSet(t, e).Consult(t.Context(), pod(""), nodes("a"))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v, want %q in it and no password", name, err, c.want)
		}
	}
}
