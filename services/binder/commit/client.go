package commit

import (
	"fmt"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// API holds two clients for the API server, each with its own rate limits, so that events (reports) do not use up the
// share of binds and other writes.
type API struct{ writes, reports kubernetes.Interface }

// APIOf returns an API that uses one client for everything.
func APIOf(client kubernetes.Interface) API { return API{client, client} }

// Connect makes the clients from one configuration, which it does not change. It makes no request yet. QPS 0 means no
// client-side limit; burst is then ignored.
func Connect(config *rest.Config, qps float32, burst int) (API, error) {
	client := func(agent string) (kubernetes.Interface, error) {
		c := rest.CopyConfig(config)
		c.QPS, c.Burst = qps, burst
		c.RateLimiter = nil
		if qps == 0 {
			c.QPS = -1 // -1 disables client-go's limit; 0 would mean its default of 5
		}
		c.ContentType = runtime.ContentTypeProtobuf
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		c.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + agent
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return otelhttp.NewTransport(next, otelhttp.WithFilter(traced))
		})
		return kubernetes.NewForConfig(c)
	}
	writes, err := client("berth-binder")
	if err != nil {
		return API{}, fmt.Errorf("binder: client for %s: %w", config.Host, err)
	}
	reports, err := client("berth-events")
	if err != nil {
		return API{}, fmt.Errorf("binder: client for %s: %w", config.Host, err)
	}
	return API{writes, reports}, nil
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
