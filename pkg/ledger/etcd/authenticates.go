package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Authenticates reports whether the server checks who its clients are: only then do the roles that Secure makes count.
// Without a deadline in ctx it may take as long as etcd takes to find a leader.
func (s *Store) Authenticates(ctx context.Context) (bool, error) {
	status, err := s.client.AuthStatus(clientv3.WithRequireLeader(ctx))
	switch {
	case err == nil:
		return status.Enabled, nil
	// A server that refuses the question knows that this user may not ask. (etcd 3.7 lets every user ask.)
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return true, nil
	}
	return false, fmt.Errorf("etcd: status of authentication: %w", err)
}

// Identified reports whether the client shows the server a certificate. Without one etcd cannot tell its clients apart.
func (s *Store) Identified() bool { return s.identified }
