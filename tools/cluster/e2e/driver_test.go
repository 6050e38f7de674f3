//go:build cluster

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// driver runs the built cluster command with --dir set to a directory of the
// test, which it brings down at the end.
type driver struct {
	t    *testing.T
	path string
	dir  string
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	layout, err := build.FindLayout()
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.Program("cluster")
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, path: path, dir: t.TempDir()}
	t.Cleanup(func() {
		d.run("down")
		d.nothingLeft()
	})
	return d
}

// try runs a subcommand and returns its stdout and stderr.
func (d *driver) try(args ...string) (string, string, error) {
	d.t.Helper()
	args = append(args, "--dir", d.dir)
	cmd := exec.Command(d.path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	d.t.Logf("cluster %s\n%s", strings.Join(args, " "), stderr.String())
	return stdout.String(), stderr.String(), err
}

// run runs a subcommand that has to succeed and returns its stdout.
func (d *driver) run(args ...string) string {
	d.t.Helper()
	stdout, stderr, err := d.try(args...)
	if err != nil {
		d.t.Errorf("cluster %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return stdout
}

// up brings a cluster up in the background, tied to this test process.
func (d *driver) up(args ...string) (session.State, kubernetes.Interface) {
	d.t.Helper()
	args = append([]string{"up", "--detach", "--parent-pid", strconv.Itoa(os.Getpid())}, args...)
	state := d.state(d.run(args...))
	config, err := clientcmd.BuildConfigFromFlags("", state.Cluster.Kubeconfig)
	if err != nil {
		d.t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 500
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		d.t.Fatal(err)
	}
	return state, client
}

func (d *driver) state(content string) session.State {
	d.t.Helper()
	var state session.State
	if err := json.Unmarshal([]byte(content), &state); err != nil {
		d.t.Fatalf("%v in %q", err, content)
	}
	if state.Phase != session.Ready {
		d.t.Fatalf("phase is %s, want ready: %s", state.Phase, state.Message)
	}
	return state
}

// nothingLeft fails if a process that the directory records is alive.
func (d *driver) nothingLeft() {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "state.json"))
	if err != nil || len(files) == 0 {
		d.t.Errorf("no state.json in %s (%v)", d.dir, err)
	}
	peers, _ := filepath.Glob(filepath.Join(d.dir, "peers", "*", "state.json"))
	for _, file := range append(files, peers...) {
		state, err := session.Load(filepath.Dir(file))
		if err != nil {
			d.t.Error(err)
			continue
		}
		pids := map[string]int{"supervisor": state.SupervisorPID}
		for _, child := range state.Processes {
			pids[child.Name] = child.PID
		}
		for name, pid := range pids {
			err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 5*time.Second, true,
				func(context.Context) (bool, error) { return syscall.Kill(pid, 0) != nil, nil })
			if err != nil {
				d.t.Errorf("%s (process %d) is still there", name, pid)
			}
		}
	}
}

// eventually waits until the condition holds. The description is a sentence.
func eventually(t *testing.T, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, holds); err != nil {
		t.Fatalf("%s: not after %s: %v", what, time.Since(began).Round(time.Second), err)
	}
	t.Logf("%s: after %s", what, time.Since(began).Round(10*time.Millisecond))
}
