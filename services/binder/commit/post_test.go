package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	_ "github.com/berth-scheduler/berth/pkg/seedtest"
)

// tlsServer starts an API server that speaks HTTP/2 over TLS, and returns the configuration of its clients.
func tlsServer(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	return tlsServerOn(t, &countingListener{}, handle)
}

// tlsServerOn is tlsServer with a listener that counts connections.
func tlsServerOn(t *testing.T, counts *countingListener, handle http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	counts.Listener, server.Listener = server.Listener, counts
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // broken requests are meant
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server, &rest.Config{
		Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(server)},
	}
}

// bothWays returns the ways to write to one API server: through client-go alone, and as the binder does.
func bothWays(t *testing.T, config *rest.Config) (library, ours API) {
	t.Helper()
	client := func(agent string) kubernetes.Interface {
		c, err := kubernetes.NewForConfig(clientConfig(config, agent, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ours, err := Connect(config, 0, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	writes := client("berth-binder")
	return API{
		writes, libraryBinder{writes.CoreV1()}, &events.EventSinkImpl{Interface: client("berth-events").EventsV1()},
	}, ours
}

// sent is a request as the API server gets it.
type sent struct {
	Method, URI, Proto string
	Header             http.Header
	Length             int64
	Body               []byte
}

func aBinding(name string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "uid", ResourceVersion: "7",
			Annotations: map[string]string{"berth.dev/attempt": "0000000000000009"},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
}

func anEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, EventTime: metav1.NewMicroTime(time.Unix(7, 8000)),
		ReportingController: "berth", ReportingInstance: "berth-host", Action: "Binding", Reason: "Scheduled",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: name, UID: "uid"},
		Note:      "Successfully assigned ns/p to n", Type: "Normal",
	}
}

// The API server gets the same requests as from client-go: path, header and every byte of the body.
func TestPosterSendsWhatTheLibraryWould(t *testing.T) {
	var mu sync.Mutex
	var got []sent
	_, config := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, sent{r.Method, r.RequestURI, r.Proto, r.Header, r.ContentLength, body})
		if strings.HasSuffix(r.URL.Path, "/events") {
			kind := metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"}
			write(w, http.StatusCreated, &eventsv1.Event{TypeMeta: kind})
			return
		}
		write(w, http.StatusCreated, success)
	})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("from-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*rest.Config){
		"plain":        func(*rest.Config) {},
		"below a path": func(c *rest.Config) { c.Host += "/clusters/one/" },
		"token":        func(c *rest.Config) { c.BearerToken = "secret" },
		"token file":   func(c *rest.Config) { c.BearerTokenFile = token },
		"as another": func(c *rest.Config) {
			c.Impersonate = rest.ImpersonationConfig{UserName: "u", Groups: []string{"g"}}
		},
		"password": func(c *rest.Config) { c.Username, c.Password = "u", "p" },
		"own user agent, type and limit": func(c *rest.Config) {
			c.UserAgent, c.ContentType, c.QPS = "mine", runtime.ContentTypeJSON, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := rest.CopyConfig(config)
			change(changed)
			library, ours := bothWays(t, changed)
			mu.Lock()
			got = nil
			mu.Unlock()
			for _, api := range []API{library, ours} {
				for _, name := range []string{"p", "name.with-dots.0"} {
					if err := api.binds.Bind(t.Context(), aBinding(name)); err != nil {
						t.Fatal(err)
					}
					if _, err := api.reports.Create(t.Context(), anEvent(name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(got[:4], got[4:]); diff != "" || got[0].Proto != "HTTP/2.0" {
				t.Errorf("over %s (-library +ours):\n%s", got[0].Proto, diff)
			}
		})
	}
}

// Every object is encoded as by client-go's serializer.
func TestEncodedAsByTheLibrary(t *testing.T) {
	text := rapid.StringN(0, 40, 200)
	long := rapid.SampledFrom([]int{0, 1, 127, 128, 129, 1024, 16_384})
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	rapid.Check(t, func(t *rapid.T) {
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"), UID: types.UID(text.Draw(t, "uid")),
				Annotations: rapid.MapOfN(text, text, 0, 3).Draw(t, "annotations"),
			},
			Target: corev1.ObjectReference{Kind: "Node", Name: text.Draw(t, "node")},
		}
		event := anEvent(text.Draw(t, "event"))
		event.Note = strings.Repeat("x", long.Draw(t, "note"))
		for _, c := range []struct {
			kind   string
			poster poster
			object encodable
		}{
			{"Binding", poster{version: corev1.SchemeGroupVersion}, binding},
			{"Event", poster{version: eventsv1.SchemeGroupVersion}, event},
		} {
			ours, err := c.poster.encode(c.kind, c.object)
			if err != nil {
				t.Fatal(err)
			}
			encoder := scheme.Codecs.EncoderForVersion(info.Serializer, c.poster.version)
			library, err := runtime.Encode(encoder, c.object.(runtime.Object))
			if err != nil || !bytes.Equal(library, ours) {
				t.Errorf("%s: %v\nlibrary %q\nours    %q", c.kind, err, library, ours)
			}
		}
	})
}

