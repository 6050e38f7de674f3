package etcd

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// DefaultPrefix and DefaultDialTimeout replace empty fields of a Config.
const (
	DefaultPrefix      = "/berth/"
	DefaultDialTimeout = 10 * time.Second
	// MaxPrefix bounds the prefix, which precedes every key of a request: ledger.MaxTxnBytes leaves that much room
	// for it.
	MaxPrefix = 256
)

// KV is the part of etcd's client that sends transactions and reads.
type KV = clientv3.KV

// Config describes how to reach the ledger.
type Config struct {
	// Endpoints are the etcd servers: http://, https:// or unix:// URLs, or host:port. At
	// least one.
	Endpoints []string
	// Prefix of all keys, one per Berth cluster; a missing slash at its end is added. Empty
	// means DefaultPrefix. It must not be /registry, which is Kubernetes' own.
	Prefix string
	// CAFile, CertFile and KeyFile are PEM files. CAFile alone verifies the server. CertFile and KeyFile (both or
	// neither) also identify the client, and are read again when they change. If all are empty, TLS is not used.
	CAFile, CertFile, KeyFile string
	// TLS, when set, verifies the server and identifies the client in place of these files.
	TLS *tls.Config
	// DialTimeout bounds how long Open waits for the servers to answer; 0 means
	// DefaultDialTimeout.
	DialTimeout time.Duration
	// Logger receives the etcd client's own log; nil discards it.
	Logger *zap.Logger
	// KV, when set, is a server in this process: transactions and reads go to it directly and not through a socket,
	// which would take half a millisecond for each. Watches and leases still go to Endpoints, which must be that
	// server's.
	KV KV
	// OnSilence, when set, is called with a server that does not answer while others do and is not used any more,
	// and again when it answers. It is called concurrently with requests, possibly for several servers at a time,
	// and must not block.
	OnSilence func(server string, silent bool)
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if len(c.Endpoints) == 0 {
		return fmt.Errorf("etcd: Endpoints is empty, want at least one URL or host:port")
	}
	for i, e := range c.Endpoints {
		if strings.TrimSpace(e) == "" {
			return fmt.Errorf("etcd: Endpoints[%d] is %q, want http://, https:// or unix:// URL, or host:port", i, e)
		}
	}
	if p := strings.Trim(c.Prefix, "/"); p == "registry" || strings.HasPrefix(p, "registry/") {
		return fmt.Errorf("etcd: Prefix is %q, want one outside /registry, which is Kubernetes' own", c.Prefix)
	}
	if len(c.Prefix) > MaxPrefix {
		return fmt.Errorf("etcd: Prefix has %d bytes, want at most %d", len(c.Prefix), MaxPrefix)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("etcd: CertFile is %q and KeyFile is %q, want both or none", c.CertFile, c.KeyFile)
	}
	if c.TLS != nil && c.CAFile+c.CertFile != "" {
		return fmt.Errorf("etcd: CAFile is %q and CertFile is %q, want none with TLS", c.CAFile, c.CertFile)
	}
	if c.DialTimeout < 0 {
		return fmt.Errorf("etcd: DialTimeout is %s, want 0 or more", c.DialTimeout)
	}
	return nil
}

// withDefaults returns c with every empty field filled in.
func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c Config) tls() (*tls.Config, error) {
	if c.TLS != nil || c.CAFile == "" && c.CertFile == "" {
		return c.TLS, nil
	}
	info := transport.TLSInfo{
		CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile, Logger: c.Logger,
	}
	t, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd: CAFile %q, CertFile %q, KeyFile %q: %w", c.CAFile, c.CertFile, c.KeyFile, err)
	}
	return t, nil
}
