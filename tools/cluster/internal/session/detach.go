package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// progressFD passes a supervisor in the background the descriptor on which it reports progress to the command that
// started it.
const progressFD = "BERTH_CLUSTER_PROGRESS_FD"

// backgroundProgress returns where a background supervisor reports, and
// whether this process is one. The variable is taken out of the environment:
// it is not for the children.
func backgroundProgress() (*os.File, bool, error) {
	value, ok := os.LookupEnv(progressFD)
	if !ok {
		return nil, false, nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", progressFD, err)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "progress"), true, os.Unsetenv(progressFD)
}

// detach runs the same command line as a supervisor in a session of its own and returns when that is ready or has
// failed. The supervisor's output goes to a file, never to our own descriptors: a caller that reads those to their
// end would otherwise wait for the cluster to end.
func detach(ctx context.Context, opts Options) error {
	if alive, err := process.Alive(opts.Dir); err != nil {
		return err
	} else if alive {
		return fmt.Errorf("%s: %w", opts.Dir, process.ErrLocked)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	logPath := filepath.Join(opts.Dir, "log", "supervisor.log")
	if err := os.MkdirAll(filepath.Dir(logPath), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), progressFD+"=3")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{writer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = writer.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	return follow(ctx, opts, cmd.Process, reader)
}

// follow shows the supervisor's progress until it closes its end, then
// reports how it went.
func follow(ctx context.Context, opts Options, supervisor *os.Process, progress *os.File) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	unhook := context.AfterFunc(ctx, func() { _ = supervisor.Signal(syscall.SIGTERM) })
	defer unhook()
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		fmt.Fprintln(opts.Progress, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return err
	}
	state, err := Load(opts.Dir)
	if err != nil {
		return err
	}
	if state.SupervisorPID != supervisor.Pid || state.Phase != Ready {
		_, waitErr := supervisor.Wait()
		return errors.Join(fmt.Errorf("not ready: %s (more in %s)", state.Message,
			filepath.Join(opts.Dir, "log", "supervisor.log")), waitErr)
	}
	content, err := state.JSON()
	if err != nil {
		return err
	}
	_, err = opts.Out.Write(content)
	return errors.Join(err, supervisor.Release())
}
