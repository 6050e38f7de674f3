//go:build e2e

package deploy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// reloadedWithin bounds the time between the signal and the first handshake with the new certificate.
	reloadedWithin = 30 * time.Second
	// caughtUpWithin bounds the time in which a server copies a small stream.
	caughtUpWithin = 2 * time.Minute
)

// storesAlone are three members of each store as overlay ha starts them, without a cluster and without services.
func storesAlone(t *testing.T) *system {
	t.Helper()
	s := &system{T: t, dir: t.TempDir(), berth: programs.Berth, cluster: &harness.Cluster{}}
	s.shipped = s.objects("overlays/ha")
	s.certificates()
	s.startStores()
	return s
}

// TestStoresServeRenewedCertificates: etcd at the next handshake, NATS after the signal that the reloader sends, to
// clients and to its other servers. No connection breaks.
func TestStoresServeRenewedCertificates(t *testing.T) {
	s := storesAlone(t)
	client := s.natsClient(t, "root")
	ports := map[string]func() (*x509.Certificate, error){
		"etcd, clients": func() (*x509.Certificate, error) { return s.served("etcd", 2379, "root") },
		"etcd, peers":   func() (*x509.Certificate, error) { return s.served("etcd", etcdPeers, "etcd-peer") },
		"NATS, clients": func() (*x509.Certificate, error) { return s.served("nats", 4222, "root") },
		"NATS, servers": func() (*x509.Certificate, error) { return s.served("nats", natsRoutes, "nats-peer") },
	}
	before := map[string]string{}
	for port, certificate := range ports {
		cert, err := certificate()
		s.must(err)
		before[port] = cert.SerialNumber.String()
	}
	s.certificates()
	if cert, err := ports["NATS, clients"](); err != nil || cert.SerialNumber.String() != before["NATS, clients"] {
		t.Errorf("NATS has read the certificate without a signal, then it needs no reloader: %v", err)
	}
	for n := range storeMembers {
		s.must(syscall.Kill(s.stores.writtenPID(n), syscall.SIGHUP))
	}
	for port, certificate := range ports {
		s.eventually(reloadedWithin, port+" have the new certificate", func(context.Context) (string, error) {
			cert, err := certificate()
			if err != nil || cert.SerialNumber.String() == before[port] {
				return fmt.Sprint("the old one: ", err), nil
			}
			return "", nil
		})
	}
	var served struct {
		NotAfter time.Time `json:"tls_cert_not_after"`
	}
	s.must(s.monitored(t.Context(), 0, "/varz", &served))
	if want := s.expiry("nats"); !served.NotAfter.Equal(want) {
		t.Errorf("NATS says that its certificate expires at %s, the file at %s", served.NotAfter, want)
	}
	s.must(client.Flush())
	if n := client.Stats().Reconnects; n > 0 {
		t.Errorf("a client had to connect again, %d times", n)
	}
}

// writtenPID is the process id that a server of NATS has written for its reloader.
func (st *stores) writtenPID(n int) int {
	st.Helper()
	raw, err := os.ReadFile(filepath.Join(st.memberDir("nats", n), "nats.pid"))
	st.must(err)
	pid, err := strconv.Atoi(string(raw))
	st.must(err)
	if want := st.running[fmt.Sprintf("nats-%d", n)].PID(); pid != want {
		st.Fatalf("the file of server %d has process %d, it is %d", n, pid, want)
	}
	return pid
}

// served is the certificate that the first member of a store shows at a port.
func (s *system) served(store string, port int, as string) (*x509.Certificate, error) {
	plain, err := net.DialTimeout("tcp", s.stores.address(store, 0, port), refusedWithin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }() // only the handshake matters
	if err := plain.SetDeadline(time.Now().Add(refusedWithin)); err != nil {
		return nil, err
	}
	if port == 4222 { // NATS identifies itself before the handshake of a client
		if _, err := bufio.NewReader(plain).ReadString('\n'); err != nil {
			return nil, err
		}
	}
	conn := tls.Client(plain, s.peer(as))
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// TestOnlyRootDefragments: every member, as the CronJob's etcdctl does. No service may.
func TestOnlyRootDefragments(t *testing.T) {
	s := storesAlone(t)
	root := s.etcdClient(t, "root")
	members, err := root.MemberList(t.Context())
	s.must(err)
	for _, m := range members.Members {
		endpoint := m.ClientURLs[0]
		if _, err := root.Defragment(t.Context(), endpoint); err != nil {
			t.Errorf("root, %s: %v", endpoint, err)
		}
		for _, as := range []string{"queue", "scheduler", "binder", "descheduler"} {
			_, err := s.etcdClient(t, as).Defragment(t.Context(), endpoint)
			if err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("the %s, %s: %v, want that it is refused", as, endpoint, err)
			}
		}
	}
	if len(members.Members) != storeMembers {
		t.Errorf("%d members, want %d", len(members.Members), storeMembers)
	}
}