// answers of an API server, or of a proxy in front of it, by name.
func answersOfServers() map[string]http.HandlerFunc {
	fails := func(err *apierrors.StatusError) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fail(w, err) }
	}
	text := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	return map[string]http.HandlerFunc{
		"conflict":         fails(apierrors.NewConflict(theRes, "p", errors.New("moved"))),
		"not found":        fails(apierrors.NewNotFound(theRes, "p")),
		"exists":           fails(apierrors.NewAlreadyExists(theRes, "p")),
		"forbidden":        fails(apierrors.NewForbidden(theRes, "p", errors.New("no"))),
		"unauthorized":     fails(apierrors.NewUnauthorized("who")),
		"throttled":        fails(apierrors.NewTooManyRequests("later", 7)),
		"internal":         fails(apierrors.NewInternalError(errors.New("etcdserver: request is too large"))),
		"timeout":          fails(apierrors.NewTimeoutError("slow", 3)),
		"unavailable":      fails(apierrors.NewServiceUnavailable("starting")),
		"gateway, text":    text(http.StatusBadGateway, "text/plain; charset=utf-8", "no upstream\n"),
		"gateway, page":    text(http.StatusGatewayTimeout, "text/html", "<html>"+strings.Repeat("x", 5000)),
		"no content type":  text(http.StatusTooManyRequests, "", ""),
		"unknown type":     text(http.StatusInternalServerError, "image/png", "x"),
		"wrong type":       text(http.StatusInternalServerError, ";", "x"),
		"not JSON":         text(http.StatusConflict, runtime.ContentTypeJSON, "{"),
		"not protobuf":     text(http.StatusConflict, runtime.ContentTypeProtobuf, "k8s\x00garbage"),
		"unsupported type": text(http.StatusUnsupportedMediaType, "text/plain", "no protobuf here"),
		"accepted": text(http.StatusAccepted, runtime.ContentTypeJSON,
			`{"kind":"Status","apiVersion":"v1","status":"Success"}`),
		"not modified": text(http.StatusNotModified, "", ""),
		"moved": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				_, _ = io.Copy(io.Discard, r.Body)
				fail(w, apierrors.NewConflict(theRes, "p", errors.New("at the other place")))
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"broken in the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"broken in the body of an error": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"broken before the header": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
}

// Whatever comes back, the error is client-go's: its text, its status, and what it wraps.
func TestPosterReadsAnswersAsTheLibraryDoes(t *testing.T) {
	var handle atomic.Pointer[http.HandlerFunc]
	var requests atomic.Int32
	_, config := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		(*handle.Load())(w, r)
	})
	library, ours := bothWays(t, config)
	for name, answer := range answersOfServers() {
		t.Run(name, func(t *testing.T) {
			handle.Store(&answer)
			var problems [2][2]string
			var count [2]int32
			for i, api := range []API{library, ours} {
				requests.Store(0)
				bind := api.binds.Bind(t.Context(), aBinding("p"))
				_, event := api.reports.Create(t.Context(), anEvent("p"))
				problems[i] = [2]string{describe(bind), describe(event)}
				count[i] = requests.Load()
			}
			if diff := cmp.Diff(problems[0], problems[1]); diff != "" || count[0] != count[1] {
				t.Errorf("%d requests, the library sends %d; errors (-library +ours):\n%s", count[1], count[0], diff)
			}
		})
	}
}

// streamID is the number of a request on its connection, in errors of HTTP/2.
var streamID = regexp.MustCompile(`stream ID \d+`)

// describe returns all that callers look at in an error.
func describe(err error) string {
	if err == nil {
		return "none"
	}
	text := streamID.ReplaceAllString(fmt.Sprintf("%T %v", err, err), "stream")
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		text += fmt.Sprintf(" %+v", status.Status())
	}
	return text
}

// A connection that is refused, and a request that takes too long, are the library's errors as well.
func TestNoAnswerIsTheLibrarysError(t *testing.T) {
	hang := make(chan struct{})
	_, config := tlsServer(t, func(http.ResponseWriter, *http.Request) { <-hang })
	library, ours := bothWays(t, config)
	for _, api := range []API{library, ours} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := api.binds.Bind(ctx, aBinding("p")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the time is over", err)
		}
		cancel()
	}
	close(hang)
	nobody, config := tlsServer(t, nil)
	nobody.Close()
	library, ours = bothWays(t, config)
	problems := [2]string{}
	for i, api := range []API{library, ours} {
		problems[i] = describe(api.binds.Bind(t.Context(), aBinding("p")))
	}
	if problems[0] != problems[1] || !strings.Contains(problems[0], "refused") {
		t.Errorf("library: %s\nours: %s", problems[0], problems[1])
	}
}

// Warnings of the API server reach client-go's handler, which logs them.
func TestWarningsOfBindsAreHandled(t *testing.T) {
	_, config := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "a policy does not like it"`)
		write(w, http.StatusCreated, success)
	})
	warnings := &warnings{}
	config.WarningHandler = warnings
	library, ours := bothWays(t, config)
	for _, api := range []API{library, ours} {
		if err := api.binds.Bind(t.Context(), aBinding("p")); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"a policy does not like it", "a policy does not like it"}, warnings.texts); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Binds share one limit with all other writes, and events have their own.
func TestRatesAreLimitedByClient(t *testing.T) {
	var requests atomic.Int32
	_, config := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method == http.MethodGet {
			write(w, http.StatusOK, podObject(nil))
			return
		}
		write(w, http.StatusCreated, success)
	})
	const burst = 3
	api, err := Connect(config, 0.001, burst, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := api.writes.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range burst - 1 {
		if err := api.binds.Bind(ctx, aBinding("p")); err != nil {
			t.Fatal(err)
		}
	}
	for range burst {
		_, _ = api.reports.Create(ctx, anEvent("p"))
	}
	bind := api.binds.Bind(ctx, aBinding("p"))
	_, event := api.reports.Create(ctx, anEvent("p"))
	for _, err := range []error{bind, event} {
		if err == nil || !strings.Contains(err.Error(), "client rate limiter Wait returned an error") {
			t.Errorf("%v, want that the limiter refuses", err)
		}
	}
	if n := requests.Load(); n != 2*burst {
		t.Errorf("%d requests, want %d", n, 2*burst)
	}
}
