package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/cmd/berth/internal/foreign"
	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// kubeadm are the arguments that kubeadm writes into the manifest of kube-scheduler.
var kubeadm = []string{
	"--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
	"--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
	"--bind-address=127.0.0.1",
	"--kubeconfig=/etc/kubernetes/scheduler.conf",
	"--leader-elect=true",
}

// TestAManifestOfKubeadmIsAnswered: each flag that Berth does not have gets one line, at once with the others, and none
// is unknown.
func TestAManifestOfKubeadmIsAnswered(t *testing.T) {
	for _, command := range [][]string{
		{"up"}, {"run", "scheduler", "--nats-url", "nats://none", "--etcd-endpoints", "http://none"},
	} {
		root := newRootCommand()
		root.SetArgs(append(command, kubeadm...))
		root.SetOut(io.Discard)
		err := root.ExecuteContext(t.Context())
		if err == nil {
			t.Fatal("accepted")
		}
		text := err.Error()
		for _, flag := range []string{"--authentication-kubeconfig", "--authorization-kubeconfig", "--bind-address"} {
			if strings.Count(text, flag+": not a flag of Berth: ") != 1 {
				t.Errorf("%v: not one line about %s in\n%s", command, flag, text)
			}
		}
		if strings.Contains(text, "unknown") || strings.Contains(text, "--leader-elect") {
			t.Errorf("%v: %s", command, text)
		}
	}
}

// parse parses a command line, without running it, and returns the command's options.
func parse(t *testing.T, args ...string) *cobra.Command {
	t.Helper()
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return cmd
}

// TestEveryForeignFlagIsAnswered: in each form in which upstream accepts it, by the commands that take upstream's
// place.
func TestEveryForeignFlagIsAnswered(t *testing.T) {
	both := append(upstreamflags.KubeScheduler(), upstreamflags.Descheduler()...)
	for command, list := range map[string][]upstreamflags.Flag{
		"up": both, "run scheduler": upstreamflags.KubeScheduler(), "run descheduler": upstreamflags.Descheduler(),
	} {
		for _, f := range list {
			for _, form := range formsOf(f) {
				checkForeign(t, command, f, form)
			}
		}
	}
}

// formsOf returns the arguments by which upstream accepts a flag.
func formsOf(f upstreamflags.Flag) [][]string {
	underscored := strings.ReplaceAll(f.Name, "-", "_")
	forms := [][]string{{"--" + f.Name + "=1"}, {"--" + f.Name, "1"}, {"--" + underscored + "=1"}}
	if f.Switch {
		forms = [][]string{{"--" + f.Name}, {"--" + f.Name + "=false"}}
	}
	if f.Shorthand != "" {
		forms = append(forms, []string{"-" + f.Shorthand, "1"}, []string{"-" + f.Shorthand + "1"})
	}
	return forms
}

// checkForeign parses a flag in one form: it takes its value, and not the flag after it.
func checkForeign(t *testing.T, command string, f upstreamflags.Flag, form []string) {
	t.Helper()
	cmd := parse(t, append(strings.Fields(command), append(form, "--log-level=warn")...)...)
	if left := cmd.Flags().Args(); len(left) > 0 {
		t.Errorf("%s %v: %v is left", command, form, left)
	}
	if !cmd.Flags().Changed("log-level") {
		t.Errorf("%s %v: takes the flag after it", command, form)
	}
	flag := cmd.Flags().Lookup(f.Name)
	if _, is := flag.Value.(*foreign.Value); !is {
		t.Errorf("%s: --%s is Berth's own", command, f.Name)
	}
}

// TestIgnoredFlagsAreWarnings: a flag that changes nothing does not keep a process from starting, and is named once.
func TestIgnoredFlagsAreWarnings(t *testing.T) {
	o := &options{}
	f := pflag.NewFlagSet("up", pflag.ContinueOnError)
	o.addCommon(f)
	o.foreign.Add(f, upstreamflags.KubeScheduler())
	if err := f.Parse([]string{"--leader-elect=false", "--v=2", "-v", "4", "--leader_elect"}); err != nil {
		t.Fatal(err)
	}
	if err := o.foreign.Validate(); err != nil {
		t.Errorf("refused: %v", err)
	}
	got := o.foreign.Warnings()
	if len(got) != 2 || !strings.HasPrefix(got[0], "--leader-elect: no effect: ") ||
		!strings.HasPrefix(got[1], "--v: no effect: use --log-level") {
		t.Errorf("warnings %q", got)
	}
	if text := f.FlagUsages(); strings.Contains(text, "leader-elect") {
		t.Errorf("shown in the help:\n%s", text)
	}
}

// TestPrintedConfigurationIsComplete: the default one, and a file whose warnings are not in the output.
func TestPrintedConfigurationIsComplete(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 4\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := func(args ...string) (out, warnings string) {
		t.Helper()
		var a, b strings.Builder
		root := newRootCommand()
		root.SetArgs(append([]string{"config", "print"}, args...))
		root.SetOut(&a)
		root.SetErr(&b)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a.String(), b.String()
	}
	plain, none := printed()
	if none != "" || !strings.Contains(plain, "schedulerName: default-scheduler") ||
		!strings.Contains(plain, "parallelism: 16") || !strings.Contains(plain, "name: NodeResourcesFit") {
		t.Errorf("warnings %q about\n%s", none, plain)
	}
	out, warnings := printed(file)
	if !strings.Contains(out, "parallelism: 4") || strings.Count(warnings, "\n") != 1 ||
		!strings.Contains(warnings, "config.yaml: parallelism: no effect: ") {
		t.Errorf("warnings %q about\n%s", warnings, out)
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _ := printed(file); again != out {
		t.Errorf("printed again:\n%s\nwas\n%s", again, out)
	}
}
