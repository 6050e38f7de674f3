package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
	"github.com/berth-scheduler/berth/tools/cluster/internal/controlplane"
	"github.com/berth-scheduler/berth/tools/cluster/internal/nodes"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

func upCommand() *cobra.Command {
	var (
		flags     sessionFlags
		config    controlplane.Config
		nodesFile string
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and, without --detach, keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var description *nodes.Description
			if nodesFile != "" {
				loaded, err := nodes.Load(nodesFile)
				if err != nil {
					return err
				}
				description = &loaded
			}
			layout, err := build.FindLayout()
			if err != nil {
				return err
			}
			config.Layout = layout
			start := func(ctx context.Context, s *session.Session) error {
				config.Dir = s.State.Dir
				if err := controlplane.Up(ctx, s, config); err != nil || description == nil {
					return err
				}
				return addNodes(ctx, s, *description)
			}
			return session.Run(cmd.Context(), flags.options(cmd), session.State{Kind: "cluster"}, start)
		},
	}
	flags.add(cmd)
	set := cmd.Flags()
	set.StringVar(&nodesFile, "nodes", "", "create the nodes described in this file")
	set.StringVar(&config.Kubernetes, "kubernetes", "",
		"older minor version of Kubernetes to run: "+strings.Join(build.Minors(), " or ")+
			" (built by cluster build kubernetes-VERSION)")
	set.IntVar(&config.Port, "port", 0, "port of the API server on the loopback address (0: any free port)")
	set.BoolVar(&config.KWOK, "kwok", true, "run simulated kubelets (KWOK)")
	set.StringVar(&config.Controllers, "controllers", "all",
		"\"all\", \"none\" or a list for kube-controller-manager; "+
			"\"all\" without KWOK excludes the node lifecycle controller")
	set.BoolVar(&config.Sync, "fsync", false, "sync every write of the cluster's etcd to disk")
	set.DurationVar(&config.NodeLease, "node-lease-duration", 200*time.Second,
		"lease duration of KWOK's nodes, renewed every quarter of it; a node that does not renew it in time is lost")
	set.StringVar(&config.Stages, "kwok-stages", "", "file with KWOK stages to use in addition to the built-in ones")
	set.IntVar(&config.MaxRequests, "max-requests-inflight", 1000, "the API server's flag of this name")
	set.IntVar(&config.MaxMutatingRequests, "max-mutating-requests-inflight", 500, "the API server's flag of this name")
	set.StringVar(&config.RuntimeConfig, "runtime-config", "",
		"the API server's flag of this name, such as resource.k8s.io/v1=false to not serve resource claims")
	set.StringVar(&config.FeatureGates, "feature-gates", "", "the API server's flag of this name")
	return cmd
}

func addNodes(ctx context.Context, s *session.Session, description nodes.Description) error {
	cluster := s.State.Cluster
	client, err := nodesClient(cluster.Kubeconfig)
	if err != nil {
		return err
	}
	began := time.Now()
	result, err := nodes.Create(ctx, client, description, cluster.KWOK)
	if err != nil {
		return err
	}
	s.Logf("%d nodes created and ready in %s", result.Created, time.Since(began).Round(10*time.Millisecond))
	return nil
}
