package ca

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAnAuthorityIsKept checks that an authority is used again, and that half of one is refused: a new one would
// invalidate all certificates of the old one.
func TestAnAuthorityIsKept(t *testing.T) {
	dir := t.TempDir()
	var first []byte
	for range 2 {
		a, err := Open(dir, "test", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = a.Cert.Raw
		}
		if !bytes.Equal(a.Cert.Raw, first) {
			t.Error("the authority changed")
		}
		made, _, err := a.Issue(Subject{Name: "server", Hosts: []string{"localhost"}}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.CheckSignatureFrom(a.Cert); err != nil {
			t.Error(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, KeyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "test", time.Now()); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("got %v, want an error that names %s", err, KeyFile)
	}
}

// TestOnlySubjectsWithHostsAreServers checks the uses that a certificate allows.
func TestOnlySubjectsWithHostsAreServers(t *testing.T) {
	a, err := Open(t.TempDir(), "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Subject{{Name: "client"}, {Name: "server", Hosts: []string{"127.0.0.1", "localhost"}}} {
		made, _, err := a.Issue(s, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if serves := slices.Contains(made.ExtKeyUsage, x509.ExtKeyUsageServerAuth); serves != (len(s.Hosts) > 0) {
			t.Errorf("%s may serve: %t", s.Name, serves)
		}
		for _, host := range s.Hosts {
			if err := made.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	}
}
