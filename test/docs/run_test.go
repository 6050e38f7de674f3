//go:build e2e

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// commandWithin bounds one block of commands; builds and the demo take the longest.
	commandWithin = 15 * time.Minute
	// readyWithin bounds the time until an ongoing command is ready, endsWithin the time that it takes to end after
	// an interrupt.
	readyWithin = 5 * time.Minute
	endsWithin  = time.Minute
	// sixtyNodes are the nodes of a page's cluster.
	sixtyNodes = "tools/cluster/examples/demo-nodes.yaml"
)

var only = flag.String("pages", ".", "run the commands of the documents whose names match")

// reader follows a page from top to bottom, in a folder of its own that looks like a checkout.
type reader struct {
	*testing.T
	// folder is where they are; env a file with the variables that they have set.
	folder, env string
	// variables are the reader's initial environment: CLUSTER leads to the page's cluster, PARENT is the process with
	// which the programs of tools/cluster end, FLEET_DIR the folder of examples/fleet.sh, whose fleet is ended with
	// the page.
	variables []string
	// goOn are the commands that have not ended.
	goOn []*ongoing
	// instead are texts of the page and their replacements here, in pairs.
	instead []string
	runs    int
}

// ongoing is a command that runs until it is interrupted.
type ongoing struct {
	cmd    *exec.Cmd
	output *os.File
	// ended is closed when it has, with err.
	ended chan struct{}
	err   error
}

// TestDocumentedCommandsRun runs the commands of README.md and docs/*.md, page by page, each with a local cluster of
// sixty nodes and no scheduler.
func TestDocumentedCommandsRun(t *testing.T) {
	programs, err := harness.Find()
	if err != nil {
		t.Fatal(err)
	}
	chosen := regexp.MustCompile(*only)
	for _, p := range pages(t) {
		if !p.runsAnything() || !chosen.MatchString(p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			r := newReader(t, programs)
			began := time.Now()
			for _, d := range p.steps {
				r.do(p.name, d)
			}
			r.interrupt()
			t.Logf("%d blocks of commands in %s", r.runs, time.Since(began).Round(time.Second))
		})
	}
}

func newReader(t *testing.T, programs harness.Programs) *reader {
	t.Helper()
	dir := kit.Dir(t, "docs")
	r := &reader{T: t, folder: filepath.Join(dir, "berth"), env: filepath.Join(dir, "env")}
	cluster, err := programs.StartCluster(t.Context(), harness.ClusterConfig{
		Dir: filepath.Join(dir, "cluster"), Nodes: filepath.Join(programs.Root, filepath.FromSlash(sixtyNodes)),
	})
	r.must(err)
	kit.AtEnd(t, cluster.Stop)
	t.Cleanup(r.tidy)
	r.checkout(programs.Root)
	home := filepath.Join(dir, "home")
	r.must(os.MkdirAll(filepath.Join(home, ".kube"), 0o755))
	r.must(os.MkdirAll(filepath.Join(dir, "tmp"), 0o755))
	r.must(os.Symlink(cluster.Kubeconfig, filepath.Join(home, ".kube", "config")))
	path := filepath.Join(dir, "bin") + ":" + filepath.Dir(programs.Berth) + ":" + os.Getenv("PATH")
	r.variables = append(os.Environ(), "HOME="+home, "PATH="+path, "TMPDIR="+filepath.Join(dir, "tmp"),
		"KUBECONFIG="+cluster.Kubeconfig, "CLUSTER="+cluster.Kubeconfig,
		fmt.Sprintf("PARENT=%d", os.Getpid()), "FLEET_DIR="+filepath.Join(dir, "fleet"))
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		r.must(err)
		r.variables = append(r.variables, name+"="+strings.TrimSpace(string(value)))
	}
	return r
}

// tidy ends what a page that failed has left running.
func (r *reader) tidy() {
	r.interrupt()
	if _, err := os.Stat(filepath.Join(filepath.Dir(r.folder), "fleet")); err != nil {
		return
	}
	kit.Stop(r.T, func(ctx context.Context) error {
		output, err := r.command(ctx, "examples/fleet.sh down").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	})
}

