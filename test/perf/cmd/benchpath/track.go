package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

// ownService is what this program is called in reports: it makes the facts and takes the binds.
const ownService = "generator and sink"

// track is everything one run needs.
type track struct {
	bench   *bench
	setting setting
	dir     string
	config  string
	api     *sink.Server
	urls    map[string]string
	members []member
}

// member is one process of a run, or a store with its processes.
type member struct {
	service string
	pids    []int
	// berth is nil for stores.
	berth *harness.Berth
	stop  func(context.Context) error
}

// open starts the sink, the stores and the services. The track is there, to be closed, even on error.
func (b *bench) open(ctx context.Context, s setting) (t *track, err error) {
	t = &track{bench: b, setting: s, urls: map[string]string{}}
	if t.dir, err = os.MkdirTemp("", "berth-path-"); err != nil {
		return t, err
	}
	if t.config, err = contend.WriteConfig(t.dir); err != nil {
		return t, err
	}
	if t.api, err = sink.Start(); err != nil {
		return t, err
	}
	if err := t.api.AddNodes(b.fleet()); err != nil {
		return t, err
	}
	if _, err := t.api.AddPods(b.standing(s.Full)); err != nil {
		return t, err
	}
	if err := os.WriteFile(t.kubeconfig(), t.api.Kubeconfig(), 0o600); err != nil {
		return t, err
	}
	for _, name := range []string{"etcd", "nats"} {
		store, err := b.programs.StartStore(ctx, name, filepath.Join(t.dir, name))
		if err != nil {
			return t, err
		}
		t.members = append(t.members, member{service: name, pids: store.PIDs, stop: store.Stop})
		t.urls[name] = store.URL
	}
	// The others are ready once the queue's facts are there.
	for _, replicas := range []struct {
		service string
		n       int
	}{{"queue", 1}, {"scheduler", s.Shards}, {"binder", b.binders}} {
		for i := range replicas.n {
			berth, err := t.run(ctx, replicas.service, fmt.Sprintf("%s-%d", replicas.service, i))
			if err != nil {
				return t, err
			}
			t.members = append(t.members, member{
				service: replicas.service, pids: []int{berth.PID()}, berth: berth, stop: berth.Stop})
		}
	}
	return t, nil
}

// stop ends all processes, the last that was started first.
func (t *track) stop(ctx context.Context) error {
	var errs []error
	for i := range t.members {
		errs = append(errs, t.members[len(t.members)-1-i].stop(ctx))
	}
	t.members = nil
	return errors.Join(errs...)
}

// close ends everything and removes what was written.
func (t *track) close(ctx context.Context) error {
	err := t.stop(ctx)
	if t.api != nil {
		t.api.Close()
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

func (t *track) kubeconfig() string { return filepath.Join(t.dir, "kubeconfig") }

func (t *track) run(ctx context.Context, service, name string) (*harness.Berth, error) {
	cfg := harness.RunConfig{Service: service, Name: name, LogDir: t.dir,
		NATS: t.urls["nats"], Etcd: t.urls["etcd"], Args: []string{"--config", t.config}}
	if service != "scheduler" {
		cfg.Kubeconfig = t.kubeconfig()
	}
	if t.setting.Observed == nothing && service == "scheduler" {
		cfg.Args = append(cfg.Args, "--no-evidence")
	}
	if t.bench.profiling {
		cfg.Args = append(cfg.Args, "--profiling")
	}
	return t.bench.programs.Run(ctx, cfg)
}

// late is the processor time that one more shard takes until it has applied all facts there are.
// Two of them, before and after pods came, differ by the facts about those. 0 unless it is asked for.
func (t *track) late(ctx context.Context) (time.Duration, error) {
	if !t.bench.facts {
		return 0, nil
	}
	berth, err := t.run(ctx, "scheduler", "late")
	if err != nil {
		return 0, err
	}
	took, err := harness.CPUTime(berth.PID())
	return took, errors.Join(err, berth.Stop(ctx))
}
