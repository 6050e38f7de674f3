package commit

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clients makes the two clients of a binder from one configuration, which it does not
// change. Each has its own limits, so that events do not eat the binds' share. QPS 0 means
// no limit on the client's side; burst 0 then does not matter.
func Clients(config *rest.Config, qps float32, burst int) (writes, reports kubernetes.Interface, err error) {
	make1 := func(agent string) (kubernetes.Interface, error) {
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
		client, err := kubernetes.NewForConfig(c)
		if err != nil {
			return nil, fmt.Errorf("binder: client for %s: %w", config.Host, err)
		}
		return client, nil
	}
	if writes, err = make1("berth-binder"); err != nil {
		return nil, nil, err
	}
	if reports, err = make1("berth-events"); err != nil {
		return nil, nil, err
	}
	return writes, reports, nil
}

// transport takes Retry-After out of answers. client-go would otherwise sleep and send the
// same request up to ten times before anybody learns of the first answer, which for an
// eviction may spend a disruption budget each time, and for a bind hides that its outcome
// is unknown. The seconds remain readable in the body's status.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if res != nil {
		res.Header.Del("Retry-After")
	}
	return res, err
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
