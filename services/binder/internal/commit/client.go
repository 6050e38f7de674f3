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

// API is the way to the API server: two clients, each with its own limits, so that events
// (reports) do not eat the share of binds and other writes.
type API struct{ writes, reports kubernetes.Interface }

// APIOf is an API that does everything through one client.
func APIOf(client kubernetes.Interface) API { return API{client, client} }

// Connect makes the clients from one configuration, which it does not change; nothing is
// called yet. QPS 0 means no limit on the client's side; burst then does not matter.
func Connect(config *rest.Config, qps float32, burst int) (API, error) {
	client := func(agent string) (kubernetes.Interface, error) {
		c := rest.CopyConfig(config)
		c.QPS, c.Burst = qps, burst
		c.RateLimiter = nil
		if qps == 0 {
			c.QPS = -1 // client-go's word for no limit; its 0 is a default of 5
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

// traced leaves out the calls that belong to no pod's path, or to one that is not recorded.
func traced(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsSampled() }

// transport takes Retry-After out of answers. client-go would otherwise sleep and send the
// same request up to ten times before anybody learns of the first answer, which for an
// eviction may spend a disruption budget each time, and for a bind hides that its outcome
// is unknown. The seconds remain readable in the body's status.
type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if res != nil {
		res.Header.Del("Retry-After")
	}
	return res, err
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
