package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// deschedulingInterval is the time between two passes of either descheduler.
	deschedulingInterval = 3 * time.Second
	shards               = 2
)

// profiles is a configuration with these profiles. The rates are beyond what anybody needs here.
func profiles(names ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"clientConnection: {qps: 1000, burst: 1000}\nprofiles:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "- schedulerName: %s\n", name)
	}
	return b.String()
}

// policy wants a pod of an application with a budget that has run for ten seconds, whichever it is.
func policy() string {
	var names []string
	for i := range quorums {
		names = append(names, quorumName(i))
	}
	return fmt.Sprintf(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: old
  pluginConfig:
  - name: DefaultEvictor
  - name: PodLifeTime
    args:
      maxPodLifeTimeSeconds: 10
      labelSelector:
        matchExpressions:
        - {key: app, operator: In, values: [%s]}
  plugins:
    deschedule:
      enabled: [PodLifeTime]
`, strings.Join(names, ", "))
}

// contender is a way to schedule and to deschedule.
type contender struct {
	name string
	// start returns when everything is ready. What it started ends with f.stop even on error.
	start func(ctx context.Context, f *field) error
}

var contenders = []contender{
	{name: "kube-scheduler", start: upstream(each)},
	{name: "kube-scheduler-alone", start: upstream(alone)},
	{name: "berth", start: startBerth},
}

func contenderNames() []string {
	names := make([]string, 0, len(contenders))
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

// field is where one play happens.
type field struct {
	programs harness.Programs
	cluster  *harness.Cluster
	dir      string
	stops    []func(context.Context) error
}

func (f *field) file(name, content string) (string, error) {
	path := filepath.Join(f.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

func (f *field) stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(f.stops) {
		errs = append(errs, stop(ctx))
	}
	if f.cluster != nil {
		errs = append(errs, f.cluster.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// each and alone are how profiles are spread over kube-schedulers: one has one, or one has all.
var each, alone = [][]string{schedulers[:1], schedulers[1:]}, [][]string{schedulers}

func upstream(spread [][]string) func(context.Context, *field) error {
	return func(ctx context.Context, f *field) error { return startUpstream(ctx, f, spread) }
}

func startUpstream(ctx context.Context, f *field, spread [][]string) error {
	peers := []harness.PeerConfig{}
	for i, names := range spread {
		name := fmt.Sprintf("kube-scheduler-%d", i)
		config, err := f.file(name+".yaml", profiles(names...))
		if err != nil {
			return err
		}
		peers = append(peers, harness.PeerConfig{Name: name, Config: config})
	}
	file, err := f.file("policy.yaml", policy())
	if err != nil {
		return err
	}
	for _, cfg := range append(peers, harness.PeerConfig{Policy: file, Interval: deschedulingInterval}) {
		peer, err := f.cluster.StartPeer(ctx, cfg)
		if err != nil {
			return err
		}
		f.stops = append(f.stops, peer.Stop)
	}
	return nil
}

func startBerth(ctx context.Context, f *field) error {
	config, err := f.file("config.yaml", profiles(schedulers...))
	if err != nil {
		return err
	}
	file, err := f.file("policy.yaml", policy())
	if err != nil {
		return err
	}
	berth, err := f.programs.Up(ctx, harness.UpConfig{
		Kubeconfig: f.cluster.Kubeconfig, DataDir: filepath.Join(f.dir, "data"), LogDir: f.dir, Shards: shards,
		Config: config, Policy: file, Args: []string{"--descheduling-interval", deschedulingInterval.String()},
	})
	if err != nil {
		return err
	}
	f.stops = append(f.stops, berth.Stop)
	return nil
}
