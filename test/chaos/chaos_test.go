//go:build e2e

package chaos

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

var (
	lasts = flag.Duration("chaos", 45*time.Second, "how long things break")
	seed  = flag.Uint64("seed", 0, "seed of the plan and of the load; 0: TEST_SEED")
)

const (
	// nodes is the demonstration's file: 60 nodes in three zones.
	nodes = "tools/cluster/examples/demo-nodes.yaml"
	// podGroupGates are the feature gates of Kubernetes that gangs need.
	podGroupGates = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
	// members of each store.
	members = 3
	// restartAfter is how long a supervisor waits before it restarts a process that has ended.
	restartAfter = time.Second
	// settledWithin bounds the time from the last repair until every pod is bound.
	settledWithin = 4 * time.Minute
	// openWithin bounds the wait for the log.
	openWithin = time.Minute
	// historyMiB bounds the recording of a run.
	historyMiB = 512
)

// Everything breaks now and then, and nothing is lost, done twice or promised twice.
func TestChaos(t *testing.T) {
	s := newSite(t)
	g, ctx := errgroup.WithContext(t.Context())
	loading, stop := context.WithTimeout(ctx, *lasts)
	defer stop()
	g.Go(func() error { return s.load.run(loading, ctx) })
	g.Go(func() error { return s.injectFaults(ctx) })
	s.must(g.Wait())
	t.Logf("healed after %s; %d pods and %d gangs were created, %d pods deleted, %d nodes cordoned",
		*lasts, s.load.created, s.load.gangsCreated, s.load.deleted, s.load.cordons)
	began := time.Now()
	s.must(harness.Eventually(t.Context(), settledWithin, "every pod is bound", s.load.unbound))
	t.Logf("every pod was bound %s later", time.Since(began).Round(100*time.Millisecond))
	s.report()
	s.check()
}

// site is everything that runs.
type site struct {
	*testing.T
	programs    harness.Programs
	dir         string
	seed        uint64
	cluster     *harness.Cluster
	etcd, nats  *harness.Members
	proxies     *proxySet
	supervisors map[string]*supervisor
	// history is being recorded, earlier are those of ledgers that were lost since.
	history *harness.History
	earlier []*harness.History
	log     *jetstream.Log
	load    *load
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, seed: seedtest.First(t, *seed), proxies: newProxySet(), supervisors: map[string]*supervisor{}}
	t.Logf("chaos for %s with seed %d", *lasts, s.seed)
	var err error
	s.programs, err = harness.Find()
	s.must(err)
	s.dir = kit.Dir(t, "chaos")
	s.cluster, err = s.programs.StartCluster(t.Context(), harness.ClusterConfig{
		Dir: filepath.Join(s.dir, "cluster"), Nodes: filepath.Join(s.programs.Root, filepath.FromSlash(nodes)),
		RuntimeConfig: "scheduling.k8s.io/v1alpha2=true", FeatureGates: podGroupGates,
	})
	s.must(err)
	kit.AtEnd(s.T, s.cluster.Stop)
	s.etcd, err = s.programs.StartEtcd(t.Context(), filepath.Join(s.dir, "etcd"), members)
	s.must(err)
	kit.AtEnd(s.T, s.etcd.Stop)
	s.nats, err = s.programs.StartNATS(t.Context(), filepath.Join(s.dir, "nats"), members)
	s.must(err)
	kit.AtEnd(s.T, s.nats.Stop)
	t.Cleanup(s.proxies.close)
	s.must(s.record(t.Context()))
	// Members that have just met drop routes that they have twice, and requests with them.
	s.must(harness.Eventually(t.Context(), openWithin, "the log opens", func(ctx context.Context) (string, error) {
		if s.log, err = jetstream.Open(ctx, jetstream.Config{URLs: s.nats.URLs}); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}))
	t.Cleanup(s.log.Close)
	for _, name := range services {
		s.keep(name)
	}
	s.load, err = newLoad(t.Context(), s.cluster.Client, s.seed)
	s.must(err)
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// keep starts a service behind proxies of its own, and a supervisor that starts it again when it ends.
func (s *site) keep(name string) {
	s.Helper()
	cfg := harness.RunConfig{
		Service: serviceOf(name), Name: name, LogDir: s.dir, Args: []string{"--nats-replicas", fmt.Sprint(members)},
	}
	var err error
	cfg.Etcd, err = s.proxies.addAll(name, "etcd", s.etcd.URLs)
	s.must(err)
	cfg.NATS, err = s.proxies.addAll(name, "nats", s.nats.URLs)
	s.must(err)
	if cfg.Service != "scheduler" {
		cfg.Kubeconfig = filepath.Join(s.dir, name+".kubeconfig")
		s.must(s.proxies.kubeconfig(name, s.cluster.Kubeconfig, cfg.Kubeconfig))
	}
	k := &supervisor{cfg: cfg, programs: s.programs, stopped: make(chan struct{}), done: make(chan struct{})}
	first, err := s.programs.Run(s.Context(), cfg)
	s.must(err)
	k.mu.running = first
	go k.run()
	s.supervisors[name] = k
	kit.AtEnd(s.T, k.stop)
}

// injectFaults carries the plan out and returns when every fault has ended.
func (s *site) injectFaults(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	var stores sync.Mutex // one member of a store at a time: two are an outage
	for _, f := range plan(s.seed, *lasts) {
		if pauseFor(ctx, time.Until(began.Add(f.begin))) != nil {
			break // a fault could not be made or ended, which Wait returns
		}
		g.Go(func() error {
			if f.ofStore() {
				stores.Lock()
				defer stores.Unlock()
			}
			s.Log(f)
			repair, err := s.apply(ctx, f)
			if err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
			if err := pauseFor(ctx, f.lasts); err != nil {
				return err
			}
			return repair()
		})
	}
	return g.Wait()
}

// pauseFor waits, unless ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply makes one fault happen and returns the function that ends it.
func (s *site) apply(ctx context.Context, f fault) (repair func() error, err error) {
	switch f.kind {
	case kill:
		return s.supervisors[f.target].kill(), nil
	case pause:
		return s.supervisors[f.target].pause()
	case killLeader:
		return killMember(s.etcd, max(s.etcd.Leader(ctx), 0)), nil
	case killEtcd:
		return killMember(s.etcd, f.member), nil
	case killNATS:
		return killMember(s.nats, f.member), nil
	case pauseEtcd:
		return func() error { return s.etcd.Resume(f.member) }, s.etcd.Pause(f.member)
	case pauseNATS:
		return func() error { return s.nats.Resume(f.member) }, s.nats.Pause(f.member)
	case registerAgain:
		return s.deleteNode(ctx, nodeName(f.node))
	case poisonFacts:
		return nothing, s.poison(ctx, eventlog.Facts)
	case poisonDecisions:
		return nothing, s.poison(ctx, eventlog.Decisions)
	case backUp:
		return nothing, s.etcd.BackUp(ctx, filepath.Join(s.dir, "backup"))
	case restore:
		return nothing, s.restore(ctx)
	case pauseAPI:
		resume := func() error { return s.cluster.Signal("kube-apiserver", syscall.SIGCONT) }
		return resume, s.cluster.Signal("kube-apiserver", syscall.SIGSTOP)
	}
	return func() error { return s.proxies.repairLink(ctx, f) }, s.proxies.breakLink(f)
}

// nothing is left to do to end a fault.
func nothing() error { return nil }

func killMember(m *harness.Members, i int) (repair func() error) {
	m.Kill(i)
	return func() error { return m.Start(i) }
}
