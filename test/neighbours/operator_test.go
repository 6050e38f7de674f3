package neighbours

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"

	"github.com/berth-scheduler/berth/pkg/ca"
)

// The certificates are those that an operator would keep which looks after its own: the authority is valid for its
// name, and the server for the service, 90 days from now. Source: cert-controller, pkg/rotator, ValidCert.
func TestCertificatesAreKept(t *testing.T) {
	const name, service = "some-ca", "webhooks.operator.svc"
	files, err := certificates(t.TempDir(), name, service, loopback)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(90 * 24 * time.Hour)
	for _, one := range []struct{ cert, key, host string }{
		{ca.CertFile, ca.KeyFile, name},
		{"tls.crt", "tls.key", service},
		{"tls.crt", "tls.key", loopback},
	} {
		if _, err := tls.X509KeyPair(files[one.cert], files[one.key]); err != nil {
			t.Errorf("%s: %v", one.cert, err)
		}
		list, err := cert.ParseCertsPEM(files[one.cert])
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(files[ca.CertFile])
		if _, err := list[0].Verify(x509.VerifyOptions{DNSName: one.host, Roots: roots, CurrentTime: then}); err != nil {
			t.Errorf("%s for %s: %v", one.cert, one.host, err)
		}
	}
}

// Every clientConfig of a manifest gets the address with its own path, however deep it is.
func TestReach(t *testing.T) {
	client := func(path string) map[string]any {
		return map[string]any{"service": map[string]any{"name": "webhooks", "path": path}}
	}
	object := map[string]any{
		"webhooks": []any{map[string]any{"name": "a", "clientConfig": client("/a")}},
		"spec":     map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": client("/b")}}},
	}
	operatorStage{Webhook: "127.0.0.1:1", authority: []byte("pem")}.reach(object)
	at := func(path string) map[string]any {
		return map[string]any{"url": "https://127.0.0.1:1" + path, "caBundle": "cGVt"}
	}
	want := map[string]any{
		"webhooks": []any{map[string]any{"name": "a", "clientConfig": at("/a")}},
		"spec":     map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": at("/b")}}},
	}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
