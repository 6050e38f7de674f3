//go:build e2e

package e2e_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// refusedWithin bounds how long `berth up` may take to refuse its command line.
const refusedWithin = 30 * time.Second

// Bad input is refused in one line that names the flag or file, the field and the accepted values; the exit code is
// not zero and nothing is left behind.
func TestBadInputIsRefusedInOneLine(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	t.Cleanup(func() { _ = taken.Close() }) // the port was the test's only use of it
	config := s.file("config.yaml", `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackofSeconds: 1
`)
	version := s.file("version.yaml", `apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
`)
	policy := s.file("policy.yaml", strings.Replace(taintPolicy, "deschedule:", "deshedule:", 1))
	plugin := s.file("plugin.yaml", strings.Replace(taintPolicy, "      - RemovePods", "      - RemovesPods", 1))
	garbage := s.file("kubeconfig", "clusters: [\n")
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown field in --config", []string{"--config", config},
			[]string{"--config", config, "podInitialBackofSeconds", "podInitialBackoffSeconds"}},
		{"old version in --config", []string{"--config", version},
			[]string{"--config", version, "v1beta3", "kubescheduler.config.k8s.io/v1"}},
		{"missing --config", []string{"--config", "none.yaml"}, []string{"--config", "none.yaml"}},
		{"unknown key in --policy with --strict", []string{"--policy", policy, "--strict"},
			[]string{"--policy", policy, "deshedule", "deschedule"}},
		{"unknown plugin in --policy", []string{"--policy", plugin},
			[]string{"--policy", plugin, "RemovesPodsViolatingNodeTaints", "RemovePodsViolatingNodeTaints"}},
		{"missing --kubeconfig", []string{"--kubeconfig", "none"}, []string{"--kubeconfig", "none"}},
		{"garbage in --kubeconfig", []string{"--kubeconfig", garbage}, []string{"--kubeconfig", garbage}},
		{"port in use", []string{"--http-address", taken.Addr().String()},
			[]string{"--http-address", taken.Addr().String(), "in use"}},
		{"address without port", []string{"--http-address", "localhost"},
			[]string{"--http-address", "localhost", "host:port"}},
		{"too many shards", []string{"--shards", "65"}, []string{"--shards", "65", "64"}},
		{"place kept for too long", []string{"--keep-place", "11m"}, []string{"--keep-place", "11m", "1s to 10m"}},
		{"documents collected at once", []string{"--collect-after", "0"}, []string{"--collect-after", "0s", "1s to 24h"}},
		{"no number of shards", []string{"--shards", "two"}, []string{"shards", "two"}},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			inner := *s
			inner.T = t
			inner.refused(filepath.Join(s.dir, "unused"), test.args, test.want)
		})
	}
}

// refused runs `berth up` with more arguments and expects it to end with one line that contains
// all of want, and to leave neither its port nor its data directory in use.
func (s *stack) refused(dataDir string, args, want []string) {
	s.Helper()
	address, err := harness.FreeAddress()
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), refusedWithin)
	defer cancel()
	// A flag given twice has its last value.
	defaults := []string{"up", "--kubeconfig", s.cluster.Kubeconfig, "--data-dir", dataDir, "--http-address", address}
	result, err := programs.Command(ctx, append(defaults, args...)...)
	s.must(err)
	if result.Code == 0 {
		s.Errorf("exit code 0\n%s", result.Stderr)
	}
	message := errorLines(result.Stderr)
	if len(message) != 1 {
		s.Fatalf("want one line of error, got %d:\n%s", len(message), result.Stderr)
	}
	for _, part := range want {
		if !strings.Contains(message[0], part) {
			s.Errorf("the error does not name %q:\n%s", part, message[0])
		}
	}
	if listener, err := net.Listen("tcp", address); err != nil {
		s.Errorf("the port stays in use: %v", err)
	} else if err := listener.Close(); err != nil {
		s.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dataDir, "endpoints.json")); !os.IsNotExist(err) {
		s.Errorf("%s says that something runs there (%v)", dataDir, err)
	}
}

// errorLines are the lines of the program's own error, without those of its log.
func errorLines(stderr string) []string {
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "berth: ") || !logLine(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// logLine reports whether a line belongs to the text log, whose lines begin with their time.
func logLine(line string) bool { return strings.HasPrefix(line, "time=") }

// A data directory belongs to one cluster and to one process at a time.
func TestDataDirectoryOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	data := filepath.Join(s.dir, "data")
	berth := s.up(harness.UpConfig{DataDir: data})
	s.Run("in use", func(t *testing.T) {
		inner := *s
		inner.T = t
		ctx, cancel := context.WithTimeout(t.Context(), refusedWithin)
		defer cancel()
		result, err := programs.Command(ctx, "up", "--kubeconfig", s.cluster.Kubeconfig,
			"--data-dir", data, "--http-address", "")
		inner.must(err)
		lines := errorLines(result.Stderr)
		if result.Code == 0 || len(lines) != 1 || !strings.Contains(lines[0], "--data-dir") {
			t.Errorf("exit code %d, want one line about --data-dir:\n%s", result.Code, result.Stderr)
		}
		inner.must(berth.Ended())
	})
	s.must(berth.Stop(t.Context()))
	s.Run("of another cluster", func(t *testing.T) {
		other := newStack(t, "")
		other.refused(data, nil, []string{"another"})
	})
}
