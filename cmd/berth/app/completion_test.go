package app

import (
	"strings"
	"testing"
)

// TestSubcommandsAreCompleted calls the command as the scripts of `berth completion` and
// deploy/krew/kubectl_complete-berth do.
func TestSubcommandsAreCompleted(t *testing.T) {
	var out strings.Builder
	root := newRootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"__complete", "explain", "p"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "pod\t") {
		t.Errorf("berth __complete explain p: %q, want a line for pod first", got)
	}
}
