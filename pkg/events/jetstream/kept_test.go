package jetstream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestServerWithoutAtomicBatchesIsRefused: a server before NATS 2.12 answers with the configuration fields that it
// knows.
func TestServerWithoutAtomicBatchesIsRefused(t *testing.T) {
	if err := checkKept(jetstream.StreamConfig{DenyDelete: true}); err == nil || !strings.Contains(err.Error(), "2.12") {
		t.Errorf("without allow_atomic: %v, want an error that names NATS 2.12", err)
	}
	if err := checkKept(jetstream.StreamConfig{AllowAtomicPublish: true}); err != nil {
		t.Error(err)
	}
}