// TestAnEmptiedEtcdMemberJoinsAgain: as the runbook says, and not by itself.
func TestAnEmptiedEtcdMemberJoinsAgain(t *testing.T) {
	const lost, name = 1, "berth-etcd-1"
	s := storesAlone(t)
	root := s.etcdClient(t, "root")
	_, err := root.Put(t.Context(), "/berth/kept", "x")
	s.must(err)
	s.stores.empty("etcd", lost)
	s.stores.startMember("etcd", lost)
	emptied := s.stores.running["etcd-1"]
	s.eventually(readyWithin, "the emptied member ends", func(context.Context) (string, error) {
		return map[bool]string{true: "it runs"}[emptied.Ended() == nil], nil
	})
	if log := emptied.Ended().Error(); !strings.Contains(log, "has already been bootstrapped") {
		t.Errorf("the log does not say what the runbook says: %s", log)
	}
	members, err := root.MemberList(t.Context())
	s.must(err)
	for _, m := range members.Members {
		if m.Name == name {
			_, err := root.MemberRemove(t.Context(), m.ID)
			s.must(err)
		}
	}
	// etcd adds a member only when the others have been connected for five seconds.
	s.eventually(readyWithin, "a member may join", func(ctx context.Context) (string, error) {
		_, err := root.MemberAdd(ctx, []string{"https://" + s.stores.address("etcd", lost, etcdPeers)})
		if err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	s.stores.empty("etcd", lost)
	t.Setenv("ETCD_INITIAL_CLUSTER_STATE", "existing")
	s.stores.startMember("etcd", lost)
	s.stores.ready("etcd", lost)
	s.must(os.Unsetenv("ETCD_INITIAL_CLUSTER_STATE"))
	s.stores.running["etcd-1"].Kill()
	s.stores.startMember("etcd", lost) // the last command of the runbook restarts it without the variable
	s.stores.ready("etcd", lost)
	own := s.etcdClient(t, "root")
	own.SetEndpoints("https://" + s.stores.address("etcd", lost, 2379))
	kept, err := own.Get(t.Context(), "/berth/kept", clientv3.WithSerializable())
	s.must(err)
	if len(kept.Kvs) != 1 {
		t.Error("the member does not have what was written before")
	}
}

// empty ends a member, if it runs, and takes its disk away.
func (st *stores) empty(store string, n int) {
	st.Helper()
	st.running[fmt.Sprintf("%s-%d", store, n)].Kill()
	st.must(os.RemoveAll(st.memberDir(store, n)))
}

// TestAnEmptiedNATSServerCatchesUp: by itself, and its health says when it has.
func TestAnEmptiedNATSServerCatchesUp(t *testing.T) {
	const lost, records = 2, 100
	s := storesAlone(t)
	streams, err := s.natsClient(t, "root").JetStream()
	s.must(err)
	s.eventually(readyWithin, "the stream is made", func(context.Context) (string, error) {
		_, err := streams.AddStream(&nats.StreamConfig{Name: "CARE", Subjects: []string{"care"}, Replicas: storeMembers})
		if err != nil {
			return err.Error(), nil // the servers elect a leader first
		}
		return "", nil
	})
	for range records {
		_, err := streams.Publish("care", []byte("x"))
		s.must(err)
	}
	s.stores.empty("nats", lost)
	s.stores.startMember("nats", lost)
	s.stores.ready("nats", lost)
	s.eventually(caughtUpWithin, "the server has the stream", func(ctx context.Context) (string, error) {
		var health struct{ Status, Error string }
		if err := s.monitored(ctx, lost, "/healthz", &health); err != nil || health.Status != "ok" {
			return fmt.Sprint(health, err), nil
		}
		var has struct{ Streams, Messages int }
		if err := s.monitored(ctx, lost, "/jsz", &has); err != nil || has.Streams != 1 || has.Messages != records {
			return fmt.Sprint(has, err), nil
		}
		return "", nil
	})
}

// monitored reads from the monitoring of a server of NATS.
func (s *system) monitored(ctx context.Context, n int, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.stores.address("nats", n, 8222)+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	return json.NewDecoder(resp.Body).Decode(into)
}
