package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a program may take to stop after SIGTERM before it is killed.
	stopGrace = 30 * time.Second
	// killGrace is how long a killed program's pipes may stay open.
	killGrace = 5 * time.Second
	// tailLines and tailWidth are how much of a log an error carries.
	tailLines, tailWidth = 40, 400
)

// Process is one running program with its log.
type Process struct {
	// Name is for messages.
	Name string
	// Log is the file that both output streams go to.
	Log string

	cmd  *exec.Cmd
	done chan struct{}
	// err is set before done is closed.
	err error
}

// start runs a program and returns at once. Its output is appended to dir/<name>.log.
func start(dir, name, path string, args ...string) (*Process, error) {
	return startWith(nil, dir, name, path, args...)
}

// startWith is start with variables added to the environment, each as name=value.
func startWith(env []string, dir, name, path string, args ...string) (*Process, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &Process{Name: name, Log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		// The kernel ties the child to the thread that started it, so the thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		_ = log.Close() // the child had its own descriptor
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended is nil while the program runs, else an error with its exit status and the end of its
// log.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%s)\n%s", p.Name, p.cmd.ProcessState, p.Tail())
	default:
		return nil
	}
}

// Stop asks the program to end and waits. It is an error when it ends with a failure, and when
// it has to be killed. Safe to call again.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.done:
		return p.verdict()
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-p.done
		return p.verdict()
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-p.done:
		return p.verdict()
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not stop within %s of SIGTERM\n%s", p.Name, stopGrace, p.Tail())
	}
}

func (p *Process) verdict() error {
	if p.err == nil || p.killed() {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", p.Name, p.err, p.Tail())
}

func (p *Process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Kill ends the program with SIGKILL, as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it is gone already
	<-p.done
}

// Signal sends a signal, SIGSTOP and SIGCONT among them.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Tail is the end of the log.
func (p *Process) Tail() string { return tail(p.Log) }

// tail returns the last lines of a file under a header with its name.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("--- %s: %v", path, err)
	}
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	var b strings.Builder
	fmt.Fprintf(&b, "--- the end of %s", path)
	for _, line := range lines[max(0, len(lines)-tailLines):] {
		fmt.Fprintf(&b, "\n    %s", line[:min(len(line), tailWidth)])
	}
	return b.String()
}

// StartProgram starts a built program of the checkout; its output is written to dir/<name>.log.
func (p Programs) StartProgram(dir, name, program string, args ...string) (*Process, error) {
	return start(dir, name, filepath.Join(filepath.Dir(p.Berth), program), args...)
}

// StartWith is StartProgram with variables added to the environment, each as name=value.
func (p Programs) StartWith(env []string, dir, name, program string, args ...string) (*Process, error) {
	return startWith(env, dir, name, filepath.Join(filepath.Dir(p.Berth), program), args...)
}

// Start starts any program and returns at once. Its output is appended to dir/<name>.log.
func Start(dir, name, path string, args ...string) (*Process, error) {
	return start(dir, name, path, args...)
}
