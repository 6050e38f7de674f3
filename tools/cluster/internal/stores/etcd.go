package stores

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/berth-scheduler/berth/tools/cluster/internal/pki"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// EtcdPorts is how many ports an etcd member listens on: clients, peers, and
// HTTP (health, metrics). With HTTP on the clients' port, etcd would serve gRPC
// through Go's HTTP server, which is slower and lets busy streams starve
// watches.
const EtcdPorts = 3

// etcdQuotaBytes is room for a benchmark's worth of pods and events between
// two compactions; etcd's default of 2 GiB is not.
const etcdQuotaBytes = 8 << 30

// Etcd describes a single-member etcd.
type Etcd struct {
	// Path is the program, Dir the folder of its data.
	Path, Dir string
	// Sync has every write reach the disk before it is acknowledged. Without
	// it a power loss may lose the data; a killed process does not.
	Sync bool
	// TLS is the server's certificate and CAFile what clients are checked
	// against; without them etcd speaks plain HTTP.
	TLS    pki.Pair
	CAFile string
	// CompactEvery is etcd's own compaction period in its notation, empty for
	// none: an API server compacts its etcd itself.
	CompactEvery string
}

// URL is the client address of an etcd on this port.
func (e Etcd) URL(port int) string {
	scheme := "http"
	if e.CAFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(process.Loopback, strconv.Itoa(port))
}

// Health is the address that answers once a member on these ports serves.
func (e Etcd) Health(ports []int) string { return e.URL(ports[2]) + "/health" }

// Spec is the child for these ports.
func (e Etcd) Spec(ports []int) (process.Spec, error) {
	client, peer, http := e.URL(ports[0]), e.URL(ports[1]), e.URL(ports[2])
	args := []string{
		"--name=local",
		"--data-dir=" + filepath.Join(e.Dir, "etcd"),
		"--listen-client-urls=" + client,
		"--listen-client-http-urls=" + http,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		"--initial-cluster-token=berth-local",
		fmt.Sprintf("--quota-backend-bytes=%d", int64(etcdQuotaBytes)),
		"--log-level=warn",
	}
	if e.CAFile != "" {
		args = append(args,
			"--cert-file="+e.TLS.CertFile, "--key-file="+e.TLS.KeyFile,
			"--trusted-ca-file="+e.CAFile, "--client-cert-auth",
			"--peer-cert-file="+e.TLS.CertFile, "--peer-key-file="+e.TLS.KeyFile,
			"--peer-trusted-ca-file="+e.CAFile, "--peer-client-cert-auth")
	}
	if e.CompactEvery != "" {
		args = append(args, "--auto-compaction-mode=periodic", "--auto-compaction-retention="+e.CompactEvery)
	}
	if !e.Sync {
		args = append(args, "--unsafe-no-fsync")
	}
	return process.Spec{Name: "etcd", Path: e.Path, Args: args}, nil
}
