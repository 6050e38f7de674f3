package process

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// start runs a script as a child in a directory of its own.
func start(t *testing.T, script string) (*Child, string) {
	t.Helper()
	dir := t.TempDir()
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	child, err := Start(Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script},
		LogFile: filepath.Join(dir, "log", "script.log"), Grace: 200 * time.Millisecond,
	}, lock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := child.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	return child, dir
}

func logged(t *testing.T, child *Child, text string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return child.Logged(text), nil })
	if err != nil {
		t.Fatalf("the child never wrote %q", text)
	}
}

func TestAChildThatIgnoresSIGTERMIsKilled(t *testing.T) {
	child, _ := start(t, "trap '' TERM; echo deaf; while :; do sleep 1; done")
	logged(t, child, "deaf")
	if killed, err := child.Stop(); !killed || err != nil {
		t.Errorf("killed is %t, %v", killed, err)
	}
	if killed, err := child.Stop(); killed || err != nil {
		t.Errorf("a second stop: killed is %t, %v", killed, err)
	}
}

func TestTheLockIsHeldAsLongAsTheChildLives(t *testing.T) {
	child, dir := start(t, "echo up; exec sleep 1000")
	logged(t, child, "up")
	if alive, err := Alive(dir); !alive || err != nil {
		t.Errorf("with a child: alive is %t, %v", alive, err)
	}
	if _, err := Acquire(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("the lock can be taken: %v", err)
	}
	if killed, err := child.Stop(); killed || err != nil {
		t.Errorf("killed is %t, %v", killed, err)
	}
	if err := WaitGone(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

func TestExitErrorCarriesTheLastOutput(t *testing.T) {
	child, _ := start(t, "seq 100; echo address already in use >&2; exit 7")
	<-child.Done()
	text := child.ExitError().Error()
	if !strings.Contains(text, "exit status 7") || !strings.Contains(text, "\n100\n") || strings.Contains(text, "\n80\n") {
		t.Errorf("the error is %q, want the status and the last lines alone", text)
	}
	if !child.PortTaken() {
		t.Error("the taken port was not noticed")
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		seen[port] = true
	}
	if len(seen) != 20 {
		t.Errorf("the ports are %v, want 20 different ones", ports)
	}
}

func TestWatchNoticesTheEndOfAProcess(t *testing.T) {
	owner := exec.Command("/bin/sh", "-c", "exec sleep 1000")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	if err := Watch(t.Context(), owner.Process.Pid, func() { close(gone) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("a live process was taken for dead")
	default:
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	<-gone
}
