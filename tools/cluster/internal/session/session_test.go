package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

// shell is a program that runs a script and is ready as soon as it runs.
func shell(name, script string) Program {
	return Program{
		Spec: func([]int) (process.Spec, error) {
			return process.Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}}, nil
		},
	}
}

const forever = "exec sleep 1000"

// run runs a session to its end and returns its messages and its last state.
func run(t *testing.T, opts Options, start Start) (string, State, error) {
	t.Helper()
	var progress, out bytes.Buffer
	opts.Dir, opts.Progress, opts.Out = t.TempDir(), &progress, &out
	err := Run(t.Context(), opts, State{Kind: "store", Name: "test"}, start)
	state, loadErr := Load(opts.Dir)
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	if alive, aliveErr := process.Alive(opts.Dir); alive || aliveErr != nil {
		t.Errorf("something is left: %t, %v", alive, aliveErr)
	}
	return progress.String(), state, err
}

func TestChildrenStopInReverseOrder(t *testing.T) {
	owner := exec.Command("/bin/sh", "-c", "read line")
	release, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	options := Options{Owners: []int{0, owner.Process.Pid}}
	output, state, err := run(t, options, func(ctx context.Context, s *Session) error {
		for _, name := range []string{"first", "second"} {
			if err := s.Launch(ctx, shell(name, forever)); err != nil {
				return err
			}
		}
		return errors.Join(release.Close(), ignoreExit(owner.Wait()))
	})
	if err != nil || state.Phase != Stopped || len(state.Processes) != 2 {
		t.Errorf("the end is %v, %+v", err, state)
	}
	first, second := strings.Index(output, "first stopped"), strings.Index(output, "second stopped")
	if second < 0 || first < second {
		t.Errorf("the order is wrong:\n%s", output)
	}
}

func TestAChildThatEndsTakesTheSessionDown(t *testing.T) {
	_, state, err := run(t, Options{}, func(ctx context.Context, s *Session) error {
		return errors.Join(
			s.Launch(ctx, shell("steady", forever)),
			s.Launch(ctx, shell("broken", "echo out of luck; exit 3")))
	})
	if err == nil || !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v, want the child's last words and status", err)
	}
	if state.Phase != Failed || !strings.Contains(state.Message, "broken") {
		t.Errorf("the last state is %+v", state)
	}
}

func TestWorkThatIsDoneIsNoFault(t *testing.T) {
	_, state, err := run(t, Options{}, func(ctx context.Context, s *Session) error {
		program := shell("once", "exit 0")
		spec := program.Spec
		program.Spec = func(ports []int) (process.Spec, error) {
			made, err := spec(ports)
			made.MayEnd = true
			return made, err
		}
		return s.Launch(ctx, program)
	})
	if err != nil || state.Phase != Stopped {
		t.Errorf("the end is %v, %+v", err, state)
	}
}

func TestATakenPortIsTriedAgain(t *testing.T) {
	tries := 0
	output, state, err := run(t, Options{}, func(ctx context.Context, s *Session) error {
		err := s.Launch(ctx, Program{
			Ports: 1,
			Spec: func(ports []int) (process.Spec, error) {
				tries++
				script := forever
				if tries < 3 {
					script = fmt.Sprintf("echo listen %d: address already in use; exit 1", ports[0])
				}
				return process.Spec{Name: "server", Path: "/bin/sh", Args: []string{"-c", script}}, nil
			},
			Ready: func(context.Context) error {
				if tries < 3 {
					return errors.New("no answer")
				}
				return nil
			},
		})
		return errors.Join(err, errTestDone)
	})
	if !errors.Is(err, errTestDone) || tries != 3 || len(state.Processes) != 1 {
		t.Errorf("after %d tries: %v, %+v\n%s", tries, err, state, output)
	}
}

func TestADirectoryHasOneSession(t *testing.T) {
	_, _, err := run(t, Options{}, func(ctx context.Context, s *Session) error {
		second := Options{Dir: s.State.Dir, Out: &bytes.Buffer{}, Progress: &bytes.Buffer{}}
		return Run(ctx, second, State{}, func(context.Context, *Session) error { return nil })
	})
	if !errors.Is(err, process.ErrLocked) {
		t.Errorf("the error is %v, want ErrLocked", err)
	}
}

func TestStopIsContentWithNothing(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if err := Stop(t.Context(), dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "nothing was started") {
		t.Errorf("the error is %v", err)
	}
}

var errTestDone = errors.New("the test has seen enough")

// ignoreExit drops the status of a program whose input was closed.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
