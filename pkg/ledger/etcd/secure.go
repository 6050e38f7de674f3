package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// administrator is the user and the role that etcd itself defines under this name: only it may change users and
// roles once authentication is on.
const administrator = "root"

// Access defines what one user may do with a ledger: read all of it, and write some keys.
type Access struct {
	// User is the common name of the client's certificate.
	User string
	// Writes are keys below the ledger's prefix; one that ends in a slash stands for everything below it.
	Writes []string
}

// Secure creates these users and a role for each, removes from such a role rights that are not listed, and switches
// authentication on; other users and roles stay as they are. It may be repeated. The client's certificate must have
// the common name root.
func Secure(ctx context.Context, cfg Config, access []Access) error {
	for i, a := range access {
		if a.User == "" || a.User == administrator || slices.Contains(a.Writes, "") {
			return fmt.Errorf("etcd: user %d is %q and writes %q, want a name other than %s, and keys",
				i, a.User, a.Writes, administrator)
		}
	}
	store, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	s := securing{auth: store.client.Auth, prefix: cfg.withDefaults().Prefix}
	return errors.Join(s.run(ctx, access), store.Close())
}

// securing is one call of Secure.
type securing struct {
	auth   clientv3.Auth
	prefix string
}

func (s securing) run(ctx context.Context, access []Access) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.user(ctx, administrator); err != nil {
		return err
	}
	for _, a := range access {
		if err := s.user(ctx, a.User); err != nil {
			return err
		}
		if err := s.grant(ctx, a); err != nil {
			return fmt.Errorf("etcd: role %s: %w", a.User, err)
		}
	}
	status, err := s.auth.AuthStatus(ctx)
	if err == nil && !status.Enabled {
		_, err = s.auth.AuthEnable(ctx)
	}
	if err != nil {
		return fmt.Errorf("etcd: enable authentication: %w", err)
	}
	return nil
}

// user creates a user without a password, so that only a certificate can authenticate as it, and a role with the
// same name for it.
func (s securing) user(ctx context.Context, name string) error {
	_, err := s.auth.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("etcd: user %s: %w", name, err)
	}
	if _, err := s.auth.RoleAdd(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("etcd: role %s: %w", name, err)
	}
	if _, err := s.auth.UserGrantRole(ctx, name, name); err != nil {
		return fmt.Errorf("etcd: role of user %s: %w", name, err)
	}
	return nil
}

// keyRange is the range of an etcd permission: one key, or those from start until before end.
type keyRange struct{ start, end string }

// rangeOf returns the range of a key below the ledger's prefix: everything below it if it ends in a slash, and
// everything in the ledger for the empty key.
func (s securing) rangeOf(key string) keyRange {
	r := keyRange{start: s.prefix + key}
	if strings.HasSuffix(r.start, "/") {
		r.end = clientv3.GetPrefixRangeEnd(r.start)
	}
	return r
}

// grant adds the role's rights first and then revokes the others, so that a running service never lacks a right
// that it has both before and after.
func (s securing) grant(ctx context.Context, a Access) error {
	want := map[keyRange]clientv3.PermissionType{s.rangeOf(""): clientv3.PermissionType(clientv3.PermRead)}
	for _, key := range a.Writes {
		want[s.rangeOf(key)] = clientv3.PermissionType(clientv3.PermReadWrite)
	}
	before, err := s.auth.RoleGet(ctx, a.User)
	if err != nil {
		return err
	}
	for r, kind := range want {
		if _, err := s.auth.RoleGrantPermission(ctx, a.User, r.start, r.end, kind); err != nil {
			return err
		}
	}
	for _, p := range before.Perm {
		r := keyRange{start: string(p.GetKey()), end: string(p.GetRangeEnd())}
		if _, ok := want[r]; ok {
			continue
		}
		if _, err := s.auth.RoleRevokePermission(ctx, a.User, r.start, r.end); err != nil {
			return err
		}
	}
	return nil
}
