//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// `berth status` finds the services and the waiting pods; as kubectl's plugin it prints the same; and a running
// process can be switched to log its decisions.
func TestStatusAndLogLevel(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	data := filepath.Join(s.dir, "data")
	berth := s.up(harness.UpConfig{
		Shards: 2, Policy: s.file("policy.yaml", taintPolicy), Args: []string{"--log-format", "json"},
	})
	ns := s.namespace("status")
	s.create(newPod(ns, "gated", "1", gated("example.com/later")), newPod(ns, "large", "100"))
	s.unschedulable(ns, "large", "1 Insufficient cpu.")
	command := func(args ...string) string {
		t.Helper()
		r, err := programs.Command(t.Context(), args...)
		s.must(err)
		if r.Code != 0 {
			t.Fatalf("berth %s: exit code %d: %s", strings.Join(args, " "), r.Code, r.Stderr)
		}
		return r.Stdout
	}
	var status struct{ Services explain.Overview }
	s.eventually(placedWithin, "status shows everything", func(context.Context) (string, error) {
		text := command("status", "--data-dir", data, "--kubeconfig", s.cluster.Kubeconfig, "-o", "json")
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return "", err
		}
		q := status.Services.Queue
		if q == nil || q.Pools["gated"] != 1 || q.Pools["parked"] != 1 || len(status.Services.Shards) != 2 ||
			status.Services.Descheduler == "" {
			return text, nil
		}
		return "", nil
	})
	partitions := 0
	for _, m := range status.Services.Queue.Members {
		partitions += m.Partitions
	}
	if partitions != 256 {
		t.Errorf("the shards own %d partitions, want all 256", partitions)
	}
	if len(status.Services.Warnings) > 0 {
		t.Errorf("warnings of a Berth that is well: %v", status.Services.Warnings)
	}
	s.checkRelease(berth, status.Services.Queue.Kubernetes)
	s.asPlugin(command("status", "--data-dir", data, "-o", "json"), data)

	if got := command("log-level", "debug", "--http-address", berth.Address); got != "log level is debug\n" {
		t.Errorf("log-level says %q", got)
	}
	s.create(newPod(ns, "small", "1"))
	s.nodeOf(ns, "small")
	s.eventually(placedWithin, "the attempt is logged", func(context.Context) (string, error) {
		log, err := os.ReadFile(berth.Log)
		line := `"msg":"attempt"`
		if strings.Contains(string(log), line) && strings.Contains(string(log), `"pod":"`+ns+`/small"`) {
			return "", err
		}
		return "no line with " + line, err
	})
}

// asPlugin runs the program as kubectl does, which finds it by its name.
func (s *stack) asPlugin(want, data string) {
	s.Helper()
	dir := filepath.Join(s.dir, "plugins")
	s.must(os.MkdirAll(dir, 0o750))
	s.must(os.Symlink(programs.Berth, filepath.Join(dir, "kubectl-berth")))
	cmd := exec.CommandContext(s.Context(), filepath.Join(programs.Root, ".build", "bin", "kubectl"),
		"berth", "status", "--data-dir", data, "-o", "json")
	cmd.Env = append(slices.Clone(os.Environ()), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	s.must(err)
	if !strings.Contains(string(out), `"parked": 1`) || !strings.Contains(want, `"parked": 1`) {
		s.Errorf("kubectl berth status says\n%s", out)
	}
	help, err := exec.CommandContext(s.Context(), filepath.Join(dir, "kubectl-berth"), "explain", "pod", "-h").Output()
	s.must(err)
	if !strings.Contains(string(help), "kubectl berth explain pod") {
		s.Errorf("its help does not name it as kubectl does:\n%s", help)
	}
}

// checkRelease checks that the status has the API server's version, and that the log says once what an older one lacks.
func (s *stack) checkRelease(berth *harness.Berth, reported string) {
	s.Helper()
	version, err := s.client.Discovery().ServerVersion()
	s.must(err)
	if reported != version.GitVersion || !strings.HasPrefix(reported, "v"+programs.Kubernetes) {
		s.Errorf("the status has version %q, want %s, of %q", reported, version.GitVersion, programs.Kubernetes)
	}
	log, err := os.ReadFile(berth.Log)
	s.must(err)
	want := 0
	if programs.Kubernetes != "" {
		want = 1
	}
	if got := strings.Count(string(log), "DRAExtendedResource"); got != want {
		s.Errorf("%d lines about features that the API server lacks, want %d", got, want)
	}
}
