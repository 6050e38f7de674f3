package app

import (
	"github.com/spf13/cobra"
)

// newExplainCommand returns the command `berth explain`, which only has subcommands.
func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain why something happens, or does not",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExplainPodCommand(), newExplainNodeCommand(), newExplainGangCommand(), newExplainDescheduleCommand())
	return cmd
}
