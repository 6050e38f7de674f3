package serve

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The bounds of reviews. A token that is not known costs the API server a TokenReview and a SubjectAccessReview; what
// it answers is kept for reviewTTL, as in kube-scheduler. Both caches are bounded: the library's of rights by its size,
// that of tokens by reviewQPS and reviewTTL.
const (
	reviewTTL = 10 * time.Second
	// reviewTimeout bounds each request, below the scrape timeout of Prometheus (10 s).
	reviewTimeout = 4 * time.Second
	reviewQPS     = 20
	reviewBurst   = 40
	// maxReviewed bounds the requests with tokens that are answered at once. Others get 429.
	maxReviewed = 32
)

// reviewBackoff spaces a request that the API server did not answer: it is sent twice.
var reviewBackoff = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 2}

// reviews authenticates and authorises requests with bearer tokens by the API server, with the handlers of Kubernetes'
// own components (k8s.io/apiserver).
type reviews struct{ client kubernetes.Interface }

// newReviews returns reviews by the API server of a configuration, which it does not change. It makes no request yet.
func newReviews(config *rest.Config) (*reviews, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = reviewQPS, reviewBurst
	c.RateLimiter, c.Timeout = nil, reviewTimeout
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("--http-token-review: client for %s: %w", config.Host, err)
	}
	return &reviews{client}, nil
}

// guard lets a request through if its token is valid (else 401) and its user may make the request, as a rule about
// nonResourceURLs (else 403). If the API server does not answer, nothing is let through but what it answered at most
// reviewTTL ago.
func (r *reviews) guard(next http.Handler) (http.Handler, error) {
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: r.client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: &reviewBackoff, CacheTTL: reviewTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("--http-token-review: %w", err)
	}
	rights, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: r.client.AuthorizationV1(), WebhookRetryBackoff: &reviewBackoff,
		AllowCacheTTL: reviewTTL, DenyCacheTTL: reviewTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("--http-token-review: %w", err)
	}
	// As in kube-scheduler, whose library lets this group through without a review.
	rights = union.New(authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), rights)
	handler := filters.WithAuthorization(next, rights, scheme.Codecs)
	handler = filters.WithAuthentication(handler, tokens, filters.Unauthorized(scheme.Codecs), nil, nil)
	handler = filters.WithRequestInfo(handler, &request.RequestInfoFactory{})
	return limited(handler), nil
}

// limited answers at most maxReviewed requests at once.
func limited(next http.Handler) http.Handler {
	places := make(chan struct{}, maxReviewed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests with tokens", http.StatusTooManyRequests)
		}
	})
}
