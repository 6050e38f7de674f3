package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/priorities"
)

// newStatusCommand makes `berth status`.
func newStatusCommand() *cobra.Command {
	o := &options{}
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how pods and their requests are spread over priorities, and warn of inflation",
		Long: "Lists pods and ResourceQuotas and shows, for every priority in use, how many pods have it and what\n" +
			"part of all requested CPU and memory; the quotas for PriorityClasses; and warnings where preemption\n" +
			"can no longer help, because nothing less important is there. With --data-dir or --etcd-endpoints it says\n" +
			"as well whether descheduling is paused. It reads only.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			report, err := o.status(cmd.Context())
			if err != nil {
				return err
			}
			line, err := o.switchLine(cmd.Context())
			if err != nil {
				return err
			}
			return writeStatus(cmd.OutOrStdout(), statusReport{report, line}, output)
		},
	}
	o.addLedger(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; default: text")
	return cmd
}

func (o *options) status(ctx context.Context) (priorities.Report, error) {
	client, err := o.client()
	if err != nil {
		return priorities.Report{}, err
	}
	pods, err := listPages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list pods: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return priorities.Report{}, err
	}
	quotas, err := listPages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.ResourceQuota, string, error) {
		page, err := client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list quotas: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return priorities.Of(pods, quotas), err
}

// statusReport is what `berth status` says.
type statusReport struct {
	priorities.Report
	// Descheduling is the stop switch in words; empty when no ledger was named.
	Descheduling string `json:"descheduling,omitempty"`
}

func writeStatus(w io.Writer, r statusReport, format string) error {
	if done, err := writeStructured(w, r, format); done {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRIORITY\tCLASS\tPODS\tWAITING\tSHARE\tCPU\tSHARE\tMEMORY\tSHARE")
	for _, b := range r.Bands {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%.0f%%\t%s\t%.0f%%\t%s\t%.0f%%\n",
			b.Priority, b.Class, b.Pods, b.Waiting, 100*b.PodShare,
			resource.NewMilliQuantity(b.MilliCPU, resource.DecimalSI), 100*b.CPUShare,
			resource.NewQuantity(b.MemoryBytes, resource.BinarySI), 100*b.MemoryShare)
	}
	if len(r.Quotas) > 0 {
		fmt.Fprintln(table, "\nQUOTA\tSCOPE\tRESOURCE\tUSED\tHARD")
	}
	for _, q := range r.Quotas {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\n", q.Namespace, q.Name, q.Scope, q.Resource, q.Used, q.Hard)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := writeSwitch(w, r.Descheduling); err != nil {
		return err
	}
	for _, warning := range r.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}
