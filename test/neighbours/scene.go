package neighbours

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// shards and binders of the Berth that is compared: enough for races between them.
	shards, binders = 2, 2
	// stopWithin bounds the end of a run.
	stopWithin = 2 * time.Minute
)

// Scene is where one scenario runs beside one scheduler: a fresh cluster with the scheduler, and everything that the
// scenario starts.
type Scene struct {
	Programs harness.Programs
	Cluster  *harness.Cluster
	// Client is the administrator's.
	Client kubernetes.Interface
	// Scheduler is the one that runs. Scripts must not depend on it; what only one of them has may be looked at.
	Scheduler Scheduler
	// Address is where the scheduler serves its pages, if Scheduling.Start has chosen it.
	Address string
	// Berth is nil beside kube-scheduler.
	Berth *harness.Berth
	// Pods is how many pods a script of adjustable size has.
	Pods int
	// Dir gets data and logs.
	Dir string
	// Logf notes what happens; it is shown if the run fails, or with -v.
	Logf func(format string, args ...any)

	stops []func(context.Context) error
}

// Options of a run.
type Options struct {
	Programs harness.Programs
	// Pods is Scene.Pods.
	Pods int
	// Dir is where the run writes; the caller removes it.
	Dir string
	// Logf is Scene.Logf.
	Logf func(format string, args ...any)
}

// Play runs a scenario beside one scheduler, and ends everything that it started.
func Play(ctx context.Context, scenario Scenario, scheduler Scheduler, opts Options) (result Result, err error) {
	s := &Scene{Programs: opts.Programs, Scheduler: scheduler, Pods: opts.Pods, Dir: opts.Dir, Logf: opts.Logf}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	cfg := scenario.Cluster
	cfg.Dir = filepath.Join(s.Dir, "cluster")
	if s.Cluster, err = s.Programs.StartCluster(ctx, cfg); err != nil {
		return result, err
	}
	s.Client = s.Cluster.Client
	s.AtEnd(s.Cluster.Stop)
	if err := s.schedule(ctx, scenario.Scheduling); err != nil {
		return result, err
	}
	return scenario.Run(ctx, s)
}

// AtEnd registers how something that the scenario started ends; the last is ended first.
func (s *Scene) AtEnd(stop func(context.Context) error) { s.stops = append(s.stops, stop) }

func (s *Scene) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// Start starts a built program of the checkout and returns at once. Each of env is name=value. It is killed at the end.
func (s *Scene) Start(name, program string, env []string, args ...string) (*harness.Process, error) {
	p, err := s.Programs.StartWith(env, s.Dir, name, program, args...)
	if err != nil {
		return nil, err
	}
	s.AtEnd(func(context.Context) error { p.Kill(); return nil })
	return p, nil
}

// Eventually waits; see harness.Eventually.
func (s *Scene) Eventually(
	ctx context.Context, limit time.Duration, what string, check func(context.Context) (missing string, err error),
) error {
	return harness.Eventually(ctx, limit, what, check)
}

// File writes a file into Dir and returns its path.
func (s *Scene) File(name, content string) (string, error) {
	path := filepath.Join(s.Dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

// ModuleDir returns the folder of a Go module in the version that a module of the repository pins; from is the folder
// of the latter, relative to the repository, such as tools/neighbours/karpenter.
func (s *Scene) ModuleDir(ctx context.Context, from, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join(s.Programs.Root, filepath.FromSlash(from))
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("folder of module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
