package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicyIsReadAgain: it is read again when it has changed, and only then; mistakes are reported once.
func TestPolicyIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const good = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	reload := descheduling{policy: file}.reload()
	if p, err := reload(); p != nil || err != nil {
		t.Fatalf("unchanged: %v, %v", p, err)
	}
	write(good + "kinds: x\nkind: y\n")
	if p, err := reload(); p != nil || err == nil || !strings.Contains(err.Error(), "kind") {
		t.Fatalf("broken: %v, %v", p, err)
	}
	if p, err := reload(); p != nil || err != nil {
		t.Fatalf("still broken: %v, %v", p, err)
	}
	write(good + "maxNoOfPodsToEvictTotal: 7\n")
	p, err := reload()
	if err != nil || p == nil || *p.Limits.Total != 7 {
		t.Fatalf("changed: %v, %v", p, err)
	}
}
