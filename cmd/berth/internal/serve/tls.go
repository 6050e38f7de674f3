package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// TLS configures the server's certificate and which clients it answers. The zero value is plain HTTP.
type TLS struct {
	// CertFile and KeyFile (PEM, both or none) are the server's certificate and key.
	CertFile, KeyFile string
	// ClientCAFile (PEM), if set, makes everything except the health checks require a client certificate of one of
	// these authorities: the data of the process is not public, and a kubelet, which requests the health checks, has
	// no certificate to show.
	ClientCAFile string
	// AllowedNames, if any, are the only common names of such certificates that may read metrics.
	AllowedNames []string
	// AdminNames are the common names that may do everything that the server offers: change the log level, take
	// profiles, read pages. If there are none, no certificate may.
	AdminNames []string
}

// Validate reports the first field that is not valid, by its flag. It does not read the files.
func (t TLS) Validate() error {
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		return fmt.Errorf("--http-cert-file and --http-key-file: want both or neither")
	case t.ClientCAFile != "" && t.CertFile == "":
		return fmt.Errorf("--http-client-ca-file: %s: want --http-cert-file and --http-key-file too", t.ClientCAFile)
	case len(t.AllowedNames) > 0 && t.ClientCAFile == "":
		return fmt.Errorf("--http-allowed-names: %v: want --http-client-ca-file too", t.AllowedNames)
	case len(t.AdminNames) > 0 && t.ClientCAFile == "":
		return fmt.Errorf("--http-admin-names: %v: want --http-client-ca-file too", t.AdminNames)
	}
	return nil
}

// Unadministered reports whether client certificates are required but none of them may do more than read metrics.
func (t TLS) Unadministered() bool { return t.ClientCAFile != "" && len(t.AdminNames) == 0 }

// oneWorker is the number of workers for which these controllers are written: they handle one key.
const oneWorker = 1

// identity keeps the server's certificate and the clients' authorities in sync with their files.
type identity struct {
	serving *dynamiccertificates.DynamicCertKeyPairContent
	clients *dynamiccertificates.DynamicFileCAContent
	config  *dynamiccertificates.DynamicServingCertificateController
}

// load reads the files, so that an error in them fails the start. Only TLS 1.3 is accepted. Client certificates are
// verified if they are given; guard decides where one is required.
func (t TLS) load() (*identity, error) {
	id := &identity{}
	var err error
	id.serving, err = dynamiccertificates.NewDynamicServingContentFromFiles("http", t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--http-cert-file %s, --http-key-file %s: %w", t.CertFile, t.KeyFile, err)
	}
	base := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
	var clients dynamiccertificates.CAContentProvider
	if t.ClientCAFile != "" {
		id.clients, err = dynamiccertificates.NewDynamicCAContentFromFile("http-clients", t.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("--http-client-ca-file %s: %w", t.ClientCAFile, err)
		}
		clients, base.ClientAuth = id.clients, tls.VerifyClientCertIfGiven
	}
	id.config = dynamiccertificates.NewDynamicServingCertificateController(base, clients, id.serving, nil, nil)
	// A change of a file is announced to the controller, which then builds the configuration of new connections.
	id.serving.AddListener(id.config)
	if id.clients != nil {
		id.clients.AddListener(id.config)
	}
	if err := id.config.RunOnce(); err != nil {
		return nil, fmt.Errorf("--http-cert-file %s, --http-client-ca-file %s: %w", t.CertFile, t.ClientCAFile, err)
	}
	return id, nil
}

// run follows the files until ctx ends: a renewed certificate is served from the next handshake on.
func (id *identity) run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { id.serving.Run(ctx, oneWorker); return nil })
	if id.clients != nil {
		g.Go(func() error { id.clients.Run(ctx, oneWorker); return nil })
	}
	g.Go(func() error { id.config.Run(oneWorker, ctx.Done()); return nil })
	return g.Wait()
}

// healthPaths are served without a client certificate.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// metricsPaths are the paths that a reader of metrics may get.
var metricsPaths = []string{"/metrics", "/metrics/resources"}

// allows reports whether the holder of a certificate with this common name may make such a request. A reader of metrics
// changes nothing: a log at debug slows the process down, and one at error hides what happens.
func (t TLS) allows(name, method, path string) bool {
	if slices.Contains(t.AdminNames, name) {
		return true
	}
	reader := len(t.AllowedNames) == 0 || slices.Contains(t.AllowedNames, name)
	return reader && method == http.MethodGet && slices.Contains(metricsPaths, path)
}

// guard refuses unauthorised requests: with 401 if no verified certificate was presented, with 403 if its holder may
// not make the request. The handshake decides which certificates are valid at all. Without a client CA it lets
// everything through.
func (t TLS) guard(next http.Handler) http.Handler {
	if t.ClientCAFile == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(healthPaths, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "client certificate required", http.StatusUnauthorized)
			return
		}
		// The first certificate of the peer is its own; the others are of authorities.
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if !t.allows(name, r.Method, r.URL.Path) {
			http.Error(w, fmt.Sprintf("%q may not %s %s", name, r.Method, r.URL.Path), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
