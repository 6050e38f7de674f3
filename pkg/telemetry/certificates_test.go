package telemetry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// certFile writes a file with certificates that expire at these times.
func certFile(t *testing.T, path string, expire ...time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, at := range expire {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: at}
		raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectExpiry compares the whole metric; want has a line for each series, without the name.
func expectExpiry(t *testing.T, registry metrics.KubeRegistry, want ...string) {
	t.Helper()
	const name = "berth_certificate_not_after_timestamp_seconds"
	var text strings.Builder
	if len(want) > 0 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s gauge\n", name, families[0].GetHelp(), name)
	}
	for _, series := range want {
		text.WriteString(name + series + "\n")
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(text.String()), name); err != nil {
		t.Error(err)
	}
}

// TestCertificateExpiry checks that the metric covers every file, with its current content.
func TestCertificateExpiry(t *testing.T) {
	dir, day := t.TempDir(), time.Unix(1_800_000_000, 0)
	own := certFile(t, filepath.Join(dir, "tls.crt"), day.Add(2*time.Second), day.Add(time.Second))
	ca := certFile(t, filepath.Join(dir, "ca.crt"), day.Add(3*time.Second), day.Add(4*time.Second), day)
	c, registry := newCertificates(), metrics.NewKubeRegistry()
	registry.CustomMustRegister(c)
	expectExpiry(t, registry)
	c.watch([]CertificateFile{
		{Connection: "etcd", Path: own}, {Connection: "etcd", Authority: true, Path: ca},
		{Connection: "nats"}, {Connection: "http", Path: filepath.Join(dir, "none")},
	})
	authority := `{connection="etcd",kind="authority"} 1.800000004e+09`
	expectExpiry(t, registry, authority, `{connection="etcd",kind="certificate"} 1.800000001e+09`)
	certFile(t, own, day.Add(time.Hour))
	renewed := `{connection="etcd",kind="certificate"} 1.8000036e+09`
	expectExpiry(t, registry, authority, renewed)
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	if err := os.WriteFile(own, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	expectExpiry(t, registry, authority, renewed)
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	expectExpiry(t, registry, authority, renewed)
}
