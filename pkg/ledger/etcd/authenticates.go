package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Authenticates reports whether the server authenticates its clients; only then do the roles that Secure creates
// take effect. Without a deadline in ctx it may take as long as etcd takes to find a leader.
func (s *Store) Authenticates(ctx context.Context) (bool, error) {
	status, err := s.client.AuthStatus(clientv3.WithRequireLeader(ctx))
	switch {
	case err == nil:
		return status.Enabled, nil
	// A server that refuses this request has identified the user and denies it. (etcd 3.7 allows it to every user.)
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return true, nil
	}
	return false, fmt.Errorf("etcd: read authentication status: %w", err)
}

// Identified reports whether the client presents a certificate to the server. Without one etcd cannot
// distinguish its clients.
func (s *Store) Identified() bool { return s.identified }
