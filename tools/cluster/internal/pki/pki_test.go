package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-scheduler/berth/pkg/ca"
)

func TestTheAuthorityOutlivesItsCertificates(t *testing.T) {
	dir := t.TempDir()
	var authorities, certificates [][]byte
	for range 2 {
		authority, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := authority.Issue("server", ca.Subject{Name: "local", Hosts: []string{"127.0.0.1", "localhost"}})
		if err != nil {
			t.Fatal(err)
		}
		authorities = append(authorities, read(t, authority.CertFile))
		certificates = append(certificates, read(t, pair.CertFile))
		if _, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(authorities[0], authorities[1]) {
		t.Error("the second opening made a new authority")
	}
	if bytes.Equal(certificates[0], certificates[1]) {
		t.Error("the second opening did not issue anew")
	}
	roots, err := certutil.NewPool(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := certutil.ParseCertsPEM(certificates[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if _, err := parsed[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestClientsAreUsersNotServers(t *testing.T) {
	dir := t.TempDir()
	authority, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("admin", ca.Subject{Name: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := certutil.ParseCertsPEM(read(t, pair.CertFile))
	if err != nil {
		t.Fatal(err)
	}
	cert := parsed[0]
	if cert.Subject.CommonName != "admin" || cert.Subject.Organization[0] != "system:masters" {
		t.Errorf("the subject is %s", cert.Subject)
	}
	if len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("the usages are %v, want clients only", cert.ExtKeyUsage)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := authority.WriteKubeconfig(path, "https://127.0.0.1:1", pair); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil || config.Host != "https://127.0.0.1:1" || len(config.CertData) == 0 {
		t.Errorf("the kubeconfig reads as %v, %v", config, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
