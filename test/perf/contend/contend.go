package contend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Config is handed to every contender as it is. The rates are far above what any of them
// reaches: client-go's default of 50 requests a second would measure that constant.
const Config = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 10000
  burst: 10000
profiles:
- schedulerName: default-scheduler
`

// PeerVersion is what the cluster driver's peers module pins.
const PeerVersion = "kube-scheduler v1.36.3"

// Contender is one way to schedule pods.
type Contender struct {
	Name string
	// Start returns when it is ready. What it started is in Running even on error.
	Start func(context.Context, *Field, *Running) error
	// StartPair starts two replicas that share the work or take over from each other; kill ends the one that leads, as
	// a crash would. Nil for contenders that have no such thing.
	StartPair func(context.Context, *Field, *Running) (kill func(), err error)
	// Raw ones bind what is there when they start, or what comes, and are nobody's rival: a bound.
	Raw bool
}

// Field is where a contender runs.
type Field struct {
	Programs harness.Programs
	Cluster  *harness.Cluster
	// Dir gets data and logs, Config is the file with Config.
	Dir, Config string
	// Args are appended to Berth's command lines.
	Args []string
	// Namespace is where raw contenders find their pods. Coming says that those only come while they run.
	Namespace string
	Coming    bool
}

// Running is a started contender.
type Running struct {
	// PIDs are its processes, stores of its own included: Berth in one process has them inside,
	// so leaving them out elsewhere would not compare like with like.
	PIDs []int
	// stops end it, in reverse order.
	stops []func(context.Context) error
}

func (r *Running) add(stop func(context.Context) error, pids ...int) {
	r.PIDs = append(r.PIDs, pids...)
	r.stops = append(r.stops, stop)
}

// Stop ends it.
func (r *Running) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(r.stops) {
		errs = append(errs, stop(ctx))
	}
	r.stops = nil
	return errors.Join(errs...)
}

// Contenders are in the order of a round; the first is what the others are compared with.
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

// IsRaw says whether the contender of this name only binds.
func IsRaw(name string) bool { return strings.HasPrefix(name, rawPrefix) }

// WriteConfig writes Config into dir.
func WriteConfig(dir string) (string, error) {
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, []byte(Config), 0o600)
}

func startKubeScheduler(ctx context.Context, f *Field, r *Running) error {
	peer, err := f.Cluster.StartKubeScheduler(ctx, f.Config)
	if err != nil {
		return err
	}
	r.add(peer.Stop, peer.PIDs...)
	return nil
}

func startBerth(ctx context.Context, f *Field, r *Running) error {
	berth, err := f.Programs.Up(ctx, harness.UpConfig{
		Kubeconfig: f.Cluster.Kubeconfig, DataDir: filepath.Join(f.Dir, "data"), LogDir: f.Dir,
		Shards: 1, Binders: 1, Config: f.Config, Args: f.Args,
	})
	if err != nil {
		return err
	}
	r.add(berth.Stop, berth.PID())
	return nil
}

// startProcesses starts one queue, two scheduler shards and two binders, each a process, on an
// etcd and a NATS server that sync every write.
func startProcesses(ctx context.Context, f *Field, r *Running) error {
	urls, err := f.startStores(ctx, r)
	if err != nil {
		return err
	}
	for _, service := range []string{"queue", "scheduler", "scheduler", "binder", "binder"} {
		cfg := harness.RunConfig{
			Service: service, Name: fmt.Sprintf("%s-%d", service, len(r.PIDs)), LogDir: f.Dir,
			NATS: urls["nats"], Etcd: urls["etcd"], Args: append([]string{"--config", f.Config}, f.Args...),
		}
		if service != "scheduler" {
			cfg.Kubeconfig = f.Cluster.Kubeconfig
		}
		member, err := f.Programs.Run(ctx, cfg)
		if err != nil {
			return err
		}
		r.add(member.Stop, member.PID())
	}
	return nil
}

// startStores starts an etcd and a NATS server that sync every write; the URLs are by those names.
func (f *Field) startStores(ctx context.Context, r *Running) (urls map[string]string, err error) {
	urls = map[string]string{}
	for _, name := range []string{"etcd", "nats"} {
		store, err := f.Programs.StartStore(ctx, name, filepath.Join(f.Dir, name))
		if err != nil {
			return nil, err
		}
		r.add(store.Stop, store.PIDs...)
		urls[name] = store.URL
	}
	return urls, nil
}
