package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// Options configure how a session runs, whatever it starts.
type Options struct {
	// Dir is the session's directory; it is created.
	Dir string
	// Owners end the session when any of these processes is gone; zeros are
	// ignored.
	Owners []int
	// Detach leaves the session running in the background once it is ready.
	Detach bool
	// Out receives the state as JSON when the session is ready, Progress the messages for users.
	Out, Progress io.Writer
}

// Start brings a session up: it starts children through the session and fills in the state.
type Start func(ctx context.Context, s *Session) error

// Session is a running session, as its Start function sees it.
type Session struct {
	// State is the future content of state.json; Start adds to it.
	State State

	lock     *process.Lock
	children []*process.Child
	progress io.Writer
}

// Run is a whole session: it returns when everything is stopped, or, if asked
// to detach, when everything is ready in the background.
func Run(ctx context.Context, opts Options, initial State, start Start) error {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return err
	}
	opts.Dir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	background, isBackground, err := backgroundProgress()
	if err != nil {
		return err
	}
	if opts.Detach && !isBackground {
		return detach(ctx, opts)
	}
	if isBackground {
		opts.Progress, opts.Out = background, io.Discard
	}
	s := &Session{State: initial, progress: opts.Progress}
	s.State.Dir, s.State.SupervisorPID, s.State.Phase = dir, os.Getpid(), Starting
	s.lock, err = process.Acquire(dir)
	if err != nil {
		return err
	}
	defer func() { _ = s.lock.Release() }()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return s.live(ctx, opts, start, func() {
		if isBackground {
			_ = background.Close()
			s.progress = os.Stderr // the supervisor's log file
		}
	})
}

// live brings the session up, watches over it and takes it down. announced is called when no command needs to wait
// for it any more.
func (s *Session) live(ctx context.Context, opts Options, start Start, announced func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, pid := range opts.Owners {
		if pid == 0 {
			continue
		}
		if err := process.Watch(ctx, pid, func() { cancel(errOwnerGone) }); err != nil {
			return err
		}
	}
	if err := s.State.save(); err != nil {
		return err
	}
	began := time.Now()
	err := start(ctx, s)
	if err == nil {
		err = s.announce(opts.Out, began)
	} else if ctx.Err() != nil {
		err = fmt.Errorf("stopped while starting: %w", context.Cause(ctx))
	}
	if err == nil {
		announced()
		err = s.watch(ctx)
	}
	err = errors.Join(err, s.takeDown(err))
	announced()
	return err
}

// announce makes the session known as ready.
func (s *Session) announce(out io.Writer, began time.Time) error {
	s.State.Phase = Ready
	if err := s.State.save(); err != nil {
		return err
	}
	content, err := s.State.JSON()
	if err != nil {
		return err
	}
	s.Logf("ready in %s, state in %s", time.Since(began).Round(10*time.Millisecond), statePath(s.State.Dir))
	_, err = out.Write(content)
	return err
}

// watch waits for the end of the session. A stop signal is not an error; a child that ends by itself is.
func (s *Session) watch(ctx context.Context) error {
	ended := make(chan *process.Child, len(s.children))
	for _, child := range s.children {
		go func() {
			<-child.Done()
			ended <- child
		}()
	}
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, errOwnerGone) {
			s.Logf("%s", cause)
		}
		return nil
	case child := <-ended:
		return child.ExitError()
	}
}

// takeDown stops the children, last started first, and records the end.
func (s *Session) takeDown(why error) error {
	s.State.Phase = Stopping
	errs := []error{s.State.save()}
	for i := len(s.children) - 1; i >= 0; i-- {
		child := s.children[i]
		began := time.Now()
		killed, err := child.Stop()
		errs = append(errs, err)
		how := "stopped"
		if killed {
			how = "killed"
		}
		s.Logf("%s %s in %s", child.Name(), how, time.Since(began).Round(10*time.Millisecond))
	}
	s.State.Phase = Stopped
	if why != nil {
		s.State.Phase, s.State.Message = Failed, why.Error()
	}
	return errors.Join(append(errs, s.State.save())...)
}

// Logf writes one message for users.
func (s *Session) Logf(format string, args ...any) {
	fmt.Fprintf(s.progress, "cluster: "+format+"\n", args...)
}

var errOwnerGone = errors.New("the parent process of this session exited")
