package intake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

const (
	userAgent = "berth-queue"
	// noClientLimit leaves flow control to the API server's priority and fairness: the queue makes a handful of long
	// requests.
	noClientLimit = -1
	// identifyEvery is the pause between attempts to reach the API server at start.
	identifyEvery = 500 * time.Millisecond
	// identifyTimeout bounds one attempt.
	identifyTimeout = 5 * time.Second
)

// Cluster is the queue's only Kubernetes client. It only reads. It is safe for concurrent use.
type Cluster struct {
	client  kubernetes.Interface
	metrics metricsclient.MetricsV1beta1Interface
	host    string
	// release is the version that the server last reported; nil before that.
	release atomic.Pointer[Release]
	gates   serverGates
	// kindsEvery and deniedPause are the constants of these names; tests shorten them.
	kindsEvery, deniedPause time.Duration
}

// Connect makes the client, without a request to the server. It copies the configuration. Objects are transferred as
// protobuf, which costs a fraction of JSON's time in a large cluster; JSON is accepted for groups that have no
// protobuf.
func Connect(config *rest.Config) (*Cluster, error) {
	if config == nil {
		return nil, errors.New("queue: no Kubernetes client configuration: want a kubeconfig, or run in a cluster")
	}
	c := rest.CopyConfig(config)
	c.UserAgent = userAgent
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.QPS == 0 {
		c.QPS = noClientLimit
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("queue: Kubernetes client for %q: %w", config.Host, err)
	}
	metrics, err := metricsclient.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("queue: client of metrics.k8s.io for %q: %w", config.Host, err)
	}
	return &Cluster{client: client, metrics: metrics, host: config.Host, kindsEvery: kindsEvery,
		deniedPause: deniedPause}, nil
}

// Identify returns the UID of namespace kube-system, which identifies the cluster. It retries for patience, then
// returns the last error. An answer that no retry would change (not allowed, not found, a version that is too old) is
// returned at once.
func (c *Cluster) Identify(ctx context.Context, patience time.Duration) (string, error) {
	var uid string
	var last error
	err := wait.PollUntilContextTimeout(ctx, identifyEvery, patience, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, identifyTimeout)
		defer cancel()
		ns, err := c.client.CoreV1().Namespaces().Get(attempt, metav1.NamespaceSystem, metav1.GetOptions{})
		switch {
		case err == nil:
			uid, last = string(ns.UID), c.requestRelease(ctx)
			return last == nil, nil
		case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
			return false, err
		}
		last = err
		return false, nil
	})
	switch {
	case err == nil:
		if err := c.Release().check(); err != nil {
			return "", fmt.Errorf("queue: the API server at %s %w", c.host, err)
		}
		return uid, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case last != nil:
		return "", fmt.Errorf("queue: the API server at %s not reachable within %s: %w", c.host, patience, last)
	}
	return "", fmt.Errorf("queue: read namespace %s at %s: %w", metav1.NamespaceSystem, c.host, err)
}
