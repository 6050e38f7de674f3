// Command cluster builds and runs the local Kubernetes cluster that Berth is
// developed, tested and measured against, and the programs it is compared
// with.
//
// Every subcommand writes lines for people to stderr and, where there is a
// result, one JSON document to stdout. The exit status is 0 exactly when the
// command did what it was asked to.
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
	)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}
