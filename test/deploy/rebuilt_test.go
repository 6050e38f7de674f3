//go:build e2e

package deploy_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// shortLived is how long the first certificates of TestCertificatesAreRenewed are good for: longer
	// than it takes to start everything on a busy machine.
	shortLived = "150s"
	// rebuiltWithin bounds the time in which services notice the state of a store, are restarted, and the ledger
	// begins a new generation, which takes half a minute.
	rebuiltWithin = 3 * time.Minute
	// expiredWithin is longer than shortLived.
	expiredWithin = 3 * time.Minute
)

// startOneOfEach starts one replica of each service that a pod needs.
func (s *system) startOneOfEach() []*member {
	s.Helper()
	var all []*member
	for _, service := range []string{"queue", "scheduler", "binder"} {
		all = append(all, s.start(service, service+"-0"))
	}
	return all
}

// watched are services that are started again when they end, as Kubernetes does.
type watched struct {
	*system
	members map[string]*member
	// ended counts the ends of each.
	ended map[string]int
}

// watch starts one replica of every service, and looks after them to the end of the test.
func (s *system) watch() *watched {
	s.Helper()
	w := &watched{system: s, members: map[string]*member{}, ended: map[string]int{}}
	for _, service := range []string{"queue", "scheduler", "binder", "descheduler"} {
		w.members[service] = s.begin(service, service+"-0")
	}
	kit.AtEnd(s.T, func(ctx context.Context) error {
		var err error
		for _, m := range w.members {
			err = errors.Join(err, m.Stop(ctx))
		}
		return err
	})
	w.ready("everything runs", nil)
	return w
}

// ready waits until all services are ready, and each of some has ended at least once.
func (w *watched) ready(what string, ended []string) {
	w.Helper()
	w.eventually(rebuiltWithin, what, func(ctx context.Context) (string, error) {
		missing := ""
		for service, m := range w.members {
			if m.Ended() != nil {
				w.Logf("%s is started again: %v", service, m.Ended())
				w.ended[service]++
				w.members[service] = w.begin(service, service+"-0")
				missing = service + " starts"
				continue
			}
			if text, err := m.missing(ctx); text != "" || err != nil {
				missing = fmt.Sprintf("%s: %s %v", service, text, err)
			}
		}
		for _, service := range ended {
			if w.ended[service] == 0 {
				missing = service + " has not noticed"
			}
		}
		return missing, nil
	})
	clear(w.ended)
}

// restart restarts every service in good order, as `kubectl rollout restart` does.
func (w *watched) restart() {
	w.Helper()
	for service, m := range w.members {
		w.must(m.Stop(w.Context()))
		w.members[service] = w.begin(service, service+"-0")
	}
	w.ready("all services have been restarted", nil)
}

// lost kills all members of a store and removes their volumes.
func (st *stores) lost(store string) {
	st.Helper()
	for n := range storeMembers {
		st.running[fmt.Sprintf("%s-%d", store, n)].Kill()
		st.must(os.RemoveAll(st.memberDir(store, n)))
	}
}

