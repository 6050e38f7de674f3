//go:build e2e

package chaos

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// report logs the history of the services. Processes that ran while the ledger was restored had to end; no other may
// have ended by itself.
func (s *site) report() {
	s.Helper()
	for _, name := range services {
		k := s.supervisors[name]
		k.mu.Lock()
		s.Logf("%s: killed %d times, began anew %d times, ended by itself %d times, %d of them while it could not start",
			name, k.mu.kills, k.mu.storeReplaced, len(k.mu.ends)+k.mu.failedStarts, k.mu.failedStarts)
		for _, end := range k.mu.ends {
			s.Errorf("%s ended by itself: %s", name, end)
		}
		if k.mu.storeReplaced > len(s.earlier) {
			s.Errorf("%s began anew %d times, and the ledger was restored %d times", name, k.mu.storeReplaced, len(s.earlier))
		}
		k.mu.Unlock()
	}
}

// check demands that nothing was promised twice, now and at every moment of the history of each ledger.
func (s *site) check() {
	s.Helper()
	s.checkGeneration()
	result, err := s.programs.Command(s.Context(), "check", "--kubeconfig", s.cluster.Kubeconfig,
		"--etcd-endpoints", strings.Join(s.etcd.URLs, ","))
	s.must(err)
	s.Logf("berth check:\n%s", result.Stdout)
	if result.Code != 0 {
		s.Errorf("berth check: exit code %d\n%s", result.Code, result.Stderr)
	}
	gangs := false
	for _, h := range append(s.earlier, s.history) {
		gangs = strings.Contains(s.audit(h), "gangs: members of a group were reserved") || gangs
	}
	if !gangs {
		s.Error("no history shows reservations for members of a gang")
	}
}

// audit audits a history and returns the report.
func (s *site) audit(h *harness.History) string {
	s.Helper()
	result, err := h.Audit(s.Context())
	s.must(err)
	s.Logf("berth audit:\n%s", result.Stdout)
	if result.Code != 0 {
		s.Errorf("berth audit: exit code %d\n%s", result.Code, result.Stderr)
	}
	return result.Stdout
}

// checkGeneration demands that a restored ledger has begun a new generation, and that it is open.
func (s *site) checkGeneration() {
	s.Helper()
	store, err := etcd.Open(s.Context(), etcd.Config{Endpoints: s.etcd.URLs})
	s.must(err)
	defer func() { s.must(store.Close()) }()
	kvs, _, err := store.List(s.Context(), identity.KeyGeneration)
	s.must(err)
	for _, kv := range kvs {
		g, err := identity.DecodeGeneration(kv)
		s.must(err)
		s.Logf("generation %d of the ledger, open: %t (%s)", g.Number, g.Open, g.Reason)
		if !g.Open || len(s.earlier) > 0 && g.Number < 2 {
			s.Errorf("generation %d, open: %t; want an open one that began after the ledger was restored", g.Number, g.Open)
		}
	}
	if len(kvs) != 1 {
		s.Errorf("%d keys %s, want one", len(kvs), identity.KeyGeneration)
	}
}
