package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
	"github.com/berth-scheduler/berth/tools/cluster/internal/peers"
	"github.com/berth-scheduler/berth/tools/cluster/internal/probe"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// peersDir is where the sessions of peers lie, in the cluster's directory.
const peersDir = "peers"

func peerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Run kube-scheduler or the descheduler against a cluster, for comparison with Berth",
	}
	cmd.AddCommand(schedulerCommand(), deschedulerCommand())
	return cmd
}

func schedulerCommand() *cobra.Command {
	var (
		flags    sessionFlags
		peer     peers.Scheduler
		instance string
	)
	cmd := &cobra.Command{
		Use:   "kube-scheduler",
		Short: "Run kube-scheduler until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of := program{"kube-scheduler", instance}
			return runPeer(cmd, flags, of, func(path string, at place, port int) (process.Spec, error) {
				peer.Path = path
				return peer.Spec(at.cluster, at.dir, port)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&peer.Config, "config", "",
		"KubeSchedulerConfiguration file, without a kubeconfig (its client rate limits are kept)")
	cmd.Flags().IntVarP(&peer.Verbosity, "v", "v", 0, "log verbosity")
	cmd.Flags().StringVar(&instance, "name", "kube-scheduler", "name of its directory, to run several at the same time")
	return cmd
}

func deschedulerCommand() *cobra.Command {
	var (
		flags sessionFlags
		peer  peers.Descheduler
	)
	cmd := &cobra.Command{
		Use:   "descheduler",
		Short: "Run the descheduler once, or until Ctrl-C with --interval",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of := program{"descheduler", "descheduler"}
			return runPeer(cmd, flags, of, func(path string, at place, port int) (process.Spec, error) {
				peer.Path = path
				return peer.Spec(at.cluster, at.dir, port)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&peer.Policy, "policy", "", "DeschedulerPolicy file (required)")
	cmd.Flags().StringVar(&peer.Interval, "interval", "", "interval between passes, such as 5m (empty: a single pass)")
	cmd.Flags().BoolVar(&peer.DryRun, "dry-run", false, "do not evict")
	cmd.Flags().StringVar(&peer.FeatureGates, "feature-gates", "", "the descheduler's flag of this name")
	cmd.Flags().IntVarP(&peer.Verbosity, "v", "v", 0, "log verbosity")
	_ = cmd.MarkFlagRequired("policy")
	return cmd
}

// place is where a peer runs: against a cluster, in a directory of its own.
type place struct {
	cluster session.Cluster
	dir     string
}

type peerSpec func(path string, at place, port int) (process.Spec, error)

// program is a peer's program, and the name of one instance of it.
type program struct{ name, instance string }

// runPeer runs a peer, of the cluster's version, as a session inside the cluster's directory. The peer ends with the
// cluster, however that ends.
func runPeer(cmd *cobra.Command, flags sessionFlags, of program, spec peerSpec) error {
	state, err := readyCluster(flags.dir)
	if err != nil {
		return err
	}
	layout, err := build.FindLayout()
	if err != nil {
		return err
	}
	path, err := layout.Program(build.ProgramOf(state.Cluster.Kubernetes, of.name))
	if err != nil {
		return err
	}
	opts := flags.options(cmd)
	opts.Dir = filepath.Join(flags.dir, peersDir, of.instance)
	opts.Owners = append(opts.Owners, state.SupervisorPID)
	return session.Run(cmd.Context(), opts, session.State{Kind: "peer", Name: of.instance},
		func(ctx context.Context, s *session.Session) error {
			return s.Launch(ctx, session.Program{
				Ports: 1,
				Spec: func(ports []int) (process.Spec, error) {
					s.State.URLs = []string{peers.URL(ports[0])}
					return spec(path, place{cluster: *state.Cluster, dir: s.State.Dir}, ports[0])
				},
				Ready: func(ctx context.Context) error {
					return probe.OK(ctx, probe.Insecure(), s.State.URLs[0]+"/healthz")
				},
			})
		})
}
