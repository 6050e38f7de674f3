package app

import (
	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
)

// newExplainDescheduleCommand returns the command `berth explain deschedule`: a dry run of `berth deschedule` that
// prints a summary instead of a line for each pod. It contacts the same servers, and evicts nothing.
func newExplainDescheduleCommand() *cobra.Command {
	o := &storeFlags{dryRun: true, write: render.PlanSummary}
	cmd := &cobra.Command{
		Use:   "deschedule",
		Short: "Explain what a descheduling cycle would evict, and why",
		Long: "Plans one cycle of a DeschedulerPolicy without evicting, and summarizes it by strategy and by node: how\n" +
			"full nodes are compared with the thresholds, which pods are protected, and how many pods each guard keeps.\n" +
			"For individual pods, see `berth deschedule --dry-run`.",
		Example: "  berth explain deschedule --policy policy.yaml --data-dir berth-data",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.deschedule(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "json or yaml; default: text")
	o.addDescheduling(f)
	_ = cmd.MarkFlagRequired("policy") // fails only for a flag that does not exist
	return cmd
}
