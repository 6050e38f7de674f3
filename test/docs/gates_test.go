package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/gates"
)

// TestFeatureGatesAreDescribed: the page about the configuration has each feature gate that is not simply followed, in
// a line that says how it is treated.
func TestFeatureGatesAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Feature gates\n")
	if !ok {
		t.Fatal("the page has no section about feature gates")
	}
	lines := strings.Split(section, "\n")
	for _, g := range gates.All() {
		described := false
		for _, line := range lines {
			if !strings.HasPrefix(line, "| `") || !strings.Contains(line, "`"+g.Name+"`") {
				continue
			}
			described = true
			refused, ignored := strings.Contains(line, "| refused |"), strings.Contains(line, "| not followed |")
			if refused != (g.Treatment == gates.Refused) || ignored != (g.Treatment == gates.Ignored) {
				t.Errorf("%s is %s, but the page says: %s", g.Name, g.Treatment, line)
			}
		}
		if !described && g.Treatment != gates.Followed {
			t.Errorf("%s, which is %s, is not on the page", g.Name, g.Treatment)
		}
	}
}
