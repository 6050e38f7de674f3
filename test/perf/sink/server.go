package sink

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// mostBody is the largest request that is read, in bytes: a binding or an event.
	mostBody = 1 << 20
	// clusterUID is the identity of every such cluster.
	clusterUID = "5f0c0c3e-0000-4000-8000-00000000beef"
)

// kubeconfig wants the server's URL and its certificate.
const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: sink
  cluster: {server: %q, certificate-authority-data: %q}
contexts:
- name: sink
  context: {cluster: sink, user: nobody}
current-context: sink
users:
- name: nobody
  user: {}
`

// Server is the stand-in. All methods are safe for concurrent use.
type Server struct {
	http   *httptest.Server
	encode codec
	// events counts the events posted to events.k8s.io.
	events atomic.Int64

	mu struct {
		sync.Mutex
		version uint64
		pods    map[types.NamespacedName]*corev1.Pod
		nodes   []*corev1.Node
		bound   int
		last    time.Time
		wanted  int
		all     chan struct{}
		strange map[string]int
	}
	// changes are the events that watches send, by resource.
	pods, nodes *history
}

// Start serves on a free port of the loopback interface, as API servers do: TLS and HTTP/2. Close it.
func Start() (*Server, error) {
	encode, err := newCodec()
	if err != nil {
		return nil, err
	}
	s := &Server{encode: encode, pods: newHistory(), nodes: newHistory()}
	s.mu.version = 1
	s.mu.pods = map[types.NamespacedName]*corev1.Pod{}
	s.mu.strange = map[string]int{}
	s.mu.all = make(chan struct{})
	s.http = httptest.NewUnstartedServer(s.routes())
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	return s, nil
}

// Close ends all watches and stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Kubeconfig is a file that leads here.
func (s *Server) Kubeconfig() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return fmt.Appendf(nil, kubeconfig, s.http.URL, base64.StdEncoding.EncodeToString(ca))
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		s.read(w, r, s.pods, s.listPods)
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		s.read(w, r, s.nodes, s.listNodes)
	})
	mux.HandleFunc("GET /api/v1/namespaces/{name}", s.namespace)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", s.pod)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/binding", s.bind)
	mux.HandleFunc("PATCH /api/v1/namespaces/{namespace}/pods/{name}/status", s.patch)
	mux.HandleFunc("POST /apis/events.k8s.io/v1/namespaces/{namespace}/events", s.event)
	mux.HandleFunc("GET /apis/{group}/{version}", s.resources)
	mux.HandleFunc("GET /version", s.ofVersion)
	mux.HandleFunc("GET /metrics", func(http.ResponseWriter, *http.Request) {}) // no metrics: all gates are the default
	mux.HandleFunc("GET /", s.nothing)
	mux.HandleFunc("/", s.stranger)
	return mux
}

// AddNodes adds nodes, which become the server's.
func (s *Server) AddNodes(nodes []*corev1.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		s.stamp(n)
		frame, err := s.encode.frame("ADDED", n)
		if err != nil {
			return err
		}
		s.mu.nodes = append(s.mu.nodes, n)
		s.nodes.add(s.mu.version, frame)
	}
	return nil
}

// AddPods adds pods, which become the server's, and reports when all unbound ones have been bound.
func (s *Server) AddPods(pods []*corev1.Pod) (bound <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.bound == s.mu.wanted {
		s.mu.all = make(chan struct{})
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			s.mu.wanted++
		}
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		s.stamp(p)
		frame, err := s.encode.frame("ADDED", p)
		if err != nil {
			return nil, err
		}
		s.mu.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
		s.pods.add(s.mu.version, frame)
	}
	return s.mu.all, nil
}

// stamp gives an object what the API server would. The caller holds mu.
func (s *Server) stamp(o metav1.Object) {
	s.mu.version++
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("5f0c0c3e-0000-4000-8000-%012x", s.mu.version)))
		o.SetCreationTimestamp(metav1.Now())
	}
	o.SetResourceVersion(strconv.FormatUint(s.mu.version, 10))
}

// Bound is how many pods are bound, and when the last of them was.
func (s *Server) Bound() (pods int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.bound, s.mu.last
}

// Events is how many events were taken.
func (s *Server) Events() int { return int(s.events.Load()) }

// Strange counts the requests that the stand-in does not support, by request.
func (s *Server) Strange() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for what, n := range s.mu.strange {
		out[what] = n
	}
	return out
}

// Objects are all nodes and pods in their present state.
func (s *Server) Objects() (nodes []corev1.Node, pods []corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.mu.nodes {
		nodes = append(nodes, *n)
	}
	for _, p := range s.mu.pods {
		pods = append(pods, *p)
	}
	return nodes, pods
}

// bind is the subresource of a pod.
func (s *Server) bind(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	binding := &corev1.Binding{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, binding); err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if code, message := s.place(key, binding); code != http.StatusCreated {
		s.fail(w, code, message)
		return
	}
	s.answer(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusSuccess})
}

// place binds a pod, unless it is bound or another.
func (s *Server) place(key types.NamespacedName, b *corev1.Binding) (code int, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.mu.pods[key]
	switch {
	case !ok:
		return http.StatusNotFound, fmt.Sprintf("pods %q not found", key.Name)
	case b.UID != "" && b.UID != old.UID:
		return http.StatusConflict, fmt.Sprintf("pod %s has UID %s, not %s", key, old.UID, b.UID)
	case old.Spec.NodeName != "":
		return http.StatusConflict, fmt.Sprintf("pod %s is already assigned to node %q", key, old.Spec.NodeName)
	}
	pod := *old // the parts not written below stay shared: they are never changed
	pod.Spec.NodeName = b.Target.Name
	pod.Status.Conditions = append(slices.Clip(old.Status.Conditions), corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	s.stamp(&pod)
	frame, err := s.encode.frame("MODIFIED", &pod)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	s.mu.pods[key] = &pod
	s.pods.add(s.mu.version, frame)
	s.mu.last = time.Now()
	if s.mu.bound++; s.mu.bound == s.mu.wanted {
		close(s.mu.all)
	}
	return http.StatusCreated, ""
}

// event takes an event and gives it back.
func (s *Server) event(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.events.Add(1)
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body) // a client that is gone does not matter
}

// pod returns the present state of one pod: a client without an answer to a bind asks for it.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	s.mu.Lock()
	p, known := s.mu.pods[key]
	s.mu.Unlock()
	if !known {
		s.fail(w, http.StatusNotFound, fmt.Sprintf("pods %q not found", key.Name))
		return
	}
	s.answer(w, http.StatusOK, p)
}

func (s *Server) namespace(w http.ResponseWriter, r *http.Request) {
	s.answer(w, http.StatusOK, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: r.PathValue("name"), UID: clusterUID, ResourceVersion: "1"}})
}

// ofVersion reports that the server is Kubernetes 1.36.
func (s *Server) ofVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`) // no client, no answer
}

// stranger answers an unsupported request, and notes it.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.mu.strange[r.Method+" "+r.URL.Path]++
	s.mu.Unlock()
	s.fail(w, http.StatusNotFound, "not served here: "+r.Method+" "+r.URL.Path)
}

func (s *Server) fail(w http.ResponseWriter, code int, message string) {
	reason := map[int]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid}[code]
	s.answer(w, code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message})
}

func (s *Server) answer(w http.ResponseWriter, code int, o runtime.Object) {
	body, err := s.encode.object(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that is gone does not matter
}
