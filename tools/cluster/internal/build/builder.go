package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// buildEnv is set for every build on top of the user's environment. Without
// cgo the programs are static and a C compiler is not needed; GOFLAGS replaces
// the user's own so that equal inputs give equal programs.
var buildEnv = []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly"}

// Builder builds targets of one checkout.
type Builder struct {
	// Layout says where inputs and outputs are.
	Layout Layout
	// Out receives one line per step. It is never nil.
	Out io.Writer
	// Heartbeat is the time between signs of life of a running build; zero
	// means 20 s.
	Heartbeat time.Duration
}

// Named brings targets and groups of targets up to date by their names, in the checkout of the working directory.
func Named(ctx context.Context, names []string, out io.Writer) error {
	targets, err := Select(names)
	if err != nil {
		return err
	}
	layout, err := FindLayout()
	if err != nil {
		return err
	}
	return Builder{Layout: layout, Out: out}.Build(ctx, targets)
}

// Build brings the targets up to date in order and stops at the first that
// fails, with the compiler's output in the error.
func (b Builder) Build(ctx context.Context, targets []Target) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, target := range targets {
		if err := b.buildOne(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

// lock waits until no other process builds into the same directory.
func (b Builder) lock() (func(), error) {
	path := filepath.Join(b.Layout.Root, ".build", "build.lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(b.Out, "build: waiting for another build of this checkout")
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func (b Builder) buildOne(ctx context.Context, t Target) error {
	dir := b.Layout.ModuleDir(t)
	identity, err := goIdentity(ctx, dir)
	if err != nil {
		return err
	}
	digest, err := fingerprint(dir, t, identity)
	if err != nil {
		return err
	}
	if b.Layout.upToDate(t, digest) {
		fmt.Fprintf(b.Out, "build: %s is up to date\n", t.Name)
		return nil
	}
	stamp := b.Layout.Stamp(t)
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(stamp), 0o755),
		os.MkdirAll(b.Layout.BinDir(), 0o755),
		removeIfPresent(stamp),
	); err != nil {
		return err
	}
	if err := b.compile(ctx, t, dir); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(b.Layout.BinDir(), t.Name))
	if err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(stampText(digest, info.Size())), 0o644)
}

// compile runs the Go command for one target and reports while it runs. The
// program appears under its name only when it is whole: a cluster that runs
// the old one keeps its file.
func (b Builder) compile(ctx context.Context, t Target, dir string) error {
	fmt.Fprintf(b.Out, "build: %s ... (takes about %s on two cores with empty caches)\n",
		t.Name, minutes(t.Cold))
	start := time.Now()
	final := filepath.Join(b.Layout.BinDir(), t.Name)
	fresh := final + ".new"
	watched := &transcript{}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-tags", t.Tags, "-ldflags", t.LDFlags, "-o", fresh, t.Package)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	cmd.Stdout, cmd.Stderr = watched, watched
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second

	stop := b.heartbeat(t, start, watched)
	err := cmd.Run()
	stop()
	if err != nil {
		return errors.Join(
			fmt.Errorf("build %s in %s: %w\n%s", t.Name, dir, err, watched.text()),
			removeIfPresent(fresh))
	}
	if err := os.Rename(fresh, final); err != nil {
		return err
	}
	fmt.Fprintf(b.Out, "build: %s done in %s\n", t.Name, time.Since(start).Round(time.Second))
	return nil
}

// heartbeat prints a line now and then until the returned function is called.
func (b Builder) heartbeat(t Target, start time.Time, watched *transcript) func() {
	period := b.Heartbeat
	if period == 0 {
		period = 20 * time.Second
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(b.Out, "build: %s ... %s so far%s\n",
					t.Name, time.Since(start).Round(time.Second), watched.downloads())
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// goIdentity names the Go release and platform that a module is built with;
// the module's own toolchain line has its say, hence the folder.
func goIdentity(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH", "GOEXPERIMENT")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("read the version of the go command: %w", err)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}

func removeIfPresent(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func minutes(d time.Duration) string {
	if d <= time.Minute {
		return "1 minute"
	}
	return fmt.Sprintf("%d minutes", int(d.Minutes()))
}
