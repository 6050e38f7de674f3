//go:build e2e

package chaos

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// supervisor runs a service and starts it again when it has ended, as Kubernetes would.
type supervisor struct {
	cfg      harness.RunConfig
	programs harness.Programs
	stopped  chan struct{}
	done     chan struct{}
	mu       struct {
		sync.Mutex
		running *harness.Berth
		// held: a fault keeps it down.
		held bool
		// wasReady: it has been ready since it was started.
		wasReady bool
		kills    int
		// ends are the unexpected ends of a process that had been ready; failedStarts counts those of a process that
		// never became ready: it could not reach its dependencies. storeReplaced counts those of a process that had to begin
		// again, because the ledger had been restored.
		ends                        []string
		failedStarts, storeReplaced int
	}
}

// run watches over the process until stop.
func (k *supervisor) run() {
	defer close(k.done)
	k.mu.Lock()
	k.mu.wasReady = true
	k.mu.Unlock()
	tick := time.NewTicker(restartAfter)
	defer tick.Stop()
	for {
		select {
		case <-k.stopped:
			return
		case <-tick.C:
			k.look()
		}
	}
}

func (k *supervisor) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.running == nil {
		if !k.mu.held {
			k.mu.running, _ = k.programs.Start(k.cfg) // looked at again at the next tick
			k.mu.wasReady = false
		}
		return
	}
	if err := k.mu.running.Ended(); err != nil {
		switch {
		case k.endedByReplacedStore():
			k.mu.storeReplaced++
		case k.mu.wasReady:
			k.mu.ends = append(k.mu.ends, err.Error())
		default:
			k.mu.failedStarts++
		}
		k.mu.running = nil
		return
	}
	if !k.mu.wasReady && !k.mu.held {
		ctx, cancel := context.WithTimeout(context.Background(), restartAfter)
		defer cancel()
		_, err := k.mu.running.Ready(ctx)
		k.mu.wasReady = err == nil
	}
}

// endedByReplacedStore reports whether the process's last message is that the ledger's store is not the one that it
// knew.
func (k *supervisor) endedByReplacedStore() bool {
	tail := strings.TrimSpace(k.mu.running.Tail())
	return strings.Contains(tail[strings.LastIndex(tail, "\n")+1:], "ledger: the store ")
}

// kill ends the process at once; the fault's end lets it be started again.
func (k *supervisor) kill() (repair func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.kills++
	k.mu.held = true
	if k.mu.running != nil {
		k.mu.running.Kill()
		k.mu.running = nil
	}
	return k.release
}

func (k *supervisor) release() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.held = false
	return nil
}

// pause stops the process where it is.
func (k *supervisor) pause() (repair func() error, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	paused := k.mu.running
	if paused == nil {
		return func() error { return nil }, nil
	}
	return func() error {
		_ = paused.Signal(syscall.SIGCONT) // fails only if it was killed in the meantime
		return nil
	}, paused.Signal(syscall.SIGSTOP)
}

// stop ends the supervisor, then the process.
func (k *supervisor) stop(ctx context.Context) error {
	close(k.stopped)
	<-k.done
	if k.mu.running == nil {
		return nil
	}
	if !k.mu.wasReady {
		k.mu.running.Kill() // it may be starting, and would report the interrupt
		return nil
	}
	return k.mu.running.Stop(ctx)
}
