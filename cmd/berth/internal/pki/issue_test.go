package pki_test

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/berth-scheduler/berth/cmd/berth/internal/pki"
)

// TestRenewalKeepsTheAuthority: certificates issued before stay valid together with those issued now.
func TestRenewalKeepsTheAuthority(t *testing.T) {
	dir := t.TempDir()
	i := pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour}
	read := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	ca, key, queue := read("ca.crt"), read("ca.key"), read("queue/tls.crt")
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	if read("ca.crt") != ca || read("ca.key") != key || read("queue/ca.crt") != ca {
		t.Error("the authority changed")
	}
	if read("queue/tls.crt") == queue {
		t.Error("the certificate did not change")
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of ca.key: %v, %v", info.Mode(), err)
	}
	secrets := read(pki.SecretsFile)
	for _, want := range []string{
		"berth-queue-tls", "berth-etcd-tls", "berth-root-tls", "berth-etcd-peer-tls", "berth-nats-peer-tls", "namespace: ns",
	} {
		if !strings.Contains(secrets, want) {
			t.Errorf("%s does not say %s", pki.SecretsFile, want)
		}
	}
}

// TestIdentities: the names by which etcd (common name) and NATS (DNS name) identify a member.
func TestIdentities(t *testing.T) {
	dir := t.TempDir()
	err := pki.Issue(pki.Installation{Dir: dir, Name: "b2", Namespace: "ns", Life: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string][2]string{
		"queue": {"b2-queue", "b2-queue"}, "scheduler": {"b2-scheduler", "b2-scheduler"}, "root": {"root", "b2-root"},
		"etcd": {"b2-etcd", "b2-etcd"},
	} {
		certs, err := cert.CertsFromFile(filepath.Join(dir, member, "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		got := certs[0]
		if got.Subject.CommonName != want[0] || got.DNSNames[0] != want[1] {
			t.Errorf("%s is %s and %v, want %v", member, got.Subject.CommonName, got.DNSNames, want)
		}
	}
}

// TestEveryMemberOfAStoreIsNamed: the chart deploys at most five.
func TestEveryMemberOfAStoreIsNamed(t *testing.T) {
	dir := t.TempDir()
	err := pki.Issue(pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"etcd", "nats"} {
		certs, err := cert.CertsFromFile(filepath.Join(dir, store, "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			host := fmt.Sprintf("berth-%s-%d.berth-%s", store, n, store)
			if err := certs[0].VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestHalfAnAuthorityIsKept: a new one would invalidate all certificates of the old one.
func TestHalfAnAuthorityIsKept(t *testing.T) {
	dir := t.TempDir()
	i := pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour}
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := pki.Issue(i, time.Now()); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("got %v, want an error that names ca.key", err)
	}
	for flag, bad := range map[string]pki.Installation{
		"--out": {Name: "b", Namespace: "n", Life: 1}, "--name": {Dir: dir, Namespace: "n", Life: 1},
		"--namespace": {Dir: dir, Name: "b", Life: 1}, "--validity": {Dir: dir, Name: "b", Namespace: "n"},
	} {
		if err := pki.Issue(bad, time.Now()); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: %v: want an error that names %s", bad, err, flag)
		}
	}
}

// chains reports whether a member's certificate is accepted by a peer that trusts the authorities in a ca.crt.
func chains(t *testing.T, dir, member, verifier string) bool {
	t.Helper()
	roots, middle := x509.NewCertPool(), x509.NewCertPool()
	trusted, err := cert.CertsFromFile(filepath.Join(dir, verifier, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range trusted {
		roots.AddCert(c)
	}
	shown, err := cert.CertsFromFile(filepath.Join(dir, member, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range shown[1:] {
		middle.AddCert(c)
	}
	_, err = shown[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: middle, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// TestPeersTrustOnlyPeers: no certificate of the services' authority makes its holder a peer, and vice versa.
func TestPeersTrustOnlyPeers(t *testing.T) {
	dir := t.TempDir()
	i := pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour}
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		member, trusting string
		want             bool
	}{
		{"etcd-peer", "etcd-peer", true},
		{"nats-peer", "nats-peer", true},
		{"scheduler", "etcd", true},
		{"scheduler", "etcd-peer", false},
		{"etcd", "etcd-peer", false},
		{"root", "nats-peer", false},
		{"etcd-peer", "queue", false},
	} {
		if got := chains(t, dir, c.member, c.trusting); got != c.want {
			t.Errorf("%s shows its certificate, %s accepts: %t, want %t", c.member, c.trusting, got, c.want)
		}
	}
}

// TestNoPeerOfTheOtherStore: a store identifies its members by names that no member of the other store has.
func TestNoPeerOfTheOtherStore(t *testing.T) {
	dir := t.TempDir()
	i := pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour}
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	names := func(member string) []string {
		certs, err := cert.CertsFromFile(filepath.Join(dir, member, "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return append([]string{certs[0].Subject.CommonName}, certs[0].DNSNames...)
	}
	etcd, nats := names("etcd-peer"), names("nats-peer")
	for _, name := range nats {
		if slices.Contains(etcd, name) {
			t.Errorf("%s is a member of both stores", name)
		}
	}
}

// TestPeersOfTwoVersions: an installation without an authority for peers gets one. During the upgrade, members before
// and after the change accept each other; the next renewal ends that.
func TestPeersOfTwoVersions(t *testing.T) {
	dir := t.TempDir()
	i := pki.Installation{Dir: dir, Name: "berth", Namespace: "ns", Life: time.Hour, AcceptServicesAuthority: true}
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	// Before the change a member showed the certificate in "etcd", and trusted the authority there.
	for _, c := range [][2]string{{"etcd-peer", "etcd"}, {"etcd", "etcd-peer"}, {"etcd-peer", "etcd-peer"}} {
		if !chains(t, dir, c[0], c[1]) {
			t.Errorf("%s is not accepted by %s", c[0], c[1])
		}
	}
	i.AcceptServicesAuthority = false
	if err := pki.Issue(i, time.Now()); err != nil {
		t.Fatal(err)
	}
	if chains(t, dir, "etcd", "etcd-peer") {
		t.Error("after the renewal a peer accepts certificates of services")
	}
}
