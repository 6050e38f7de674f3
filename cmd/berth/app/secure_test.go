package app

import (
	"os"
	"testing"
)

// FuzzRoles: whatever a file of roles contains, the result is users or an error.
func FuzzRoles(f *testing.F) {
	raw, err := os.ReadFile("../../../deploy/helm/berth/files/etcd-roles.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("users:\n- name: a\n  writes: [n/]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if access, err := parseRoles("roles.yaml", raw); err == nil && len(access) == 0 {
			t.Error("no users, and no error")
		}
	})
}
