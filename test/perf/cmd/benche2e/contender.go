package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// config is handed to every contender as it is. The rates are far above what any of them
// reaches: client-go's default of 50 requests a second would measure that constant.
const config = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 10000
  burst: 10000
profiles:
- schedulerName: default-scheduler
`

// contender is one way to schedule pods.
type contender struct {
	name string
	// start returns when it is ready. What it started is in running even on error.
	start func(context.Context, *field, *running) error
}

// field is where a contender runs.
type field struct {
	programs harness.Programs
	cluster  *harness.Cluster
	// dir gets data and logs, config is the file with config.
	dir, config string
}

// running is a started contender.
type running struct {
	// pids are its processes, stores of its own included: Berth in one process has them inside,
	// so leaving them out elsewhere would not compare like with like.
	pids []int
	// stops end it, in reverse order.
	stops []func(context.Context) error
}

func (r *running) add(stop func(context.Context) error, pids ...int) {
	r.pids = append(r.pids, pids...)
	r.stops = append(r.stops, stop)
}

func (r *running) stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(r.stops) {
		errs = append(errs, stop(ctx))
	}
	r.stops = nil
	return errors.Join(errs...)
}

// contenders are in the order of a round; the first is what the others are compared with.
var contenders = []contender{
	{name: "kube-scheduler", start: startKubeScheduler},
	{name: "berth", start: startBerth},
	{name: "berth-processes", start: startProcesses},
}

func contenderNames() []string {
	names := make([]string, 0, len(contenders))
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

func writeConfig(dir string) (string, error) {
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, []byte(config), 0o600)
}

func startKubeScheduler(ctx context.Context, f *field, r *running) error {
	peer, err := f.cluster.StartKubeScheduler(ctx, f.config)
	if err != nil {
		return err
	}
	r.add(peer.Stop, peer.PIDs...)
	return nil
}

func startBerth(ctx context.Context, f *field, r *running) error {
	berth, err := f.programs.Up(ctx, harness.UpConfig{
		Kubeconfig: f.cluster.Kubeconfig, DataDir: filepath.Join(f.dir, "data"), LogDir: f.dir,
		Shards: 2, Binders: 2, Config: f.config, Args: []string{"--profiling"},
	})
	if err != nil {
		return err
	}
	r.add(berth.Stop, berth.PID())
	return nil
}

// startProcesses starts one queue, two scheduler shards and two binders, each a process, on an
// etcd and a NATS server that sync every write.
func startProcesses(ctx context.Context, f *field, r *running) error {
	urls := map[string]string{}
	for _, name := range []string{"etcd", "nats"} {
		store, err := f.programs.StartStore(ctx, name, filepath.Join(f.dir, name))
		if err != nil {
			return err
		}
		r.add(store.Stop, store.PIDs...)
		urls[name] = store.URL
	}
	for _, service := range []string{"queue", "scheduler", "scheduler", "binder", "binder"} {
		cfg := harness.RunConfig{
			Service: service, Name: fmt.Sprintf("%s-%d", service, len(r.pids)), LogDir: f.dir,
			NATS: urls["nats"], Etcd: urls["etcd"], Args: []string{"--config", f.config},
		}
		if service != "scheduler" {
			cfg.Kubeconfig = f.cluster.Kubeconfig
		}
		member, err := f.programs.Run(ctx, cfg)
		if err != nil {
			return err
		}
		r.add(member.Stop, member.PID())
	}
	return nil
}
