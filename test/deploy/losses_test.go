//go:build e2e

package deploy_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// losses kills one member after the other, each in the middle of a burst, and starts it
// again afterwards.
func (s *system) losses(t *testing.T, members map[string]*member) {
	for _, name := range []string{"etcd-0", "nats-1", "queue-0", "scheduler-1", "binder-0", "nats-2", "etcd-2"} {
		t.Run(name, func(t *testing.T) {
			service, number, _ := strings.Cut(name, "-")
			ns := "without-" + name
			kill, again := s.lose(service, name, number, members)
			s.workloadsWhile(ns, kill)
			again()
		})
	}
}

// lose returns what kills a member and what brings it back.
func (s *system) lose(service, name, number string, members map[string]*member) (kill, again func()) {
	if service == "etcd" || service == "nats" {
		var n int
		_, _ = fmt.Sscan(number, &n) // a digit
		return func() { s.stores.running[name].Kill() }, func() {
			s.stores.startMember(service, n)
			s.stores.ready(service, n)
		}
	}
	return func() { members[name].Kill() }, func() { members[name] = s.start(service, name+"-again") }
}

// refusals are what a store or the API server says to somebody who lacks a right.
var refusals = []string{
	"permission denied", "Permissions Violation", "forbidden", "Unauthorized", "Authorization Violation",
}

// noRefusals reads the members' logs: a right that is missing may cost no more than time,
// and would not be seen otherwise.
func (s *system) noRefusals(t *testing.T, members map[string]*member) {
	for name, m := range members {
		raw, err := os.ReadFile(m.Log)
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(raw)) {
			if refused(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func refused(line string) bool {
	return slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(line, refusal) })
}