// TestALostStoreIsRebuilt follows the runbook for a store all of whose members are gone, with their volumes, or come
// back from a backup, step by step and nothing else: running pods stay where they are, and later pods are placed.
func TestALostStoreIsRebuilt(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	services := s.watch()
	s.workloads("before")
	before := s.places("before")
	all := []string{"queue", "scheduler", "binder", "descheduler"}
	steps := []struct {
		name string
		do   func()
	}{
		{"nats", func() {
			s.stores.lost("nats")
			s.stores.startAll("nats") // start it empty
			services.restart()        // restart the services
		}},
		{"etcd", func() {
			s.stores.lost("etcd")
			s.stores.startAll("etcd") // start it empty
			s.secureLedger()          // run the Job berth-etcd-roles again
			services.ready("every service has noticed and is back", all)
		}},
		{"etcd-restored", func() {
			backup := filepath.Join(s.dir, "backup")
			for n := range storeMembers {
				s.stores.running[fmt.Sprintf("etcd-%d", n)].Kill()
			}
			for n := range storeMembers {
				s.must(os.CopyFS(filepath.Join(backup, fmt.Sprint(n)), os.DirFS(s.stores.memberDir("etcd", n))))
			}
			s.stores.startAll("etcd")
			services.ready("an outage is ridden out", nil)
			s.workloads("since-the-backup")
			s.stores.lost("etcd")
			for n := range storeMembers {
				s.must(os.CopyFS(s.stores.memberDir("etcd", n), os.DirFS(filepath.Join(backup, fmt.Sprint(n)))))
			}
			s.stores.startAll("etcd") // restore it, and nothing else
			services.ready("every service has noticed and is back", all)
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			began := time.Now()
			step.do()
			s.workloads("after-" + step.name)
			t.Logf("pods are placed again after %s", time.Since(began).Round(time.Second))
			s.staysWhereItIs(t, before)
		})
	}
}

// staysWhereItIs checks that pods of before are where they were, and that no promise is broken.
func (s *system) staysWhereItIs(t *testing.T, before map[types.UID]string) {
	t.Helper()
	now := s.places("before")
	if len(now) != len(before) {
		t.Errorf("%d pods of before, want %d", len(now), len(before))
	}
	for uid, node := range before {
		if now[uid] != node {
			t.Errorf("pod %s was on %s and is on %q", uid, node, now[uid])
		}
	}
	result, err := programs.Command(t.Context(),
		append([]string{"check", "--kubeconfig", s.cluster.Kubeconfig}, s.ledgerFlags()...)...)
	s.must(err)
	if result.Code != 0 {
		t.Errorf("berth check: exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
	}
}

// places are the nodes of the pods of a namespace, by UID.
func (s *system) places(ns string) map[types.UID]string {
	s.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(s.Context(), metav1.ListOptions{LabelSelector: "app!=batch"})
	s.must(err) // those of Jobs end by themselves
	nodes := map[types.UID]string{}
	for _, p := range pods.Items {
		nodes[p.UID] = p.Spec.NodeName
	}
	return nodes
}

// TestCertificatesAreRenewed: certificates are replaced while everything runs, and the first ones
// expire. Then every connection is broken, so that each has to be made with the new ones.
func TestCertificatesAreRenewed(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates("--validity", shortLived)
	expires := s.expiry("queue")
	s.startStores()
	members := s.startOneOfEach()
	s.workloads("first")
	s.certificates()
	if again := s.expiry("queue"); !again.After(expires) {
		t.Fatalf("the new certificates are good until %s, the first until %s", again, expires)
	}
	for n := range storeMembers {
		s.must(s.stores.running[fmt.Sprintf("nats-%d", n)].Signal(syscall.SIGHUP)) // as nats-server --signal reload
	}
	s.eventually(expiredWithin, "the first certificates have expired", func(context.Context) (string, error) {
		return map[bool]string{true: "not yet"}[!time.Now().After(expires)], nil
	})
	for _, store := range []string{"etcd", "nats"} {
		for n := range storeMembers {
			s.stores.running[fmt.Sprintf("%s-%d", store, n)].Kill()
			s.stores.startMember(store, n)
			s.stores.ready(store, n)
		}
	}
	for _, m := range members {
		if err := m.Ended(); err != nil {
			t.Fatal(err)
		}
		m.client = s.reader("prometheus")
		s.eventually(readyWithin, m.Name+" is ready", m.missing)
	}
	s.workloads("second")
}

// expiry is until when a member's certificate is good.
func (s *system) expiry(name string) time.Time {
	s.Helper()
	raw, err := os.ReadFile(s.file(name, "tls.crt"))
	s.must(err)
	block, _ := pem.Decode(raw)
	if block == nil {
		s.Fatalf("%s: no certificate", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	s.must(err)
	return cert.NotAfter
}
