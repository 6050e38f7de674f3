package neighbours

import (
	"context"
	"path/filepath"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// defaultConfig raises the client's rates above what a script needs: client-go's default of 50 requests a second
// would measure that constant.
const defaultConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 1000}
profiles:
- schedulerName: default-scheduler
`

// schedule starts the scheduler and, if there is a policy, the descheduler.
func (s *Scene) schedule(ctx context.Context, cfg Scheduling) error {
	if cfg.Start != nil {
		return cfg.Start(ctx, s)
	}
	if cfg.Config == "" {
		cfg.Config = defaultConfig
	}
	config, err := s.File("scheduler.yaml", cfg.Config)
	if err != nil {
		return err
	}
	policy := ""
	if cfg.Policy != "" {
		if policy, err = s.File("policy.yaml", cfg.Policy); err != nil {
			return err
		}
	}
	if s.Scheduler == KubeScheduler {
		return s.startUpstream(ctx, config, policy, cfg)
	}
	return s.startBerth(ctx, config, policy, cfg)
}

func (s *Scene) startUpstream(ctx context.Context, config, policy string, cfg Scheduling) error {
	peers := []harness.PeerConfig{{Config: config}}
	if policy != "" {
		peers = append(peers, harness.PeerConfig{
			Policy: policy, Interval: cfg.Interval, FeatureGates: cfg.DeschedulerGates,
		})
	}
	for _, p := range peers {
		peer, err := s.Cluster.StartPeer(ctx, p)
		if err != nil {
			return err
		}
		s.AtEnd(peer.Stop)
	}
	return nil
}

func (s *Scene) startBerth(ctx context.Context, config, policy string, cfg Scheduling) (err error) {
	args := cfg.BerthArgs
	if policy != "" {
		args = append([]string{"--descheduling-interval", cfg.Interval.String()}, args...)
	}
	s.Berth, err = s.Programs.Up(ctx, harness.UpConfig{
		Kubeconfig: s.Cluster.Kubeconfig, DataDir: filepath.Join(s.Dir, "data"), LogDir: s.Dir,
		Shards: shards, Binders: binders, Config: config, Policy: policy, Args: args,
	})
	if err != nil {
		return err
	}
	s.AtEnd(s.Berth.Stop)
	return nil
}
