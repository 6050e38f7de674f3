package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is far more than any of these waits takes.
const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStopWaitsForTheEndAndReportsAFailure(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"clean", `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`, ""},
		{"failing", `trap 'echo broken; exit 3' TERM; echo up; while :; do sleep 0.01; done`, "exit status 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := shell(t, test.script)
			waitFor(t, p, "up")
			err := p.Stop(t.Context())
			if test.want == "" && err != nil {
				t.Error(err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), "broken")) {
				t.Errorf("got %v, want %q and the log", err, test.want)
			}
			if again := p.Stop(t.Context()); !errors.Is(again, errors.Unwrap(err)) {
				t.Errorf("the second Stop says %v, the first %v", again, err)
			}
		})
	}
}

func TestKillEndsAProcessThatDoesNotListen(t *testing.T) {
	p := shell(t, `trap '' TERM; echo up; while :; do sleep 0.01; done`)
	waitFor(t, p, "up")
	if err := p.Ended(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if p.Ended() == nil {
		t.Error("Ended says that it runs")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("stopping what was killed on purpose: %v", err)
	}
}

func TestEndedCarriesTheEndOfTheLog(t *testing.T) {
	p := shell(t, `for i in $(seq 1 100); do echo line $i; done; exit 1`)
	<-p.Done()
	err := p.Ended()
	if err == nil || !strings.Contains(err.Error(), "line 100") || strings.Contains(err.Error(), "line 60\n") {
		t.Errorf("got %v, want the last %d lines", err, tailLines)
	}
}

func TestEventuallyReportsWhatWasMissingLast(t *testing.T) {
	err := Eventually(t.Context(), 3*pollEvery, "the third pod", func(context.Context) (string, error) {
		return "2 of 3", nil
	})
	if err == nil || !strings.Contains(err.Error(), "2 of 3") {
		t.Errorf("got %v, want what was missing", err)
	}
	looks := 0
	err = Eventually(t.Context(), patience, "the second look", func(context.Context) (string, error) {
		looks++
		return strings.Repeat("wait", 2-looks), nil
	})
	if err != nil || looks != 2 {
		t.Errorf("got %v after %d looks", err, looks)
	}
	broken := errors.New("broken")
	err = Eventually(t.Context(), patience, "nothing", func(context.Context) (string, error) { return "", broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the check's own error", err)
	}
}

func TestCPUTimeGrowsWithWork(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	err = Eventually(t.Context(), patience, "a tenth of a second of work", func(context.Context) (string, error) {
		for n := range 50_000_000 {
			_ = n * n
		}
		after, err := CPUTime(os.Getpid())
		if err != nil || after-before >= 100*time.Millisecond {
			return "", err
		}
		return (after - before).String(), nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := CPUTime(-1); err == nil {
		t.Error("a process that does not exist has no time")
	}
}

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := start(t.TempDir(), "script", "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func waitFor(t *testing.T, p *Process, text string) {
	t.Helper()
	err := Eventually(t.Context(), patience, "the log says "+text, func(context.Context) (string, error) {
		content, err := os.ReadFile(p.Log)
		if err != nil || strings.Contains(string(content), text) {
			return "", err
		}
		return filepath.Base(p.Log) + " is " + string(content), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestResidentIsOfTheWholeProcess(t *testing.T) {
	got, err := Resident(os.Getpid())
	if err != nil || got < 1<<20 {
		t.Errorf("this process has %d bytes, %v: want more than a megabyte", got, err)
	}
	if _, err := Resident(-1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}
