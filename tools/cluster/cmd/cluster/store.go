package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
	"github.com/berth-scheduler/berth/tools/cluster/internal/probe"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
	"github.com/berth-scheduler/berth/tools/cluster/internal/stores"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Run only etcd or nats-server, for the services of Berth",
	}
	cmd.AddCommand(
		oneStoreCommand("etcd", "Run etcd with every write synced to disk", startEtcd),
		oneStoreCommand("nats", "Run nats-server with JetStream and every write synced to disk", startNATS),
	)
	return cmd
}

func oneStoreCommand(name, short string, start func(context.Context, *session.Session, build.Layout, int) error,
) *cobra.Command {
	var (
		flags sessionFlags
		port  int
	)
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			layout, err := build.FindLayout()
			if err != nil {
				return err
			}
			initial := session.State{Kind: "store", Name: name}
			return session.Run(cmd.Context(), flags.options(cmd), initial,
				func(ctx context.Context, s *session.Session) error { return start(ctx, s, layout, port) })
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "client port on the loopback address (0: any free port)")
	return cmd
}

func startEtcd(ctx context.Context, s *session.Session, layout build.Layout, port int) error {
	path, err := layout.Program("etcd")
	if err != nil {
		return err
	}
	etcd := stores.Etcd{Path: path, Dir: s.State.Dir, Sync: true, CompactEvery: "10m"}
	health := ""
	return s.Launch(ctx, session.Program{
		Ports: stores.EtcdPorts,
		Fixed: port != 0,
		Spec: func(ports []int) (process.Spec, error) {
			ports = chosen(ports, port)
			s.State.URLs, health = []string{etcd.URL(ports[0])}, etcd.Health(ports)
			return etcd.Spec(ports)
		},
		Ready: func(ctx context.Context) error { return probe.OK(ctx, probe.Insecure(), health) },
	})
}

func startNATS(ctx context.Context, s *session.Session, layout build.Layout, port int) error {
	path, err := layout.Program("nats-server")
	if err != nil {
		return err
	}
	nats := stores.NATS{Path: path, Dir: s.State.Dir}
	healthz := ""
	return s.Launch(ctx, session.Program{
		Ports: stores.NATSPorts,
		Fixed: port != 0,
		Spec: func(ports []int) (process.Spec, error) {
			ports = chosen(ports, port)
			s.State.URLs = []string{nats.URL(ports[0])}
			healthz = nats.Healthz(ports[1])
			return nats.Spec(ports)
		},
		Ready: func(ctx context.Context) error {
			if err := probe.OK(ctx, probe.Insecure(), healthz); err != nil {
				return fmt.Errorf("JetStream is not ready: %w", err)
			}
			return nil
		},
	})
}

// chosen replaces the first free port by the port that the user requested.
func chosen(free []int, wanted int) []int {
	if wanted != 0 {
		free[0] = wanted
	}
	return free
}