// checkout makes the reader's folder: links to the repository's content, so that files that commands write are not
// created in the repository; and a wrapper of make, which has to run in its makefile's folder.
func (r *reader) checkout(root string) {
	r.Helper()
	bin := filepath.Join(filepath.Dir(r.folder), "bin")
	r.must(os.MkdirAll(bin, 0o755))
	r.must(os.MkdirAll(r.folder, 0o755))
	program, err := exec.LookPath("make")
	r.must(err)
	makes := fmt.Sprintf("#!/bin/sh\nexec %s -C '%s' \"$@\"\n", program, root)
	r.must(os.WriteFile(filepath.Join(bin, "make"), []byte(makes), 0o755))
	entries, err := os.ReadDir(root)
	r.must(err)
	r.must(os.MkdirAll(filepath.Join(root, ".build"), 0o755))
	for _, entry := range entries {
		r.must(os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(r.folder, entry.Name())))
	}
}

// must ends the page on an error.
func (r *reader) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// do does one thing; a page whose commands fail is not gone on with.
func (r *reader) do(page string, d pageStep) {
	r.Helper()
	text := strings.NewReplacer(r.instead...).Replace(d.text)
	at := fmt.Sprintf("%s:%d: %s", page, d.line, strings.TrimSpace(text))
	began := time.Now()
	switch d.action {
	case notRun:
		return
	case interrupts:
		r.interrupt()
		return
	case substitutes:
		output, err := r.command(r.Context(), text).Output()
		if err != nil || len(bytes.TrimSpace(output)) == 0 {
			r.Fatalf("%s\n%v, nothing stands for %s", at, err, d.about)
		}
		r.instead = append(r.instead, d.about, string(bytes.TrimSpace(output)))
		return
	case runsOn:
		r.begin(at, text, strings.NewReplacer(r.instead...).Replace(d.about))
	case runs:
		r.run(at, text, d.exits)
	}
	if d.shown {
		r.runs++
	}
	r.Logf("%s\n[%s]", at, time.Since(began).Round(100*time.Millisecond))
}

// run has commands run to their end.
func (r *reader) run(at, text string, exits int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), commandWithin)
	defer cancel()
	output, err := r.command(ctx, text).CombinedOutput()
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		r.Fatalf("%s\n%v", at, err)
	}
	if code != exits {
		r.Fatalf("%s\nexit code %d, want %d\n%s", at, code, exits, output)
	}
}

// command is a shell that continues where the previous one ended.
func (r *reader) command(ctx context.Context, text string) *exec.Cmd {
	script := fmt.Sprintf(
		"if [ -f '%[1]s' ]; then . '%[1]s'; fi\nset -euo pipefail\n%[2]s\nexport -p > '%[1]s'\n", r.env, text)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = r.folder, r.variables
	cmd.WaitDelay = endsWithin
	return cmd
}

// begin starts an ongoing command, and waits until it is ready.
func (r *reader) begin(at, text, ready string) {
	r.Helper()
	output, err := os.CreateTemp(filepath.Dir(r.folder), "goes-on-")
	r.must(err)
	one := &ongoing{output: output, ended: make(chan struct{})}
	one.cmd = exec.Command("bash", "-c", fmt.Sprintf("if [ -f '%[1]s' ]; then . '%[1]s'; fi\n%[2]s\n", r.env, text))
	one.cmd.Dir, one.cmd.Env, one.cmd.Stdout, one.cmd.Stderr = r.folder, r.variables, output, output
	one.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.must(one.cmd.Start())
	go func() {
		one.err = one.cmd.Wait()
		close(one.ended)
	}()
	r.goOn = append(r.goOn, one)
	r.must(harness.Eventually(r.Context(), readyWithin, at+"\nis ready", func(ctx context.Context) (string, error) {
		select {
		case <-one.ended:
			return "", errors.New(fmt.Sprint("it ended: ", one.err, "\n", one.text()))
		default:
		}
		if out, err := r.command(ctx, ready).CombinedOutput(); err != nil {
			return fmt.Sprintf("%v\n%s\n%s", err, out, one.text()), nil
		}
		return "", nil
	}))
}

// text is the output of an ongoing command so far.
func (o *ongoing) text() string {
	content, err := os.ReadFile(o.output.Name())
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// interrupt ends ongoing commands as Ctrl-C does, the last first.
func (r *reader) interrupt() {
	for len(r.goOn) > 0 {
		one := r.goOn[len(r.goOn)-1]
		r.goOn = r.goOn[:len(r.goOn)-1]
		if err := syscall.Kill(-one.cmd.Process.Pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.Error(err)
		}
		select {
		case <-one.ended:
		case <-time.After(endsWithin):
			r.Errorf("%v did not end within %s of an interrupt\n%s", one.cmd.Args, endsWithin, one.text())
			_ = syscall.Kill(-one.cmd.Process.Pid, syscall.SIGKILL) // gone is fine too
		}
		_ = one.output.Close() // was read by its name
	}
}
