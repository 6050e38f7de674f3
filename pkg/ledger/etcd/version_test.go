package etcd

import (
	"context"
	"net"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestVersionsOfServers(t *testing.T) {
	for _, test := range []struct {
		version string
		refused bool
	}{
		{"3.4.37", true},
		{"3.5.21", true},
		{"3.5.99+vendor.1", true},
		{"3.6.0-rc.4", false},
		{"3.6.0", false},
		{"3.7.3", false},
		{"3.10.0", false},
		{"4.0.0", false},
		{"unknown", false},
		{"", false},
	} {
		err := checkVersion("http://etcd-0:2379", test.version)
		if (err != nil) != test.refused {
			t.Errorf("version %q: %v, want refused %t", test.version, err, test.refused)
		}
		if test.refused && err != nil {
			want := "server http://etcd-0:2379 has version " + test.version + ", want 3.6.0 or later"
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %q, want %q in it", err, want)
			}
		}
	}
}

// versioned is a server that answers reads, and the version request if it has a version.
type versioned struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer

	version string
}

func (v versioned) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: 1, Revision: 1}}, nil
}

func (v versioned) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	if v.version == "" {
		return nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	}
	return &pb.StatusResponse{Version: v.version}, nil
}

func (v versioned) serve(t *testing.T) (endpoint string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, v)
	pb.RegisterMaintenanceServer(server, v)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// TestOldServersAreRefused: one server of several that is too old is enough for a refusal. A server that does not
// report its version is accepted.
func TestOldServersAreRefused(t *testing.T) {
	now, silent := versioned{version: "3.7.3"}.serve(t), versioned{}.serve(t)
	old := versioned{version: "3.5.21"}.serve(t)
	for _, test := range []struct {
		endpoints []string
		refused   bool
	}{
		{[]string{now}, false},
		{[]string{silent}, false},
		{[]string{now, silent}, false},
		{[]string{old}, true},
		{[]string{now, old}, true},
	} {
		store, err := Open(t.Context(), Config{Endpoints: test.endpoints})
		if store != nil {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
		if !test.refused {
			if err != nil {
				t.Errorf("servers %v: %v", test.endpoints, err)
			}
			continue
		}
		if want := "server " + old + " has version 3.5.21, want 3.6.0 or later"; err == nil || err.Error() != "etcd: "+want {
			t.Errorf("servers %v: %v, want %q", test.endpoints, err, want)
		}
	}
}
