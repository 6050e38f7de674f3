package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

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
	// TokenReview lets the API server review bearer tokens, as an alternative to client certificates: what a token's user
	// may request is a matter of RBAC. Without ClientCAFile only tokens are accepted.
	TokenReview bool
}

// Validate reports the first field that is not valid, by its flag. It does not read the files.
func (t TLS) Validate() error {
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		return fmt.Errorf("--http-cert-file and --http-key-file: want both or neither")
	case t.ClientCAFile != "" && t.CertFile == "":
		return fmt.Errorf("--http-client-ca-file: %s: want --http-cert-file and --http-key-file too", t.ClientCAFile)
	case t.TokenReview && t.CertFile == "":
		return errors.New("--http-token-review: want --http-cert-file and --http-key-file too: " +
			"a token is a password, and plain HTTP shows it")
	case len(t.AllowedNames) > 0 && t.ClientCAFile == "":
		return fmt.Errorf("--http-allowed-names: %v: want --http-client-ca-file too", t.AllowedNames)
	case len(t.AdminNames) > 0 && t.ClientCAFile == "":
		return fmt.Errorf("--http-admin-names: %v: want --http-client-ca-file too", t.AdminNames)
	}
	return nil
}

// Unadministered reports whether client certificates are required but none of them may do more than read metrics, nor a
// token.
func (t TLS) Unadministered() bool {
	return t.ClientCAFile != "" && len(t.AdminNames) == 0 && !t.TokenReview
}

// oneWorker is the number of workers for which these controllers are written: they handle one key.
const oneWorker = 1

// identity keeps the server's certificate and the clients' authorities in sync with their files.
type identity struct {
	serving *dynamiccertificates.DynamicCertKeyPairContent
	clients *dynamiccertificates.DynamicFileCAContent
	config  *dynamiccertificates.DynamicServingCertificateController
}

// load reads the files, so that an error in them fails the start. Only TLS 1.3 is accepted. Client certificates are
// verified if they are given; Server.guard decides where one is required.
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

// readyz is the endpoint of the readiness checks; the others have the liveness checks.
const readyz = "readyz"

// healthEndpoints are served without a client certificate.
var healthEndpoints = []string{"healthz", "livez", readyz}

// metricsPaths are the paths that a reader of metrics may get.
var metricsPaths = []string{"/metrics", "/metrics/resources", "/metrics/slis"}

// allows reports whether the holder of a certificate with this common name may make such a request. A reader of metrics
// changes nothing: a log at debug slows the process down, and one at error hides what happens.
func (t TLS) allows(name, method, path string) bool {
	if slices.Contains(t.AdminNames, name) {
		return true
	}
	reader := len(t.AllowedNames) == 0 || slices.Contains(t.AllowedNames, name)
	return reader && method == http.MethodGet && slices.Contains(metricsPaths, path)
}

// guards reports whether requests need a certificate or a token.
func (s *Server) guards() bool { return s.tls.ClientCAFile != "" || s.reviews != nil }

// guard refuses unauthorised requests. A certificate decides first, without a request to the API server: the handshake
// decides which certificates are valid at all, and their names what they may do. What no certificate allows, a token
// may (reviews). Without either, the answer is 401, and 403 for a certificate that may not make the request. A server
// with neither a client CA nor reviews lets everything through.
func (s *Server) guard(next http.Handler) (http.Handler, error) {
	if s.tls.TokenReview != (s.reviews != nil) {
		return nil, errors.New("--http-token-review: no API server to review tokens")
	}
	if !s.guards() {
		return next, nil
	}
	want, reviewed := "client certificate required", http.Handler(nil)
	if s.reviews != nil {
		var err error
		if reviewed, err = s.reviews.guard(next); err != nil {
			return nil, err
		}
		want = "client certificate or bearer token required"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, certified := certifiedName(r)
		switch {
		case slices.Contains(healthEndpoints, strings.TrimPrefix(r.URL.Path, "/")),
			certified && s.tls.allows(name, r.Method, r.URL.Path):
			next.ServeHTTP(w, r)
		case reviewed != nil && r.Header.Get("Authorization") != "":
			reviewed.ServeHTTP(w, r)
		case certified:
			http.Error(w, fmt.Sprintf("%q may not %s %s", name, r.Method, r.URL.Path), http.StatusForbidden)
		default:
			http.Error(w, want, http.StatusUnauthorized)
		}
	}), nil
}

// certifiedName returns the common name of the client's verified certificate, if it has shown one.
func certifiedName(r *http.Request) (name string, ok bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", false
	}
	// The first certificate of the peer is its own; the others are of authorities.
	return r.TLS.PeerCertificates[0].Subject.CommonName, true
}
