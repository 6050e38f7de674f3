package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wrongFiles returns a configuration and a policy with two mistakes each, of which the first is an unknown field.
func wrongFiles(t *testing.T) (config, policy string) {
	t.Helper()
	dir := t.TempDir()
	config, policy = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "policy.yaml")
	for file, text := range map[string]string{
		config: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nnodes: 5\n" +
			"percentageOfNodesToScore: 101\nprofiles: [{plugins: {filter: {enabled: [{name: NodeFit}]}}}]\n",
		policy: "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n" +
			"gracePeriodSeconds: -1\nberth: {pause: 1, maxPerCycle: -1}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config, policy
}

var inFiles = []string{
	"--config: ", "config.yaml: nodes: unknown field", "config.yaml: percentageOfNodesToScore: 101: want 0 to 100",
	`config.yaml: profiles[0].plugins.filter.enabled[0]: "NodeFit": want one of`,
	"--policy: ", "policy.yaml: gracePeriodSeconds: -1: want", "policy.yaml: berth.pause: unknown field",
	"policy.yaml: berth.maxPerCycle: -1: want",
}

// All mistakes in a command's flags and files are reported at once.
func TestAllMistakesAtOnce(t *testing.T) {
	config, policy := wrongFiles(t)
	files := []string{"--config", config, "--policy", policy}
	for name, c := range map[string]struct{ args, want []string }{
		"up": {
			append([]string{
				"up", "--shards", "99", "--binders", "0", "--nats-replicas", "6", "--nats-format", "x",
				"--descheduling-interval", "-1s",
				"--http-address", "nowhere", "--etcd-prefix", "berth", "--log-level", "loud", "--log-format", "xml",
				"--nats-cert-file", "a", "--etcd-key-file", "b", "--http-cert-file", "c", "--keep-place", "1h",
				"--collect-after", "1ms", "--scheduled-events", "some", "--kubeconfig", filepath.Join(t.TempDir(), "none"),
			}, files...),
			append([]string{
				"--shards: 99", "--binders: 0", "--nats-replicas: 6", `--nats-format: "x"`, "--descheduling-interval: -1s",
				`--http-address: "nowhere"`, `--etcd-prefix: "berth"`, "--log-level: ", "--log-format: ",
				"--nats-cert-file and --nats-key-file", "--etcd-cert-file and --etcd-key-file", "--nats-cert-file: stat a",
				"--etcd-key-file: stat b", "--http-cert-file and --http-key-file", "--keep-place: ", "--collect-after: ",
				`--scheduled-events: "some": want all, aggregated or none`, "--kubeconfig: stat",
			}, inFiles...),
		},
		"deschedule": {
			append([]string{"deschedule", "--dry-run", "--etcd-cert-file", "a"}, files...),
			append([]string{"--etcd-cert-file and --etcd-key-file"}, inFiles...),
		},
		"export":   {append([]string{"export", "--file", filepath.Join(t.TempDir(), "f")}, files...), inFiles},
		"simulate": {append([]string{"simulate"}, files...), inFiles},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRootCommand()
			root.SetArgs(c.args)
			root.SetOut(io.Discard)
			err := root.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not said in\n%v", want, err)
				}
			}
		})
	}
}

// A kubeconfig that only the configuration names is not reported as missing when the configuration cannot be read.
func TestKubeconfigOfAConfigurationThatCannotBeRead(t *testing.T) {
	config, _ := wrongFiles(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	root := newRootCommand()
	root.SetArgs([]string{"up", "--config", config})
	if err := root.ExecuteContext(t.Context()); err == nil || strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("%v, want nothing about a kubeconfig", err)
	}
}
