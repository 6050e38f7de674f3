package duel

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	// deschedulingInterval is the time between two passes of either descheduler.
	deschedulingInterval = 3 * time.Second
	shards               = 2
)

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
	// start returns when everything is ready. The ground ends the started processes, even after an error.
	start func(ctx context.Context, g *contend.Ground) error
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

// each and alone are how profiles are spread over kube-schedulers: one has one, or one has all.
var each, alone = [][]string{schedulers[:1], schedulers[1:]}, [][]string{schedulers}

func upstream(spread [][]string) func(context.Context, *contend.Ground) error {
	return func(ctx context.Context, g *contend.Ground) error { return startUpstream(ctx, g, spread) }
}

func startUpstream(ctx context.Context, g *contend.Ground, spread [][]string) error {
	peers := []harness.PeerConfig{}
	for i, names := range spread {
		name := fmt.Sprintf("kube-scheduler-%d", i)
		config, err := g.File(name+".yaml", contend.Profiles(names...))
		if err != nil {
			return err
		}
		peers = append(peers, harness.PeerConfig{Name: name, Config: config})
	}
	file, err := g.File("policy.yaml", policy())
	if err != nil {
		return err
	}
	for _, cfg := range append(peers, harness.PeerConfig{Policy: file, Interval: deschedulingInterval}) {
		peer, err := g.Cluster.StartPeer(ctx, cfg)
		if err != nil {
			return err
		}
		g.Add(peer.Stop)
	}
	return nil
}

func startBerth(ctx context.Context, g *contend.Ground) error {
	config, err := g.File("config.yaml", contend.Profiles(schedulers...))
	if err != nil {
		return err
	}
	file, err := g.File("policy.yaml", policy())
	if err != nil {
		return err
	}
	berth, err := g.Programs.Up(ctx, harness.UpConfig{
		Kubeconfig: g.Cluster.Kubeconfig, DataDir: filepath.Join(g.Dir, "data"), LogDir: g.Dir, Shards: shards,
		Config: config, Policy: file, Args: []string{"--descheduling-interval", deschedulingInterval.String()},
	})
	if err != nil {
		return err
	}
	g.Add(berth.Stop)
	return nil
}
