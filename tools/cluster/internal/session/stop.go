package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// stopWithin bounds an orderly stop; children have their own, shorter bounds.
const stopWithin = 45 * time.Second

// reapedWithin bounds the wait for ids to disappear after the lock is free.
const reapedWithin = 250 * time.Millisecond

// killWithin bounds the end of processes that were killed.
const killWithin = 10 * time.Second

// Stop ends the session of dir and returns when no process of it is left. It
// is no error if none was running.
func Stop(ctx context.Context, dir string) error {
	alive, err := process.Alive(dir)
	if err != nil || !alive {
		return err
	}
	state, err := Load(dir)
	if err != nil {
		return err
	}
	pids := []int{state.SupervisorPID}
	for _, child := range state.Processes {
		pids = append(pids, child.PID)
	}
	defer waitReaped(ctx, pids)
	orderly := signalAll(syscall.SIGTERM, state.SupervisorPID)
	if orderly == nil {
		bounded, cancel := context.WithTimeout(ctx, stopWithin)
		defer cancel()
		if orderly = process.WaitGone(bounded, dir); orderly == nil {
			return nil
		}
	}
	// The supervisor is stuck, or was killed where the kernel does not take its
	// children along. The lock is still held, so some of these ids are alive
	// and ours; one that ended and was reused since is the risk that remains.
	killed := signalAll(syscall.SIGKILL, pids...)
	bounded, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	if err := process.WaitGone(bounded, dir); err != nil {
		return fmt.Errorf("processes of %s still running: %w", dir, errors.Join(err, orderly, killed))
	}
	return nil
}

// waitReaped waits a little until the ids are gone too. A process gives up its files, and with them the lock, just
// before it ends, and then stays visible until its parent has taken note. Ids that stay are no error: the process
// that adopts a detached supervisor may be slow, and an id may have been reused.
func waitReaped(ctx context.Context, pids []int) {
	ctx, cancel := context.WithTimeout(ctx, reapedWithin)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil }), nil
	})
}

// signalAll signals every process and fails if none of them exists.
func signalAll(sig syscall.Signal, pids ...int) error {
	var errs []error
	reached := false
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			errs = append(errs, fmt.Errorf("signal process %d: %w", pid, err))
			continue
		}
		reached = true
	}
	if reached {
		return nil
	}
	return errors.Join(errs...)
}
