//go:build e2e && serve

package deploy_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// serving says how to use what runs.
const serving = `
Berth runs on a local cluster as deploy/k8s/overlays/ha says: three etcd and three NATS with TLS, two
queues, three shards, two binders, two deschedulers. Logs are in %[1]s. In another terminal:

    export PATH=%[2]s:$PATH KUBECONFIG=%[3]s
    kubectl create deployment hello --image=registry.k8s.io/pause:3.10 --replicas=3
    kubectl patch deployment hello --patch '{"spec":{"template":{"spec":{"schedulerName":"berth"}}}}'
    kubectl get pods -o wide
    berth check %[4]s

Ctrl-C ends it.
`

// TestServe starts what TestDemoAsShipped does, and leaves it to people until they interrupt it.
func TestServe(t *testing.T) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	s.startAll()
	fmt.Printf(serving, s.dir, filepath.Join(programs.Root, ".build", "bin"), s.cluster.Kubeconfig,
		strings.Join(s.ledgerFlags(), " "))
	select {
	case <-interrupted:
	case <-t.Context().Done():
	}
}
