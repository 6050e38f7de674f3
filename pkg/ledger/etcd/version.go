package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// OldestServer is the oldest version of etcd that is accepted. The client library is 3.7 and supports servers
	// from the minor version before its own (minSupportedVersion in its client.go).
	OldestServer = "3.6.0"
	// versionWithin bounds the version request. A running server answers within milliseconds; one that hangs delays
	// the start of a service for that long.
	versionWithin = time.Second
)

// checkVersions returns an error for every server that reports a version that is too old. It ignores a server that
// does not answer: the others do the work.
func checkVersions(ctx context.Context, endpoints []string, dial dialer) error {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	errs := make([]error, len(endpoints))
	var asked sync.WaitGroup
	for i, endpoint := range endpoints {
		asked.Go(func() { errs[i] = checkVersion(endpoint, versionOf(ctx, endpoint, dial)) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// dialer opens a connection to one server.
type dialer func(endpoint string) (*grpc.ClientConn, error)

// versionOf asks one server; it returns an empty string if there is no answer. HTTP's /version is no alternative: a
// server may serve it on another port (--listen-client-http-urls). With authentication on, every user may ask
// (authMaintenanceServer in etcd's maintenance.go). Client.Status would retry a server that is down until ctx ends.
func versionOf(ctx context.Context, endpoint string, dial dialer) string {
	conn, err := dial(endpoint)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }() // only the connection
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return ""
	}
	return resp.GetVersion()
}

// checkVersion returns an error for a version before OldestServer. A pre-release counts as its release. A version that
// cannot be read is accepted.
func checkVersion(endpoint, has string) error {
	v, err := version.ParseGeneric(has)
	if err == nil && v.LessThan(version.MustParseGeneric(OldestServer)) {
		return fmt.Errorf("etcd: server %s has version %s, want %s or later", endpoint, has, OldestServer)
	}
	return nil
}
