package commit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"
)

// binder posts Bindings. Its errors are those of client-go.
type binder interface {
	Bind(ctx context.Context, binding *corev1.Binding) error
}

// libraryBinder is the binder of client-go.
type libraryBinder struct{ pods corev1client.PodsGetter }

// Bind implements binder.
func (b libraryBinder) Bind(ctx context.Context, binding *corev1.Binding) error {
	return b.pods.Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// poster posts objects of one version of the API to the API server, for less than a client of client-go does: two of
// three requests of a binder are Bindings and events. The URL up to the namespace and the header are made once, objects
// are encoded without reflection, and the answer to a request that succeeded is not decoded.
//
// Everything else is client-go's. The transports are (TLS, credentials and their renewal, proxies, traces), and so is
// the reading of every answer but the plain success: a client of the library gets the answer as if it had sent the
// request (see read). Requests are not repeated, as the library's are not (see transport).
type poster struct {
	// config is what the library reads answers with.
	config  *rest.Config
	version schema.GroupVersion
	base    url.URL
	header  http.Header
	limiter flowcontrol.RateLimiter
	lines   *connections
}

// newPoster returns a poster to one version of the API, below a path such as "/api".
func newPoster(config *rest.Config, root string, version schema.GroupVersion, lines *connections) (*poster, error) {
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = root, &version
	base, versioned, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	base.Path = path.Join("/", base.Path, versioned)
	limiter := config.RateLimiter
	if limiter == nil {
		limiter = flowcontrol.NewFakeAlwaysRateLimiter()
	}
	// The request has had its turn when its answer is read.
	c.RateLimiter, c.QPS = nil, -1
	return &poster{
		config: c, version: version, base: *base, limiter: limiter, lines: lines,
		header: http.Header{
			"Accept":       {c.AcceptContentTypes},
			"Content-Type": {c.ContentType},
			"User-Agent":   {c.UserAgent},
		},
	}, nil
}

// encodable is an object with the generated code of protobuf.
type encodable interface {
	runtime.ProtobufMarshaller
	runtime.ProtobufReverseMarshaller
	Size() int
}

// protobufPrefix is before each object, as k8s.io/apimachinery/pkg/runtime/serializer/protobuf writes it.
var protobufPrefix = []byte{'k', '8', 's', 0}

// encode returns what client-go's protobuf serializer writes for an object.
func (p *poster) encode(kind string, object encodable) ([]byte, error) {
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: p.version.String(), Kind: kind}}
	size := object.Size()
	// maxTag bounds the tag and the length of the object within its envelope.
	const maxTag = 11
	out := make([]byte, len(protobufPrefix)+envelope.Size()+maxTag+size)
	n := copy(out, protobufPrefix)
	written, err := envelope.NestedMarshalTo(out[n:], object, uint64(size))
	if err != nil {
		return nil, fmt.Errorf("binder: encode %s: %w", kind, err)
	}
	return out[:n+written], nil
}

// payload is a request's body; net/http copies the reader of a request that it sends again on another connection.
type payload struct{ bytes.Reader }

// Close implements io.Closer.
func (*payload) Close() error { return nil }

func newPayload(data []byte) io.ReadCloser {
	p := &payload{}
	p.Reset(data)
	return p
}

// post sends one object to a path below the version. It returns nil if the API server has created it, and another
// answer unread: the caller closes it. An error means that there was no answer.
func (p *poster) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	begin := time.Now()
	if err := p.limiter.Wait(ctx); err != nil {
		return nil, fmt.Errorf("client rate limiter Wait returned an error: %w", err)
	}
	metrics.RateLimiterLatency.Observe(ctx, http.MethodPost, p.base, time.Since(begin))
	begin = time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", nil)
	if err != nil {
		return nil, err
	}
	*req.URL = p.base
	req.URL.Path += path
	req.Host, req.Header = p.base.Host, p.header
	req.ContentLength = int64(len(body))
	req.Body = newPayload(body)
	req.GetBody = func() (io.ReadCloser, error) { return newPayload(body), nil }
	res, err := p.lines.RoundTrip(req)
	if err != nil {
		p.observe(ctx, "<error>", len(body), time.Since(begin))
		return nil, &url.Error{Op: "Post", URL: req.URL.String(), Err: err} // as http.Client has it
	}
	// What the library reads below, it also observes.
	if res.StatusCode != http.StatusCreated || len(res.Header["Warning"]) > 0 {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	// A body that is not read to its end would have the stream reset.
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		res.Body = io.NopCloser(broken{err})
		return res, nil
	}
	p.observe(ctx, created, len(body), time.Since(begin))
	return nil, nil
}

// created is the code of a plain success.
var created = strconv.Itoa(http.StatusCreated)

// observe records a request that the library does not see in its metrics, as rest.Request does.
func (p *poster) observe(ctx context.Context, code string, size int, took time.Duration) {
	metrics.RequestResult.Increment(ctx, code, http.MethodPost, p.base.Host)
	metrics.RequestLatency.Observe(ctx, http.MethodPost, p.base, took)
	metrics.RequestSize.Observe(ctx, http.MethodPost, p.base.Host, float64(size))
}

// broken is the rest of a body that ends with an error.
type broken struct{ err error }

// Read implements io.Reader.
func (b broken) Read([]byte) (int, error) { return 0, b.err }

// read returns a client of HTTP for one request that has been answered already. A redirect is followed.
func (p *poster) read(res *http.Response) *http.Client {
	return &http.Client{Transport: &answered{answer: res, next: p.lines}}
}

// answered answers the first request with a given response, and sends others. One goroutine uses it.
type answered struct {
	answer *http.Response
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *answered) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.answer == nil {
		return a.next.RoundTrip(req)
	}
	res := a.answer
	a.answer = nil
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return res, nil
}

// Bind implements binder. The poster's version is v1.
func (p *poster) Bind(ctx context.Context, binding *corev1.Binding) error {
	body, err := p.encode("Binding", binding)
	if err != nil {
		return err
	}
	res, err := p.post(ctx, "/namespaces/"+binding.Namespace+"/pods/"+binding.Name+"/binding", body)
	if res == nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	client, err := corev1client.NewForConfigAndClient(p.config, p.read(res))
	if err != nil {
		return err
	}
	return libraryBinder{client}.Bind(ctx, binding)
}

// eventSink writes events through client-go, except that it creates them through a poster, of events.k8s.io/v1. It
// implements events.EventSink.
type eventSink struct {
	events.EventSink
	*poster
}

// Create implements events.EventSink. It returns the event as it was given; what the API server adds has no use here.
func (s eventSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	if e.Namespace == "" {
		return s.EventSink.Create(ctx, e) // which refuses it
	}
	body, err := s.encode("Event", e)
	if err != nil {
		return nil, err
	}
	res, err := s.post(ctx, "/namespaces/"+e.Namespace+"/events", body)
	if err != nil {
		return nil, err
	}
	if res == nil {
		return e, nil
	}
	defer func() { _ = res.Body.Close() }()
	client, err := eventsv1client.NewForConfigAndClient(s.config, s.read(res))
	if err != nil {
		return nil, err
	}
	return (&events.EventSinkImpl{Interface: client}).Create(ctx, e)
}
