package contend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Config is given to every contender unchanged. The rates are far above the contenders' own: client-go's default of
// 50 requests a second would measure that constant.
const Config = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 10000
  burst: 10000
profiles:
- schedulerName: default-scheduler
`

// Profiles returns a configuration with these profiles. The rates are above what a duel needs.
func Profiles(names ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"clientConnection: {qps: 1000, burst: 1000}\nprofiles:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "- schedulerName: %s\n", name)
	}
	return b.String()
}

// PeerVersion is the version that the cluster driver's peers module pins.
const PeerVersion = "kube-scheduler v1.36.3"

// Contender is one way to schedule pods.
type Contender struct {
	Name string
	// Start returns when the contender is ready. The ground ends the started processes, even after an error.
	Start func(context.Context, *Ground) error
	// StartPair starts two replicas that share the work or take over from each other; kill ends the leading replica,
	// as a crash would. Nil for contenders without replicas.
	StartPair func(context.Context, *Ground) (kill func(), err error)
	// Raw contenders bind the pods that exist when they start, or that arrive. They are no rivals but an upper bound.
	Raw bool
}

// Contenders are in the order of a round; the others are compared with the first.
var Contenders = append([]Contender{
	{Name: "kube-scheduler", Start: startKubeScheduler, StartPair: startKubeSchedulers},
	Berth,
	{Name: "berth-processes", Start: startProcesses},
}, raws()...)

// Names of all contenders.
func Names() []string {
	names := make([]string, 0, len(Contenders))
	for _, c := range Contenders {
		names = append(names, c.Name)
	}
	return names
}

// Berth is Berth in one process as `berth up` has it by itself: one shard and one binder.
var Berth = Contender{Name: "berth", Start: startBerth, StartPair: startBerths}

// Rivals are the contenders that schedule.
func Rivals() []string {
	return slices.DeleteFunc(Names(), IsRaw)
}

// IsRaw reports whether the contender of this name only binds.
func IsRaw(name string) bool { return strings.HasPrefix(name, rawPrefix) }

// WriteConfig writes Config into dir.
func WriteConfig(dir string) (string, error) {
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, []byte(Config), 0o600)
}

func startKubeScheduler(ctx context.Context, g *Ground) error {
	peer, err := g.Cluster.StartKubeScheduler(ctx, g.Config)
	if err != nil {
		return err
	}
	g.Add(peer.Stop, peer.PIDs...)
	return nil
}

func startBerth(ctx context.Context, g *Ground) error {
	berth, err := g.Programs.Up(ctx, harness.UpConfig{
		Kubeconfig: g.Cluster.Kubeconfig, DataDir: filepath.Join(g.Dir, "data"), LogDir: g.Dir,
		Shards: 1, Binders: 1, Config: g.Config, Args: g.Args,
	})
	if err != nil {
		return err
	}
	g.Add(berth.Stop, berth.PID())
	g.Address = berth.Address
	return nil
}

// startProcesses starts one queue, two scheduler shards and two binders, each a process, on an
// etcd and a NATS server that sync every write.
func startProcesses(ctx context.Context, g *Ground) error {
	urls, err := g.startStores(ctx)
	if err != nil {
		return err
	}
	for _, service := range []string{"queue", "scheduler", "scheduler", "binder", "binder"} {
		cfg := harness.RunConfig{
			Service: service, Name: fmt.Sprintf("%s-%d", service, len(g.PIDs)), LogDir: g.Dir,
			NATS: urls["nats"], Etcd: urls["etcd"], Args: append([]string{"--config", g.Config}, g.Args...),
		}
		if service != "scheduler" {
			cfg.Kubeconfig = g.Cluster.Kubeconfig
		}
		member, err := g.Programs.Run(ctx, cfg)
		if err != nil {
			return err
		}
		g.Add(member.Stop, member.PID())
	}
	return nil
}

// startStores starts an etcd and a NATS server that sync every write; the URLs are by those names.
func (g *Ground) startStores(ctx context.Context) (urls map[string]string, err error) {
	urls = map[string]string{}
	for _, name := range []string{"etcd", "nats"} {
		store, err := g.Programs.StartStore(ctx, name, filepath.Join(g.Dir, name))
		if err != nil {
			return nil, err
		}
		g.Add(store.Stop, store.PIDs...)
		urls[name] = store.URL
	}
	return urls, nil
}
