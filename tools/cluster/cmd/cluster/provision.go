package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/provisioner"
)

func provisionCommand() *cobra.Command {
	var dir, name string
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Make volumes for the claims of a provisioner's storage classes until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := readyCluster(dir)
			if err != nil {
				return err
			}
			client, err := nodesClient(state.Cluster.Kubeconfig)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			provisioner.Provisioner{
				Name: name, Client: client, Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			}.Run(ctx)
			return nil
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVar(&name, "name", "disk.example.com", "the provisioner of the storage classes")
	return cmd
}
