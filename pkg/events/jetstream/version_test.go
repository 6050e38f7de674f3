package jetstream

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestVersionsOfServers(t *testing.T) {
	for version, refused := range map[string]bool{
		"2.9.25": true, "2.11.12": true, "2.11.0-RC.1": true,
		"2.12.0-RC.2": false, "2.12.0": false, "2.15.2": false, "3.0.0": false, "dev": false, "": false,
	} {
		err := checkVersion("nats-0", version)
		if (err != nil) != refused {
			t.Errorf("version %q: %v, want refused %t", version, err, refused)
		}
		want := "nats-0 has version " + version + ", want 2.12.0 or later"
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want %q in it", err, want)
		}
	}
}

// TestOldServerIsRefused: the error names the server, its version and what is accepted. The server here implements
// as much of the protocol as a client needs to connect.
func TestOldServerIsRefused(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serveClient(listener, "2.11.9") }()
	url := "nats://" + listener.Addr().String()
	_, err = Open(t.Context(), Config{URLs: []string{url}})
	want := "jetstream: NATS server " + url + ": " + url + " has version 2.11.9, want 2.12.0 or later"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %q", err, want)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// serveClient welcomes one client, answers its pings, and returns when it disconnects.
func serveClient(listener net.Listener, version string) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the client has gone
	_, err = fmt.Fprintf(conn, "INFO {\"server_id\":\"old\",\"version\":%q,\"headers\":true,\"jetstream\":true,"+
		"\"max_payload\":1048576}\r\n", version)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() != "PING" {
			continue
		}
		if _, err := fmt.Fprint(conn, "PONG\r\n"); err != nil {
			return err
		}
	}
	return nil
}
