//go:build e2e && upgrade

package deploy_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var previous = flag.String("previous", "", "the folder deploy of an earlier version")

// installations are the kustomizations, and values files of the same names, that people install and upgrade.
var installations = []string{"ha", "second-scheduler", "replace-default", "descheduler-job", "descheduler-cronjob"}

// program runs a program against the cluster, and ends the test if it fails.
func (s *system) program(name string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(programs.Root, ".build", "bin", name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig, "HELM_CACHE_HOME="+s.dir, "HELM_CONFIG_HOME="+s.dir,
		"HELM_DATA_HOME="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestManifestsAreUpgraded: `kubectl apply -k` installs the version before and upgrades it to this one, for every
// kustomization. Afterwards the cluster has what this version says. The way back is the same.
func TestManifestsAreUpgraded(t *testing.T) {
	for _, name := range installations {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, "")
			before := filepath.Join(*previous, "k8s", "overlays", name)
			now := filepath.Join(programs.Root, "deploy", "k8s", "overlays", name)
			for _, version := range []string{before, now, before, now} {
				s.program("kubectl", "apply", "-k", version)
				s.program("kubectl", "diff", "-k", version)
			}
		})
	}
}

// TestChartIsUpgraded: `helm upgrade` does the same with the chart, changes the image, and rolls back.
func TestChartIsUpgraded(t *testing.T) {
	for _, name := range installations {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, "")
			helm := func(verb, deploy string, more ...string) {
				chart := filepath.Join(deploy, "helm", "berth")
				values := filepath.Join(chart, "values-"+name+".yaml")
				args := []string{verb, "berth", chart, "--namespace", namespace, "--values", values}
				s.program("helm", append(args, more...)...)
			}
			now := filepath.Join(programs.Root, "deploy")
			helm("install", *previous, "--create-namespace")
			helm("upgrade", now)
			helm("upgrade", now, "--set", "image.tag=0.1.1")
			s.program("helm", "rollback", "berth", "2", "--namespace", namespace)
			s.program("helm", "rollback", "berth", "1", "--namespace", namespace)
			helm("upgrade", now)
			s.program("helm", "uninstall", "berth", "--namespace", namespace)
		})
	}
}
