package conformance

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
	_ "k8s.io/component-base/logs/json/register" // as cmd/kube-scheduler does
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// TestFlagsOfKubeSchedulerAreAnswered: every flag that kube-scheduler has is either Berth's too or has an answer, with
// or without a value as there. A flag that upstream adds fails here until Berth has an answer.
func TestFlagsOfKubeSchedulerAreAnswered(t *testing.T) {
	command := scheduler.NewSchedulerCommand()
	command.InitDefaultHelpFlag()
	answers := map[string]upstreamflags.Flag{}
	for _, f := range upstreamflags.KubeScheduler() {
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
		case ours.Switch != (f.NoOptDefVal != ""):
			t.Errorf("--%s: Switch is %t, and without a value it means %q", f.Name, ours.Switch, f.NoOptDefVal)
		case ours.Shorthand != f.Shorthand:
			t.Errorf("--%s: shorthand %q, upstream %q", f.Name, ours.Shorthand, f.Shorthand)
		}
	})
	for name := range answers {
		t.Errorf("--%s: answered, and upstream has no such flag", name)
	}
	t.Logf("%d flags", count)
	if count < 30 {
		t.Errorf("only %d flags were found", count)
	}
}
