package contend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// leadsWithin bounds the time until a replica that is alone leads, and until another reports that it is a candidate.
const leadsWithin = time.Minute

// startKubeSchedulers starts two with upstream's own leader election, whose times are its defaults: a lease of 15 s,
// looked at every 2 s. The first leads.
func startKubeSchedulers(ctx context.Context, g *Ground) (kill func(), err error) {
	connection := fmt.Sprintf("clientConnection:\n  kubeconfig: %q\n", g.Cluster.Kubeconfig)
	config := filepath.Join(g.Dir, "pair.yaml")
	text := strings.Replace(Config, "clientConnection:\n", connection, 1) + "leaderElection:\n  leaderElect: true\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	var first *harness.Process
	for i, says := range []string{"uccessfully acquired lease", "ttempting to acquire leader lease"} {
		replica, err := g.Cluster.StartReplica(g.Dir, fmt.Sprintf("kube-scheduler-%d", i), config)
		if err != nil {
			return nil, err
		}
		g.Add(replica.Stop, replica.PID())
		if err := saysSoon(ctx, replica, says); err != nil {
			return nil, err
		}
		if first == nil {
			first = replica
		}
	}
	return first.Kill, nil
}

// saysSoon waits until a program has written something to its log.
func saysSoon(ctx context.Context, p *harness.Process, text string) error {
	return harness.Eventually(ctx, leadsWithin, p.Name+" says "+text, func(context.Context) (string, error) {
		said, err := os.ReadFile(p.Log)
		if err == nil && !strings.Contains(string(said), text) {
			return "it has not", p.Ended()
		}
		return "", err
	})
}

// startBerths starts two `berth up`, each with all services, one shard and one binder, on the same stores, which sync
// every write. If one of them leads, it is the first.
func startBerths(ctx context.Context, g *Ground) (kill func(), err error) {
	urls, err := g.startStores(ctx)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--nats-url", urls["nats"], "--etcd-endpoints", urls["etcd"]}, g.Args...)
	for i := range 2 {
		name := fmt.Sprintf("berth-%d", i)
		replica, err := g.Programs.Up(ctx, harness.UpConfig{
			Kubeconfig: g.Cluster.Kubeconfig, DataDir: filepath.Join(g.Dir, name), LogDir: g.Dir, Name: name,
			Shards: 1, Binders: 1, Config: g.Config, Args: args,
		})
		if err != nil {
			return nil, err
		}
		g.Add(replica.Stop, replica.PID())
		if kill == nil {
			kill = replica.Kill
		}
	}
	return kill, nil
}
