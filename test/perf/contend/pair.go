package contend

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// leadsWithin bounds the time until a replica that is alone leads, and until another says that it would.
const leadsWithin = time.Minute

// startKubeSchedulers starts two with upstream's own leader election, whose times are its defaults: a lease of 15 s,
// looked at every 2 s. The first leads.
func startKubeSchedulers(ctx context.Context, f *Field, r *Running) (kill func(), err error) {
	connection := fmt.Sprintf("clientConnection:\n  kubeconfig: %q\n", f.Cluster.Kubeconfig)
	config := filepath.Join(f.Dir, "pair.yaml")
	text := strings.Replace(Config, "clientConnection:\n", connection, 1) + "leaderElection:\n  leaderElect: true\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	first, err := f.startReplica(r, "kube-scheduler-0", config)
	if err != nil {
		return nil, err
	}
	leases := f.Cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem)
	err = harness.Eventually(ctx, leadsWithin, "the first leads", func(ctx context.Context) (string, error) {
		lease, err := leases.Get(ctx, "kube-scheduler", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return fmt.Sprintf("nobody holds its lease (%v)", err), first.Ended()
		}
		return "", nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, first.Tail())
	}
	second, err := f.startReplica(r, "kube-scheduler-1", config)
	if err != nil {
		return nil, err
	}
	const waits = "ttempting to acquire leader lease"
	err = harness.Eventually(ctx, leadsWithin, "the second waits", func(context.Context) (string, error) {
		if said, err := os.ReadFile(second.Log); err != nil || !strings.Contains(string(said), waits) {
			return "it has not said that it is " + waits, second.Ended()
		}
		return "", nil
	})
	return first.Kill, err
}

// startReplica starts a kube-scheduler and does not wait for it.
func (f *Field) startReplica(r *Running, name, config string) (*harness.Process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	replica, err := f.Programs.StartProgram(f.Dir, name, "kube-scheduler", "--config="+config, "--v=2",
		"--bind-address="+host, "--secure-port="+port, "--cert-dir="+filepath.Join(f.Dir, name),
		"--authentication-kubeconfig="+f.Cluster.Kubeconfig, "--authorization-kubeconfig="+f.Cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	r.add(replica.Stop, replica.PID())
	return replica, nil
}

// startBerths starts two `berth up`, each with all services, one shard and one binder, on the same stores, which sync
// every write. The first leads where somebody does.
func startBerths(ctx context.Context, f *Field, r *Running) (kill func(), err error) {
	urls, err := f.startStores(ctx, r)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--nats-url", urls["nats"], "--etcd-endpoints", urls["etcd"]}, f.Args...)
	for i := range 2 {
		name := fmt.Sprintf("berth-%d", i)
		replica, err := f.Programs.Up(ctx, harness.UpConfig{
			Kubeconfig: f.Cluster.Kubeconfig, DataDir: filepath.Join(f.Dir, name), LogDir: f.Dir, Name: name,
			Shards: 1, Binders: 1, Config: f.Config, Args: args,
		})
		if err != nil {
			return nil, err
		}
		r.add(replica.Stop, replica.PID())
		if kill == nil {
			kill = replica.Kill
		}
	}
	return kill, nil
}
