package main

import (
	"context"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
)

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build NAME...",
		Short: "Build the programs that are missing or out of date",
		Long: "Build brings programs in .build/bin up to date.\n\n" +
			"NAME is one or more of " + strings.Join(build.Names(), ", ") + ".",
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: build.Names(),
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return build.Named(ctx, names, cmd.ErrOrStderr())
		},
	}
}

// interruptible returns a context that Ctrl-C and SIGTERM end.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}
