//go:build e2e

package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// burst is how many pods arrive while something is stopped or killed; the 60 nodes have room for 4,800 of them.
	burst = 500
	// some is how many of them are bound when it happens: late enough to be in the middle,
	// early enough to leave work.
	some = 100
	// recoveredWithin bounds the time to place the rest; members are missed after their lease, and only then do
	// others take over what they held.
	recoveredWithin = 2 * time.Minute
)

// Berth may be killed in the middle of a burst: started again on the same data it resumes. It may be stopped: started
// on an empty directory it rebuilds its state. No pod is lost, none bound twice.
func TestRestartInTheMiddleOfABurst(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	berth := s.up(harness.UpConfig{Shards: 2, Binders: 2, Name: "first"})

	same := s.namespace("same-data")
	created := s.burst(same)
	s.bound(same, some, placedWithin)
	berth.Kill()
	berth = s.up(harness.UpConfig{Shards: 2, Binders: 2, Name: "second"})
	created()
	s.bound(same, burst, recoveredWithin)

	empty := s.namespace("empty-data")
	created = s.burst(empty)
	s.bound(empty, some, placedWithin)
	s.must(berth.Stop(t.Context()))
	s.up(harness.UpConfig{Shards: 2, Binders: 2, Name: "third", DataDir: filepath.Join(s.dir, "fresh")})
	created()
	s.bound(empty, burst, recoveredWithin)

	s.boundAtMostOnce(same)
	s.boundAtMostOnce(empty)
	s.audit()
}
