package jetstream_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds the start of a server.
const startTimeout = 20 * time.Second

// natsServer is a NATS server of the test, with real files, that can be stopped and started again on the same port.
type natsServer struct {
	options server.Options
	// config is read at each start, in the form of a configuration file.
	config  string
	running atomic.Pointer[server.Server]
}

// apart is a server's configuration with the streams in a separate account, as in the manifests. A client that does
// not identify itself administers the streams.
const apart = `
no_auth_user: administrator
accounts {
  log {
    jetstream: enabled
    users: [{ user: administrator, password: x }]
    exports: [
      { service: "$JS.API.>" }, { service: "$JS.API.CONSUMER.MSG.NEXT.>", response_type: stream }
      { service: "facts.>" }, { service: "decisions.>" }, { service: "ledger.>" }, { service: "$O.>" }
    ]
  }
  member {
    users: [{ user: member, password: x }]
    imports: [
      { service: { account: log, subject: "$JS.API.INFO" } }
      { service: { account: log, subject: "$JS.API.STREAM.INFO.*" } }
      { service: { account: log, subject: "$JS.API.STREAM.CREATE.*" } }
      { service: { account: log, subject: "$JS.API.STREAM.UPDATE.*" } }
      { service: { account: log, subject: "$JS.API.STREAM.PURGE.OBJ_berth-snapshots" } }
      { service: { account: log, subject: "$JS.API.STREAM.MSG.GET.*" } }
      { service: { account: log, subject: "$JS.API.DIRECT.GET.>" } }
      { service: { account: log, subject: "$JS.API.CONSUMER.CREATE.>" } }
      { service: { account: log, subject: "$JS.API.CONSUMER.DELETE.>" } }
      { service: { account: log, subject: "$JS.API.CONSUMER.INFO.>" } }
      { service: { account: log, subject: "$JS.API.CONSUMER.MSG.NEXT.>" } }
      { service: { account: log, subject: "facts.>" } }
      { service: { account: log, subject: "decisions.>" } }
      { service: { account: log, subject: "ledger.>" } }
      { service: { account: log, subject: "$O.>" } }
    ]
  }
}`

// member returns the config of a client whose account is not that of the streams.
func member(n *natsServer) jetstream.Config {
	return jetstream.Config{URLs: []string{n.url()}, User: "member", Password: "x", Logger: quiet}
}

// newServerApart starts a server with the configuration apart.
func newServerApart(t testing.TB) *natsServer {
	t.Helper()
	n := &natsServer{options: testOptions(t), config: apart}
	n.start(t)
	t.Cleanup(n.stop)
	return n
}

func testOptions(t testing.TB) server.Options {
	return server.Options{
		ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(t.TempDir(), "store"),
		JetStreamMaxStore: 64 << 30, // the streams only reserve it
	}
}

// newServer starts a server that ends with the test.
func newServer(t testing.TB, change func(*server.Options)) *natsServer {
	t.Helper()
	n := &natsServer{options: testOptions(t)}
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
	if n.config != "" {
		if err := options.ProcessConfigString(n.config); err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		t.Fatal("NATS server is not ready")
	}
	n.running.Store(s)
	if !n.options.DontListen {
		n.options.Port = options.Port // the port that the system chose, for the next start
	}
}

func (n *natsServer) stop() {
	if s := n.running.Load(); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		n.running.Store(nil)
	}
}

// checkpoint copies the store of the stopped server, starts the server, and returns a function that takes it back
// to that state.
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

func (n *natsServer) url() string { return n.running.Load().ClientURL() }

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
