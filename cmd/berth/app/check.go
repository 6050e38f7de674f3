package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/cmd/berth/internal/survey"
	"github.com/berth-scheduler/berth/pkg/audit"
)

// newCheckCommand returns the command `berth check`. It lists seven kinds of objects once, in pages, for which the
// user needs permission in all namespaces, and, if the flags name a ledger, two prefixes of it twice. It may run
// against a busy cluster at any time: what changes while it reads does not look like a violation.
//
// The exit code is 0 without violations, and 1 with some, or if something cannot be read. A cluster in which other
// schedulers bind pods may have warnings that nothing can be done about.
func newCheckCommand() *cobra.Command {
	o := &options{}
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the current state of the cluster, from the API server and the ledger",
		Long: "Lists nodes and pods, and with --berth-namespace, --etcd-endpoints or --data-dir also the ledger, and\n" +
			"recomputes all totals from scratch. It reports nodes with more requested than allocatable, pods on nodes\n" +
			"that they do not fit, pods that violate anti-affinity, volume claims and devices that two pods use,\n" +
			"reservations that contradict each other, and evictions that disruption budgets do not allow. It only\n" +
			"reads. It exits with 1 if it finds a violation; warnings do not count. To check a history, use `berth\n" +
			"audit`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			report, err := o.check(cmd.Context())
			if err != nil {
				return err
			}
			if err := render.Check(cmd.OutOrStdout(), report, output); err != nil {
				return err
			}
			if n := report.Violations(); n > 0 {
				return fmt.Errorf("check: %d violations", n)
			}
			return nil
		},
	}
	o.addLedger(cmd.Flags())
	o.addInstallation(cmd.Flags(), "without this flag, --etcd-endpoints and --data-dir the ledger is not read")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; default: text")
	return cmd
}

// check reads the ledger, the cluster, and the ledger again, in this order: audit.Check counts a reservation only if
// it was there all the time. Without a ledger both lists are nil, and only the API server is checked.
func (o *options) check(ctx context.Context) (*audit.CheckReport, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	defer o.disconnect()
	store, err := o.openLedger(ctx)
	if err != nil {
		return nil, err
	}
	// A check without a ledger has no reservations, victims or budgets' documents to look at.
	var in audit.CurrentState
	if store != nil {
		defer func() { _ = store.Close() }() // only read
	}
	if in.Before, err = survey.Ledger(ctx, store); err != nil {
		return nil, err
	}
	if err := survey.Cluster(ctx, client, &in); err != nil {
		return nil, err
	}
	if in.After, err = survey.Ledger(ctx, store); err != nil {
		return nil, err
	}
	// From here on nothing is read any more: the check is a pure function of the lists.
	report := audit.Check(in)
	report.Ledger = store != nil
	report.Findings = append(report.Findings, ownPods(in.Pods)...)
	return report, nil
}
