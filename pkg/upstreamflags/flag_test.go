package upstreamflags

import (
	"slices"
	"strings"
	"testing"
)

// TestListsAreSound: each flag once, in one line, and none that Berth has.
func TestListsAreSound(t *testing.T) {
	for program, list := range map[string][]Flag{"kube-scheduler": KubeScheduler(), "descheduler": Descheduler()} {
		seen := map[string]bool{}
		for _, f := range list {
			if seen[f.Name] || slices.Contains(Same(), f.Name) {
				t.Errorf("%s: --%s: twice, or among those that Berth has", program, f.Name)
			}
			seen[f.Name] = true
			if f.Answer == "" || strings.Contains(f.Answer, "\n") || strings.HasSuffix(f.Answer, ".") {
				t.Errorf("%s: --%s: %q: want one line without a full stop", program, f.Name, f.Answer)
			}
		}
	}
}
