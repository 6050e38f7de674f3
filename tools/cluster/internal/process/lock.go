package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrLocked reports that processes of a directory are running.
var ErrLocked = errors.New("already in use by running processes")

// Lock is the mark of a directory whose processes run.
type Lock struct{ file *os.File }

// Acquire takes the lock of dir or returns ErrLocked.
func Acquire(dir string) (*Lock, error) {
	file, err := os.OpenFile(lockPath(dir), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Lock{file: file}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), file.Close())
}

// Release gives up this process's part of the lock; children keep theirs.
func (l *Lock) Release() error { return l.file.Close() }

// Alive reports whether any process of dir is running. A directory that does
// not exist has none.
func Alive(dir string) (bool, error) {
	if _, err := os.Stat(lockPath(dir)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	lock, err := Acquire(dir)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Release()
}

// WaitGone returns when no process of dir is running, or with the context's
// error.
func WaitGone(ctx context.Context, dir string) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		alive, err := Alive(dir)
		return !alive, err
	})
}

// Watch calls gone once when the process pid no longer exists. The
// handle is taken now, so on Linux a later process with the same id is not
// mistaken for it.
func Watch(ctx context.Context, pid int, gone func()) error {
	watched, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	go func() {
		err := wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true, func(context.Context) (bool, error) {
			err := watched.Signal(syscall.Signal(0))
			return err != nil && !errors.Is(err, syscall.EPERM), nil
		})
		if err == nil {
			gone()
		}
	}()
	return nil
}

func lockPath(dir string) string { return filepath.Join(dir, "lock") }
