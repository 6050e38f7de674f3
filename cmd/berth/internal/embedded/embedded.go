package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

const (
	// startTimeout bounds how long a store may take to start; a large etcd replays its log first.
	startTimeout = 60 * time.Second
	// maxSocketPath is the longest directory path that fits a unix socket address together with the file name.
	maxSocketPath = 80
	// compactionRetention keeps a few minutes of ledger history: enough for a watcher to resume after a pause, and
	// little enough to stay small.
	compactionRetention = "5m"
	// etcdQuotaBytes bounds the ledger's file. Etcd refuses writes beyond it; its default is the same 2 GiB.
	etcdQuotaBytes = 2 << 30
	// maxMessageBytes bounds one NATS message: objects of the API server are at most about
	// 1.5 MiB.
	maxMessageBytes = 4 << 20
)

// Stores are the running embedded stores. They are not safe for concurrent use, except InProcessConn and KV.
type Stores struct {
	// Endpoints is the content of endpoints.json. etcd and nats are nil for a store that does not run here; sockets is
	// the directory of etcd's sockets, and release unlocks the data directory.
	Endpoints Endpoints
	etcd      *embed.Etcd
	nats      *natsserver.Server
	sockets   string
	dir       string
	release   func()
}

// Which selects the stores to run; the others are external.
type Which struct{ Etcd, NATS bool }

// Start locks dir and starts the stores on it. On error nothing is left running.
func Start(dir string, which Which, log *slog.Logger) (*Stores, error) {
	release, err := lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Stores{dir: dir, release: release, Endpoints: Endpoints{PID: os.Getpid()}}
	// Each step is skipped after an error; Stop then stops what was started.
	if which.Etcd {
		err = s.startEtcd()
	}
	if err == nil && which.NATS {
		err = s.startNATS(log)
	}
	if err == nil {
		err = writeEndpoints(dir, s.Endpoints)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// InProcessConn connects to the embedded NATS server without a socket. It makes Stores a connection provider for the
// log.
func (s *Stores) InProcessConn() (net.Conn, error) {
	if s.nats == nil {
		return nil, errors.New("embedded: NATS is not running")
	}
	return s.nats.InProcessConn()
}

// KV returns a client that sends requests to the embedded etcd without a socket; nil if it does not run. Watches must
// not use this path: etcd hands the same event objects to all watchers in its own process, and the client that strips
// a prefix off them would change those of the others.
func (s *Stores) KV() etcd.KV {
	if s.etcd == nil {
		return nil
	}
	return v3client.New(s.etcd.Server).KV
}

// HasNATS reports whether the log runs in this process.
func (s *Stores) HasNATS() bool { return s.nats != nil }

// Stop stops the stores, log first, and releases the directory. It may be called twice.
func (s *Stores) Stop() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.nats = nil
	}
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
	if s.sockets != "" {
		_ = os.RemoveAll(s.sockets)
	}
	// The lock is released last: another process may then use the directory.
	if s.release != nil {
		_ = os.Remove(filepath.Join(s.dir, endpointsFile))
		s.release()
		s.release = nil
	}
}

// startEtcd starts etcd with one member and waits until it serves requests: it has replayed its log and elected
// itself. Its own log is dropped; what matters shows as errors of requests.
func (s *Stores) startEtcd() error {
	dir, err := s.socketDir()
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name = "berth"
	cfg.Dir = filepath.Join(s.dir, "etcd")
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "client.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}
	// One member needs no peer, but etcd requires an address for it.
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", compactionRetention
	cfg.QuotaBackendBytes = etcdQuotaBytes
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("embedded etcd in %s: %w", cfg.Dir, err)
	}
	s.etcd = e
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return fmt.Errorf("embedded etcd in %s: %w", cfg.Dir, err)
	case <-time.After(startTimeout):
		return fmt.Errorf("embedded etcd in %s: not ready after %s", cfg.Dir, startTimeout)
	}
	s.Endpoints.Etcd = []string{client.String()}
	return nil
}

// socketDir returns a directory whose socket paths fit an address (108 bytes on Linux): inside the data directory if
// its path is short enough, else a temporary one.
func (s *Stores) socketDir() (string, error) {
	dir, err := filepath.Abs(filepath.Join(s.dir, "sock"))
	if err != nil {
		return "", err
	}
	if len(dir) > maxSocketPath {
		dir, err = os.MkdirTemp("", "berth-")
		s.sockets = dir
		return dir, err
	}
	s.sockets = dir
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// startNATS starts NATS with a new password for each start, and waits until it accepts connections. The services
// connect in process; the loopback port is for operators' commands, which read the password from endpoints.json.
func (s *Stores) startNATS(log *slog.Logger) error {
	user, pass := "berth", rand.Text()
	// The password has 128 random bits, so the hash need not be slow; it only avoids the server's warning about plain
	// text.
	hashed, err := bcrypt.GenerateFromPassword([]byte(pass), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("embedded NATS: password: %w", err)
	}
	srv, err := natsserver.NewServer(&natsserver.Options{
		ServerName: "berth",
		Host:       "127.0.0.1",
		Port:       natsserver.RANDOM_PORT,
		Username:   user,
		Password:   string(hashed),
		JetStream:  true,
		StoreDir:   filepath.Join(s.dir, "nats"),
		MaxPayload: maxMessageBytes,
		NoSigs:     true,
		NoLog:      true,
	})
	if err != nil {
		return fmt.Errorf("embedded NATS in %s: %w", s.dir, err)
	}
	s.nats = srv
	srv.SetLoggerV2(natsLog{log}, false, false, false)
	go srv.Start() // returns once the server accepts connections; Stop stops it
	if !srv.ReadyForConnections(startTimeout) {
		return fmt.Errorf("embedded NATS in %s: not ready after %s", s.dir, startTimeout)
	}
	s.Endpoints.NATS = srv.ClientURL()
	s.Endpoints.NATSUser = user
	s.Endpoints.NATSPass = pass
	return nil
}

// natsLog forwards the server's warnings and errors; its notices are not needed. A fatal error of the server does not
// end the process: the log's client reports that it has no connection.
type natsLog struct{ log *slog.Logger }

func (n natsLog) Noticef(string, ...any) {}
func (n natsLog) Debugf(string, ...any)  {}
func (n natsLog) Tracef(string, ...any)  {}
func (n natsLog) Warnf(format string, args ...any) {
	n.log.Warn("nats: " + fmt.Sprintf(format, args...))
}
func (n natsLog) Errorf(format string, args ...any) {
	n.log.Error("nats: " + fmt.Sprintf(format, args...))
}
func (n natsLog) Fatalf(format string, args ...any) {
	n.log.Error("nats: " + fmt.Sprintf(format, args...))
}
