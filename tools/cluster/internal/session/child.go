package session

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// attempts bounds how often a child is started again because another process
// took one of its ports between the choice and the use.
const attempts = 5

// readyWithin bounds the start of one child. The slowest, an API server on a
// loaded machine, needs a tenth of it.
const readyWithin = 2 * time.Minute

// Program is a child to start and to wait for.
type Program struct {
	// Ports is how many free TCP ports it needs.
	Ports int
	// Fixed means that the user chose a port: if it is taken, that is an error.
	Fixed bool
	// Spec describes the child once the ports are known; its log file is set
	// by the session.
	Spec func(ports []int) (process.Spec, error)
	// Ready reports whether the child answers; nil means as soon as it runs.
	// What it returns as an error is shown if the wait is given up.
	Ready func(ctx context.Context) error
}

// Launch starts a program, again with other ports if they were taken, and
// returns when it is ready.
func (s *Session) Launch(ctx context.Context, program Program) error {
	for attempt := 1; ; attempt++ {
		ports, err := process.FreePorts(program.Ports)
		if err != nil {
			return err
		}
		spec, err := program.Spec(ports)
		if err != nil {
			return err
		}
		child, err := s.start(spec)
		if err != nil {
			return err
		}
		began := time.Now()
		err = waitReady(ctx, child, program.Ready)
		if err == nil {
			s.Logf("%s up in %s (pid %d)", spec.Name, time.Since(began).Round(10*time.Millisecond), child.PID())
			return nil
		}
		if program.Fixed || !child.PortTaken() || attempt == attempts {
			return err
		}
		s.Logf("%s: port already in use; trying others", spec.Name)
		if err := s.abandon(child); err != nil {
			return err
		}
	}
}

func (s *Session) start(spec process.Spec) (*process.Child, error) {
	spec.LogFile = filepath.Join(s.State.Dir, "log", spec.Name+".log")
	child, err := process.Start(spec, s.lock)
	if err != nil {
		return nil, err
	}
	s.children = append(s.children, child)
	s.State.Processes = append(s.State.Processes, Process{
		Name: spec.Name, PID: child.PID(), Log: spec.LogFile,
	})
	return child, s.State.save()
}

// abandon forgets the child that was started last.
func (s *Session) abandon(child *process.Child) error {
	if _, err := child.Stop(); err != nil {
		return err
	}
	s.children = s.children[:len(s.children)-1]
	s.State.Processes = s.State.Processes[:len(s.State.Processes)-1]
	return nil
}

// waitReady polls until the child answers, ends, or takes too long.
func waitReady(ctx context.Context, child *process.Child, ready func(context.Context) error) error {
	if ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-child.Done():
			err := child.ExitError()
			return err == nil, err
		default:
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil && ctx.Err() != nil {
		return fmt.Errorf("%s is not ready (see %s): %w; last answer: %w", child.Name(), child.LogFile(), err, last)
	}
	return err
}
