//go:build e2e && serve

package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-scheduler/berth/test/kit"
)

// serving explains how to use the running system.
const serving = `
Berth runs on a local cluster as deploy/k8s/overlays/ha says: three etcd and three NATS with TLS, two
queues, three shards, two binders, two deschedulers. Logs are in .build/ha. In another terminal, here:

    source .build/ha/env

and then what docs/install.md says. Ctrl-C ends it.
`

// environment points kubectl at the cluster, and berth at the stores with full rights.
const environment = `export PATH=%s:$PATH
export KUBECONFIG=%s
export BERTH_LEDGER='%s'
export BERTH_LOG='%s'
`

// TestServe starts the same system as TestDemoAsShipped, and leaves it to its users until they interrupt it.
func TestServe(t *testing.T) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	build := filepath.Join(programs.Root, ".build")
	alone(t, filepath.Join(build, "ha.lock"))
	dir := filepath.Join(build, "ha")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	kit.Discard(t, dir)
	s := newSystemIn(t, dir, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	for name, m := range s.startAll() {
		s.pid(name, m.PID())
	}
	for name, process := range s.stores.running {
		s.pid(name, process.PID())
	}
	env := fmt.Sprintf(environment, filepath.Join(build, "bin"), s.cluster.Kubeconfig,
		strings.Join(s.ledgerFlags(), " "), strings.Join(s.logFlags(), " "))
	s.must(os.WriteFile(filepath.Join(dir, "env"), []byte(env), 0o644))
	fmt.Print(serving)
	select {
	case <-interrupted:
	case <-t.Context().Done():
	}
}

// alone refuses to run while another run uses the folder, which this run would delete.
func alone(t *testing.T, path string) {
	t.Helper()
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() }) // which gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatalf("another make ha-up runs in this folder (%s: %v)", path, err)
	}
}

// pid writes a member's process id to a file for users.
func (s *system) pid(name string, id int) {
	s.Helper()
	s.must(os.WriteFile(filepath.Join(s.dir, name+".pid"), []byte(strconv.Itoa(id)+"\n"), 0o644))
}
