package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := rootCommand().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Build and run a local Kubernetes cluster without a scheduler",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		buildCommand(),
		upCommand(),
		nodesCommand(),
		statusCommand(),
		downCommand(),
		storeCommand(),
		peerCommand(),
		provisionCommand(),
		devicesCommand(),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}
