package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tools/cluster/internal/devices"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/provisioner"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// driver is a stand-in for the driver of a kind of volumes or devices.
type driver struct {
	use, short string
	// name is its name unless the user gives another.
	name string
	run  func(ctx context.Context, name string, client kubernetes.Interface, logger *slog.Logger)
}

func provisionCommand() *cobra.Command {
	return driver{
		use:   "provision",
		short: "Create volumes for the claims of a provisioner's storage classes until interrupted",
		name:  "disk.example.com",
		run: func(ctx context.Context, name string, client kubernetes.Interface, logger *slog.Logger) {
			provisioner.Provisioner{Name: name, Client: client, Logger: logger}.Run(ctx)
		},
	}.command()
}

func devicesCommand() *cobra.Command {
	return driver{
		use:   "devices",
		short: "Publish the devices described by node annotations until interrupted",
		name:  "gpu.example.com",
		run: func(ctx context.Context, name string, client kubernetes.Interface, logger *slog.Logger) {
			devices.Driver{Name: name, Client: client, Logger: logger}.Run(ctx)
		},
	}.command()
}

func (d driver) command() *cobra.Command {
	var (
		flags sessionFlags
		name  string
	)
	cmd := &cobra.Command{
		Use:   d.use,
		Short: d.short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := readyCluster(flags.dir)
			if err != nil {
				return err
			}
			if flags.detach {
				return d.detach(cmd, flags, state, name)
			}
			client, err := nodesClient(state.Cluster.Kubeconfig)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			d.run(ctx, name, client, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&name, "name", d.name, "name of the driver")
	return cmd
}

// detach runs the same command as a peer of the cluster: it ends with the cluster, or by itself.
func (d driver) detach(cmd *cobra.Command, flags sessionFlags, cluster session.State, name string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	opts := flags.options(cmd)
	opts.Dir = filepath.Join(flags.dir, peersDir, d.use)
	opts.Owners = append(opts.Owners, cluster.SupervisorPID)
	return session.Run(cmd.Context(), opts, session.State{Kind: "peer", Name: d.use},
		func(ctx context.Context, s *session.Session) error {
			return s.Launch(ctx, session.Program{Spec: func([]int) (process.Spec, error) {
				args := []string{d.use, "--dir", flags.dir, "--name", name}
				return process.Spec{Name: d.use, Path: exe, Args: args}, nil
			}})
		})
}
