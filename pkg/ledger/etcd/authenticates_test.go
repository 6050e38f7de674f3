package etcd_test

import (
	"testing"
)

// TestAuthenticationIsSeen: a client notices authentication that was switched on after it had connected.
func TestAuthenticationIsSeen(t *testing.T) {
	server := start(t, true)
	store := server.open(t)
	if on, err := store.Authenticates(t.Context()); on || err != nil {
		t.Errorf("before: %t, %v; want off", on, err)
	}
	// etcd requires a root user with the root role before it switches authentication on.
	if _, err := server.client.UserAdd(t.Context(), "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.client.RoleAdd(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.client.UserGrantRole(t.Context(), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.client.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if on, err := store.Authenticates(t.Context()); !on || err != nil {
		t.Errorf("after: %t, %v; want on", on, err)
	}
}
