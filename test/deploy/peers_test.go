//go:build e2e

package deploy_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// nonMembers have a certificate, or none, and are no members of the store.
var nonMembers = []string{
	"", "queue", "scheduler", "binder", "descheduler", "root", "prometheus", "etcd", "nats",
}

// foreignPeers: no certificate of the services' authority joins a store, and none of NATS's joins etcd. The right
// certificate does, so that a refusal is about the certificate.
func (s *system) foreignPeers(t *testing.T) {
	for _, as := range append([]string{"nats-peer"}, nonMembers...) {
		if err := s.joinEtcd(as); err == nil {
			t.Errorf("etcd takes the certificate of %q for that of a member", as)
		}
	}
	if err := s.joinEtcd("etcd-peer"); err != nil {
		t.Errorf("etcd refuses a member: %v", err)
	}
	// Peers of etcd are not among them: on this machine the servers of both stores are called localhost.
	for _, as := range nonMembers {
		if err := s.joinNATS(as); err == nil {
			t.Errorf("NATS takes the certificate of %q for that of a server", as)
		}
	}
	if err := s.joinNATS("nats-peer"); err != nil {
		t.Errorf("NATS refuses a server: %v", err)
	}
}

// peer is a certificate as an attacker shows it: with no interest in whom it talks to.
func (s *system) peer(as string) *tls.Config {
	config := s.identity(as)
	config.InsecureSkipVerify = true
	return config
}

// joinEtcd asks a member for the others, as a member that joins does.
func (s *system) joinEtcd(as string) error {
	transport := &http.Transport{TLSClientConfig: s.peer(as), DisableKeepAlives: true}
	client := &http.Client{Timeout: refusedWithin, Transport: transport}
	resp, err := client.Get("https://" + s.stores.address("etcd", 0, etcdPeers) + "/members")
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // only the status matters
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// joinNATS begins a route: after the TLS handshake the server identifies itself, and answers the PING of a server
// that it accepts.
func (s *system) joinNATS(as string) error {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: refusedWithin}, Config: s.peer(as)}
	conn, err := dialer.DialContext(s.Context(), "tcp", s.stores.address("nats", 0, natsRoutes))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is left to be sent
	if err := conn.SetDeadline(time.Now().Add(refusedWithin)); err != nil {
		return err
	}
	const hello = `CONNECT {"verbose":false,"tls_required":true,"name":"stranger","cluster":"berth"}` + "\r\n"
	if _, err := conn.Write([]byte(hello + "PING\r\n")); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // INFO is a long line
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "PONG":
			return nil
		case strings.HasPrefix(line, "-ERR"):
			return errors.New(line)
		}
	}
	return fmt.Errorf("no answer to PING: %w", lines.Err())
}
