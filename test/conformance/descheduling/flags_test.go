package descheduling

import (
	"io"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/descheduler/cmd/descheduler/app"

	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// TestFlagsOfTheDeschedulerAreAnswered: every flag that the descheduler has is either Berth's too or has an answer,
// with or without a value as there. A flag that upstream adds fails here until Berth has an answer.
func TestFlagsOfTheDeschedulerAreAnswered(t *testing.T) {
	command := app.NewDeschedulerCommand(io.Discard)
	command.InitDefaultHelpFlag()
	answers := map[string]upstreamflags.Flag{}
	for _, f := range upstreamflags.Descheduler() {
		answers[f.Name] = f
	}
	count := 0
	command.Flags().VisitAll(func(f *pflag.Flag) {
		count++
		ours, ok := answers[f.Name]
		delete(answers, f.Name)
		switch {
		case slices.Contains(upstreamflags.Same(), f.Name):
		case !ok:
			t.Errorf("--%s (%s): no answer: add it to pkg/upstreamflags", f.Name, f.Usage)
		case ours.Switch != (f.NoOptDefVal != "") || ours.Shorthand != f.Shorthand:
			t.Errorf("--%s: %+v, upstream: %q without a value, shorthand %q", f.Name, ours, f.NoOptDefVal, f.Shorthand)
		}
	})
	for name := range answers {
		t.Errorf("--%s: answered, and upstream has no such flag", name)
	}
	if count < 30 {
		t.Errorf("only %d flags were found", count)
	}
}
