package process

import (
	"bytes"
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

// Spec describes a child program.
type Spec struct {
	// Name appears in messages and in the state file.
	Name string
	// Path is the program, Args its arguments.
	Path string
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// LogFile receives stdout and stderr, appended.
	LogFile string
	// Grace is the time between SIGTERM and SIGKILL; zero means 10 s.
	Grace time.Duration
	// MayEnd means that the program's work can be done: status 0 is no fault.
	MayEnd bool
}

// Child is a started program. It is waited for from the moment it starts, so
// it never lingers as a zombie.
type Child struct {
	spec    Spec
	cmd     *exec.Cmd
	logFrom int64
	done    chan struct{}
	exit    error // read after done is closed
}

// Start starts the program. The child keeps lock open for its whole life.
func Start(spec Spec, lock *Lock) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithSupervisor(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	child := &Child{spec: spec, cmd: cmd, logFrom: from, done: make(chan struct{})}
	go func() {
		child.exit = cmd.Wait()
		close(child.done)
	}()
	return child, nil
}

// Name is the name the child was started under.
func (c *Child) Name() string { return c.spec.Name }

// PID is the child's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// LogFile is where the child writes.
func (c *Child) LogFile() string { return c.spec.LogFile }

// Done is closed when the child has exited and has been waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// ExitError describes how the child ended, with the end of its output, or returns nil if it had done its work. It may
// be called only after Done is closed.
func (c *Child) ExitError() error {
	if c.exit == nil && c.spec.MayEnd {
		return nil
	}
	how := "exited with status 0"
	if c.exit != nil {
		how = c.exit.Error()
	}
	return fmt.Errorf("%s exited unexpectedly (%s); end of %s:\n%s",
		c.spec.Name, how, c.spec.LogFile, c.logTail(15))
}

// Stop asks the child to end, insists after its grace period, and returns
// when it is gone. It reports whether it had to insist.
func (c *Child) Stop() (killed bool, err error) {
	select {
	case <-c.done:
		return false, nil
	default:
	}
	grace := c.spec.Grace
	if grace == 0 {
		grace = 10 * time.Second
	}
	if err := c.signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-c.done:
		return false, nil
	case <-ctx.Done():
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		return true, err
	}
	<-c.done
	return true, nil
}

func (c *Child) signal(sig syscall.Signal) error {
	err := c.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", c.spec.Name, err)
	}
	return nil
}

// Logged reports whether this run of the child has written text to its log.
func (c *Child) Logged(text string) bool {
	content, err := os.ReadFile(c.spec.LogFile)
	if err != nil || int64(len(content)) < c.logFrom {
		return false
	}
	return bytes.Contains(content[c.logFrom:], []byte(text))
}

func (c *Child) logTail(lines int) string {
	content, err := os.ReadFile(c.spec.LogFile)
	if err != nil {
		return err.Error()
	}
	if int64(len(content)) > c.logFrom {
		content = content[c.logFrom:]
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
