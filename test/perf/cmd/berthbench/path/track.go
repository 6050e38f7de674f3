package path

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

// ownService is this program's name in reports: it makes the facts and accepts the binds.
const ownService = "generator and sink"

// everything is the name, in reports, of one process with all services and stores.
const everything = "berth"

// track is everything one run needs.
type track struct {
	*contend.Ground
	all     *measurement
	setting setting
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
}

// openSink starts the sink. The track has to be closed, even after an error.
func (m *measurement) openSink(s setting) (t *track, err error) {
	t = &track{all: m, setting: s, urls: map[string]string{}}
	if t.Ground, err = contend.NewGround(m.programs, ""); err != nil {
		return t, err
	}
	if t.api, err = t.StartSink(bench.Nodes(m.nodes)); err != nil {
		return t, err
	}
	_, err = t.api.AddPods(m.standing(s.Full))
	return t, err
}

// openStores starts the sink and the stores. The track has to be closed, even after an error.
func (m *measurement) openStores(ctx context.Context, s setting) (t *track, err error) {
	if t, err = m.openSink(s); err != nil {
		return t, err
	}
	for _, name := range []string{"etcd", "nats"} {
		store, err := m.programs.StartStore(ctx, name, filepath.Join(t.Dir, name))
		if err != nil {
			return t, err
		}
		t.add(member{service: name, pids: store.PIDs}, store.Stop)
		t.urls[name] = store.URL
	}
	return t, nil
}

// open starts the sink, the stores and the services, together or apart. The track has to be closed, even after an
// error.
func (m *measurement) open(ctx context.Context, s setting) (t *track, err error) {
	if m.together {
		if t, err = m.openSink(s); err != nil {
			return t, err
		}
		return t, t.startTogether(ctx)
	}
	if t, err = m.openStores(ctx, s); err != nil {
		return t, err
	}
	return t, t.startServices(ctx)
}

// startTogether starts one process with all services and stores.
func (t *track) startTogether(ctx context.Context) error {
	cfg := harness.UpConfig{Kubeconfig: t.Kubeconfig(), DataDir: filepath.Join(t.Dir, "data"), LogDir: t.Dir,
		Shards: t.setting.Shards, Binders: t.all.binders, Config: t.Config, Args: t.observing("scheduler")}
	berth, err := t.all.programs.Up(ctx, cfg)
	if err != nil {
		return err
	}
	t.add(member{service: everything, pids: []int{berth.PID()}, berth: berth}, berth.Stop)
	return nil
}

// startServices starts a process for each service. The other services are ready once the queue's facts exist.
func (t *track) startServices(ctx context.Context) error {
	for _, replicas := range []struct {
		service string
		n       int
	}{{"queue", 1}, {"scheduler", t.setting.Shards}, {"binder", t.all.binders}} {
		for i := range replicas.n {
			berth, err := t.run(ctx, replicas.service, fmt.Sprintf("%s-%d", replicas.service, i))
			if err != nil {
				return err
			}
			t.add(member{service: replicas.service, pids: []int{berth.PID()}, berth: berth}, berth.Stop)
		}
	}
	return nil
}

func (t *track) add(m member, stop func(context.Context) error) {
	t.members = append(t.members, m)
	t.Add(stop, m.pids...)
}

func (t *track) run(ctx context.Context, service, name string) (*harness.Berth, error) {
	cfg := harness.RunConfig{Service: service, Name: name, LogDir: t.Dir, NATS: t.urls["nats"], Etcd: t.urls["etcd"],
		Args: append([]string{"--config", t.Config}, t.observing(service)...)}
	if service != "scheduler" {
		cfg.Kubeconfig = t.Kubeconfig()
	}
	return t.all.programs.Run(ctx, cfg)
}

// observing returns the flags of a service that the setting and --profiling require.
func (t *track) observing(service string) (args []string) {
	if t.setting.Observed == nothing && service == "scheduler" {
		args = append(args, "--no-evidence")
	}
	if t.all.profiling {
		args = append(args, "--profiling")
	}
	return args
}

// late is the processor time that one more shard takes until it has applied all facts there are.
// Two of them, before and after pods came, differ by the facts about those. 0 unless it is asked for.
func (t *track) late(ctx context.Context) (time.Duration, error) {
	if !t.all.facts {
		return 0, nil
	}
	berth, err := t.run(ctx, "scheduler", "late")
	if err != nil {
		return 0, err
	}
	took, err := harness.CPUTime(berth.PID())
	return took, errors.Join(err, berth.Stop(ctx))
}
