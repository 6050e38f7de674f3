package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestTimeout bounds each request to the API server, and the wait for a port to be forwarded.
const requestTimeout = 10 * time.Second

// observer is the last part of the observer's names.
const observer = "observer"

// Installation is a Berth in a cluster: its namespace, and the first part of its names, as in the manifests.
type Installation struct {
	Namespace, Name string
}

// Observer returns the observer's user name in the stores, which is also the name of the Role that grants access.
func (i Installation) Observer() string { return i.Name + "-" + observer }

// secret returns the name of the secret with the observer's certificate, as `berth certs` and the manifests name it.
func (i Installation) secret() string { return i.Observer() + "-tls" }

// Store is a component of an installation, and the port on which it listens for clients. Its values are NATS and Etcd.
type Store struct {
	component string
	port      uint16
}

// These are the stores of an installation.
var (
	NATS = Store{component: "nats", port: 4222}
	Etcd = Store{component: "etcd", port: 2379}
)

// Endpoint is a forwarded port on this machine.
type Endpoint struct {
	// Address is a loopback address and a port.
	Address string
	// TLS holds the observer's certificate and the store's name; nil in an installation without TLS.
	TLS *tls.Config
}

// Cluster is a connection to an installation. It is not safe for concurrent use; the forwarded ports are.
type Cluster struct {
	installation Installation
	rest         *rest.Config
	client       kubernetes.Interface
	// identity holds the observer's certificate; nil in an installation without TLS.
	identity *tls.Config
	// forwards holds the ports that are forwarded, at most one for each store.
	forwards map[Store]*forward
}

// Open reads the observer's certificate. The Cluster must be closed after use. An error names the namespace and, if
// access was forbidden, the Role that grants it.
func Open(ctx context.Context, cfg *rest.Config, i Installation) (*Cluster, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cluster{installation: i, rest: cfg, client: client, forwards: map[Store]*forward{}}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The certificate is read once; it is valid for longer than a command runs.
	secret, err := client.CoreV1().Secrets(i.Namespace).Get(ctx, i.secret(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return c, nil // the stores report whether they require a certificate
	case err != nil:
		return nil, c.explain(fmt.Errorf("observer certificate: %w", err))
	}
	if c.identity, err = identity(secret.Data); err != nil {
		return nil, fmt.Errorf("namespace %s: secret %s: %w", i.Namespace, i.secret(), err)
	}
	return c, nil
}

// identity builds a TLS configuration from a secret in the format of `berth certs` and cert-manager.
func identity(files map[string][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(files[corev1.TLSCertKey], files[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[corev1.ServiceAccountRootCAKey]) {
		return nil, fmt.Errorf("%s: no PEM certificate in it", corev1.ServiceAccountRootCAKey)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}, nil
}

// Endpoint forwards a port of a store, once for each store. It tries the store's ready members one after the other.
func (c *Cluster) Endpoint(ctx context.Context, s Store) (Endpoint, error) {
	f := c.forwards[s]
	if f == nil {
		var err error
		if f, err = c.forward(ctx, s); err != nil {
			return Endpoint{}, c.explain(err)
		}
		c.forwards[s] = f
	}
	e := Endpoint{Address: f.address}
	if c.identity != nil {
		e.TLS = c.identity.Clone()
		e.TLS.ServerName = c.installation.Name + "-" + s.component + "." + c.installation.Namespace + ".svc"
	}
	return e, nil
}

// forward tries the ready members of a store one after the other, and returns all errors if none can be reached.
func (c *Cluster) forward(ctx context.Context, s Store) (*forward, error) {
	pods, err := c.ready(ctx, s)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, pod := range pods {
		f, err := c.start(ctx, pod, s.port)
		if err == nil {
			return f, nil
		}
		failed = append(failed, fmt.Errorf("forward port %d of pod %s: %w", s.port, pod, err))
	}
	return nil, errors.Join(failed...)
}

// ready returns the names of a store's ready members, at least one.
func (c *Cluster) ready(ctx context.Context, s Store) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The labels are those of the manifests and the chart.
	selector := labels.Set{
		"app.kubernetes.io/name": c.installation.Name, "app.kubernetes.io/component": s.component,
	}.String()
	list, err := c.client.CoreV1().Pods(c.installation.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if isReady(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf(
			"%d pods with labels %s, none of them ready; is Berth installed there, with its own stores?",
			len(list.Items), selector)
	}
	return names, nil
}

// isReady reports whether a pod has the condition Ready.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Explain adds to a store's error that the installation has no certificate for the observer, if it has none: the store
// may require one, and its own error then only reports a failed handshake.
func (c *Cluster) Explain(err error) error {
	if err == nil || c.identity != nil {
		return err
	}
	return fmt.Errorf("%w (without a certificate: namespace %s has no secret %s)",
		err, c.installation.Namespace, c.installation.secret())
}

// explain adds the namespace to an error and, if access was forbidden, the Role that grants it.
func (c *Cluster) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("namespace %s: %w; Role %s grants access", c.installation.Namespace, err, c.installation.Observer())
	}
	return fmt.Errorf("namespace %s: %w", c.installation.Namespace, err)
}

// Close stops all forwarding. Connections through it break, so stores are closed before.
func (c *Cluster) Close() {
	for _, f := range c.forwards {
		f.stop()
	}
}
