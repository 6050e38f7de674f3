package app

import (
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/berth-scheduler/berth/cmd/berth/internal/pki"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// startWithin bounds the start of an etcd in this process; it takes about a second.
const startWithin = time.Minute

// startEtcd starts an etcd that requires a certificate from clients, as the manifests do, and returns its endpoint.
func startEtcd(t *testing.T, certs string) (endpoint string) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync = t.TempDir(), true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	shown := &cfg.ClientTLSInfo
	shown.CertFile, shown.KeyFile = filepath.Join(certs, "etcd", "tls.crt"), filepath.Join(certs, "etcd", "tls.key")
	shown.TrustedCAFile, shown.ClientCertAuth = filepath.Join(certs, "ca.crt"), true
	clients := []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	peers := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers, peers
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(startWithin):
		t.Fatalf("etcd is not ready after %s", startWithin)
	}
	return "https://" + e.Clients[0].Addr().String()
}

// TestStatusWarnsOfAnOpenLedger: it warns until the roles are set, for instance when the Job that sets them has not
// run.
func TestStatusWarnsOfAnOpenLedger(t *testing.T) {
	dir := t.TempDir()
	err := pki.Issue(pki.Installation{
		Dir: dir, Name: "berth", Namespace: "berth-system", Hosts: []string{"127.0.0.1"}, Life: time.Hour,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	endpoints := []string{startEtcd(t, dir)}
	warned := func() bool {
		o := &statusCommand{}
		o.etcdEndpoints, o.ledgerPrefix = endpoints, etcd.DefaultPrefix
		o.tls = tlsFiles{
			etcdCA:   filepath.Join(dir, "ca.crt"),
			etcdCert: filepath.Join(dir, "observer", "tls.crt"), etcdKey: filepath.Join(dir, "observer", "tls.key"),
		}
		var r statusReport
		if err := o.addLedgerState(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(r.Warnings, ledgerOpen)
	}
	if !warned() {
		t.Error("no warning though etcd does not authenticate its clients")
	}
	err = etcd.Secure(t.Context(), etcd.Config{
		Endpoints: endpoints, CAFile: filepath.Join(dir, "ca.crt"),
		CertFile: filepath.Join(dir, "root", "tls.crt"), KeyFile: filepath.Join(dir, "root", "tls.key"),
	}, []etcd.Access{{User: "berth-observer"}})
	if err != nil {
		t.Fatal(err)
	}
	if warned() {
		t.Error("a warning though etcd authenticates its clients")
	}
}
