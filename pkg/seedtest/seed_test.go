package seedtest

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestFirst(t *testing.T) {
	for _, test := range []struct {
		value       string
		asked, want uint64
	}{
		{"", 0, Fixed}, {"7", 0, 7}, {"", 3, 3}, {"7", 3, 3}, {random, 3, 3},
	} {
		t.Setenv(Variable, test.value)
		if got := First(t, test.asked); got != test.want {
			t.Errorf("%s=%q, asked for %d: %d, want %d", Variable, test.value, test.asked, got, test.want)
		}
	}
	t.Setenv(Variable, random)
	if a, b := First(t, 0), First(t, 0); a == b || a == 0 {
		t.Errorf("drew %d, then %d", a, b)
	}
}

// witness notes whether a test would have failed.
type witness struct {
	testing.TB
	failed bool
}

func (w *witness) Errorf(string, ...any) { w.failed = true }

// What the fixed seed does not meet is an error, what another one does not meet only if it had enough cases for it.
func TestLacks(t *testing.T) {
	for _, test := range []struct {
		value  string
		asked  uint64
		enough bool
		want   bool
	}{
		{"", 0, false, true}, {"", 0, true, true}, {"7", 0, false, false}, {random, 0, false, false},
		{"", 3, false, false}, {random, 0, true, true}, {"", 3, true, true},
	} {
		t.Setenv(Variable, test.value)
		w := &witness{TB: t}
		Lacks(w, test.asked, test.enough, "no case of %q", "x")
		if w.failed != test.want {
			t.Errorf("%s=%q, asked for %d, enough: %t: failed %t, want %t", Variable, test.value, test.asked,
				test.enough, w.failed, test.want)
		}
	}
}

// TestRapidBeginsThere: rapid begins with the environment's seed, and draws one only when asked to.
func TestRapidBeginsThere(t *testing.T) {
	const inner = "SEEDS_INNER"
	if os.Getenv(inner) != "" {
		t.Logf("rapid has %s", flag.Lookup("rapid.seed").Value)
		return
	}
	for value, want := range map[string]string{
		"": "rapid has 1", "12": "rapid has 12", random: "rapid has 0", "0": "TEST_SEED is \"0\"", "x": "TEST_SEED is \"x\"",
	} {
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestRapidBeginsThere$")
		self.Env = append(os.Environ(), Variable+"="+value, inner+"=1")
		out, _ := self.CombinedOutput() // it fails for a bad value, which its message shows
		if !strings.Contains(string(out), want+"\n") && !strings.Contains(string(out), want+",") {
			t.Errorf("%s=%q: want %q in\n%s", Variable, value, want, out)
		}
	}
}
