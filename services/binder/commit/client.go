package commit

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// dialTimeout and dialKeepAlive are client-go's own (transport/cache.go).
const (
	dialTimeout   = 30 * time.Second
	dialKeepAlive = 30 * time.Second
)

// API holds the clients for the API server. Events (reports) have a rate limit of their own, so that they do not use up
// the share of binds and other writes.
type API struct {
	writes  kubernetes.Interface
	binds   binder
	reports events.EventSink
}

// APIOf returns an API that uses one client for everything.
func APIOf(client kubernetes.Interface) API {
	return API{client, libraryBinder{client.CoreV1()}, &events.EventSinkImpl{Interface: client.EventsV1()}}
}

// Connect makes the clients from one configuration, which it does not change. It makes no request yet. QPS 0 means no
// client-side limit; burst is then ignored. The clock ends the lives of connections (see connectionLife).
func Connect(config *rest.Config, qps float32, burst int, c clock.PassiveClock) (API, error) {
	api, err := connect(config, qps, burst, c)
	if err != nil {
		return API{}, fmt.Errorf("binder: client for %s: %w", config.Host, err)
	}
	return api, nil
}

func connect(config *rest.Config, qps float32, burst int, c clock.PassiveClock) (API, error) {
	writes, err := newClient(clientConfig(config, "berth-binder", qps, burst), "/api", corev1.SchemeGroupVersion,
		bindConnections, c)
	if err != nil {
		return API{}, err
	}
	reports, err := newClient(clientConfig(config, "berth-events", qps, burst), "/apis", eventsv1.SchemeGroupVersion,
		eventConnections, c)
	if err != nil {
		return API{}, err
	}
	return API{
		writes.Interface, writes.poster,
		eventSink{&events.EventSinkImpl{Interface: reports.EventsV1()}, reports.poster},
	}, nil
}

// client is client-go's client, and a poster beside it with the same configuration and rate limit.
type client struct {
	kubernetes.Interface
	poster *poster
}

// newClient returns a client whose poster posts to one version of the API, below a path such as "/api", over n
// connections.
func newClient(
	config *rest.Config, root string, version schema.GroupVersion, n int, c clock.PassiveClock,
) (client, error) {
	library, err := kubernetes.NewForConfig(config)
	if err != nil {
		return client{}, err
	}
	lines, err := dial(config, n, c)
	if err != nil {
		return client{}, err
	}
	p, err := newPoster(config, root, version, lines)
	return client{library, p}, err
}

// clientConfig returns a copy of a configuration for one user agent, with a rate limit of its own.
func clientConfig(config *rest.Config, agent string, qps float32, burst int) *rest.Config {
	c := rest.CopyConfig(config)
	// -1 disables client-go's limit; 0 would mean its default of 5.
	c.QPS, c.RateLimiter = -1, nil
	if qps > 0 {
		// All clients of this configuration share the limiter.
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + agent
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(next, otelhttp.WithFilter(traced))
	})
	return c
}

// dial returns n connections with client-go's transports. The library shares one transport, with one connection, among
// all clients of equal configurations, except where a dialer of their own tells them apart.
func dial(config *rest.Config, n int, c clock.PassiveClock) (*connections, error) {
	transports := make([]http.RoundTripper, n)
	for i := range transports {
		own := rest.CopyConfig(config)
		if own.Dial == nil {
			own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive}).DialContext
		}
		var err error
		if transports[i], err = rest.TransportFor(own); err != nil {
			return nil, err
		}
	}
	return newConnections(c, transports), nil
}

// traced excludes requests that belong to no pod's trace, or to one that is not recorded.
func traced(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsSampled() }

// transport removes Retry-After from responses. Otherwise client-go would sleep and send the same request up to ten
// times before the caller sees the first response. For an eviction that may spend a disruption budget each time, and
// for a bind it hides that the outcome is unknown. The seconds remain in the status in the response body.
type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if res != nil {
		res.Header.Del("Retry-After")
	}
	return res, err
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
