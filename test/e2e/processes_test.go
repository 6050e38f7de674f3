//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

// fleet is Berth as separate processes on stores of their own.
type fleet struct {
	*stack
	// natsURL and etcdURL are where the members find their stores.
	natsURL, etcdURL string
	// etcd is the store of the ledger, if it is a single one.
	etcd *harness.Store
	// members are the running processes by name.
	members map[string]*harness.Berth
}

// newFleet starts the stores, then two replicas of each service.
func newFleet(s *stack) *fleet {
	s.Helper()
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	f.etcdURL, f.natsURL = f.etcd.URL, f.store("nats").URL
	f.startAll()
	return f
}

// newFleetOn starts two replicas of each service on stores that run.
func newFleetOn(s *stack, etcdURL, natsURL string) *fleet {
	s.Helper()
	f := &fleet{stack: s, members: map[string]*harness.Berth{}, etcdURL: etcdURL, natsURL: natsURL}
	f.startAll()
	return f
}

func (f *fleet) startAll() {
	f.Helper()
	for _, service := range []string{"queue", "scheduler", "binder"} {
		for i := range 2 {
			f.start(service, fmt.Sprintf("%s-%d", service, i))
		}
	}
}

func (f *fleet) store(name string) *harness.Store {
	f.Helper()
	store, err := programs.StartStore(f.Context(), name, filepath.Join(f.dir, name))
	f.must(err)
	kit.AtEnd(f.T, store.Stop)
	if name == "etcd" {
		f.record(store.URL, harness.HistoryConfig{Etcd: store.URL})
	}
	return store
}

func (f *fleet) start(service, name string, args ...string) {
	f.Helper()
	cfg := harness.RunConfig{
		Service: service, Name: name, NATS: f.natsURL, Etcd: f.etcdURL, LogDir: f.dir, Args: args,
	}
	if service != "scheduler" {
		cfg.Kubeconfig = f.cluster.Kubeconfig
	}
	member, err := programs.Run(f.Context(), cfg)
	f.must(err)
	f.members[name] = member
	f.stopAtEnd(member)
}

// Two queues, two scheduler shards and two binders, each a process, do together the work of one process. Any of them
// may be killed in the middle of a burst: the others finish it. A replacement joins without manual help.
func TestKillOneProcessInTheMiddleOfABurst(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	together := s.namespace("together")
	s.create(newPods(together, "pod", some, "100m")...)
	s.bound(together, some, placedWithin)
	s.boundOnce(together)
	for _, service := range []string{"scheduler", "binder", "queue"} {
		ns := s.namespace("without-" + service)
		created := s.burst(ns)
		s.bound(ns, some, placedWithin)
		// The first to start leads where there is a leader.
		f.members[service+"-0"].Kill()
		created()
		s.bound(ns, burst, recoveredWithin)
		s.boundAtMostOnce(ns)
		f.start(service, service+"-2")
	}
	ns := s.namespace("afterwards")
	s.create(newPods(ns, "pod", some, "100m")...)
	s.bound(ns, some, placedWithin)
	s.audit()
}
