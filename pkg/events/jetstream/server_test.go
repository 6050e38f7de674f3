package jetstream_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds the start of a server.
const startTimeout = 20 * time.Second

// natsServer is a NATS server of the test's own, with real files, that can be stopped and
// started again on the same port.
type natsServer struct {
	options server.Options
	running *server.Server
}

// newServer starts a server that ends with the test.
func newServer(t testing.TB, change func(*server.Options)) *natsServer {
	t.Helper()
	n := &natsServer{options: server.Options{
		ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(t.TempDir(), "store"),
		JetStreamMaxStore: 64 << 30, // the streams only reserve it
	}}
	if change != nil {
		change(&n.options)
	}
	n.start(t)
	t.Cleanup(n.stop)
	return n
}

func (n *natsServer) start(t testing.TB) {
	t.Helper()
	options := n.options
	s, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		t.Fatal("NATS server is not ready")
	}
	n.running = s
	if !n.options.DontListen {
		n.options.Port = options.Port // the one the system chose, for the next start
	}
}

func (n *natsServer) stop() {
	if n.running != nil {
		n.running.Shutdown()
		n.running.WaitForShutdown()
		n.running = nil
	}
}

// checkpoint copies the store of the stopped server, starts it, and returns what takes the
// server back there.
func (n *natsServer) checkpoint(t testing.TB) (restore func()) {
	t.Helper()
	saved := filepath.Join(t.TempDir(), "saved")
	n.stop()
	if err := os.CopyFS(saved, os.DirFS(n.options.StoreDir)); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	return func() {
		t.Helper()
		n.stop()
		if err := os.RemoveAll(n.options.StoreDir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(n.options.StoreDir, os.DirFS(saved)); err != nil {
			t.Fatal(err)
		}
		n.start(t)
	}
}

func (n *natsServer) url() string { return n.running.ClientURL() }

// open opens a Log that is closed with the test.
func open(t testing.TB, cfg jetstream.Config) *jetstream.Log {
	t.Helper()
	l, err := jetstream.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}
