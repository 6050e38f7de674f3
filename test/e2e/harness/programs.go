package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are the built binaries of one checkout.
type Programs struct {
	// Root is the top folder of the repository.
	Root string
	// Cluster is the driver of local clusters, Berth the program under test.
	Cluster, Berth string
	// Env is added to the environment of every Berth that is started, each as name=value.
	Env []string
	// Kubernetes is the minor version of the clusters, such as 1.35, and of kube-scheduler; empty for the version
	// that most tests run on.
	Kubernetes string
}

// OlderKubernetes is a flag of tests that can run on an older version.
func OlderKubernetes() *string {
	return flag.String("kubernetes", "", "an older minor version of Kubernetes to run on, such as 1.35, "+
		"which make versions-check builds")
}

// Find finds the repository above the working directory and its binaries. A missing binary is
// an error that names the make target which builds it.
func Find() (Programs, error) {
	root, err := findRoot()
	if err != nil {
		return Programs{}, err
	}
	p := Programs{Root: root}
	var errs []error
	for _, program := range []struct {
		name, target string
		path         *string
	}{
		{"berth", "build", &p.Berth},
		{"cluster", "cluster-up", &p.Cluster},
	} {
		*program.path = filepath.Join(root, ".build", "bin", program.name)
		if _, err := os.Stat(*program.path); err != nil {
			errs = append(errs, fmt.Errorf("%w: run `make %s`, or `make e2e` for everything", err, program.target))
		}
	}
	return p, errors.Join(errs...)
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work above the working directory: run this inside a checkout of Berth")
		}
		dir = parent
	}
}

// Result is the result of a finished command.
type Result struct {
	// Stdout and Stderr are whole.
	Stdout, Stderr string
	// Code is the exit code; -1 when a signal ended the command.
	Code int
	// PeakMemory is the most that the command has had, in bytes; see peakOf.
	PeakMemory int64
}

// Command runs `berth args...` to its end. The error is about running it at all, or about ctx
// ending first; a non-zero exit code is not an error.
func (p Programs) Command(ctx context.Context, args ...string) (Result, error) {
	return run(ctx, p.Berth, args...)
}

func run(ctx context.Context, path string, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = killGrace
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode(),
		PeakMemory: peakOf(cmd.ProcessState)}
	if ctx.Err() != nil {
		return result, fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), ctx.Err(), result.Stderr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return result, nil
	}
	return result, err
}
