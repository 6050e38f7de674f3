package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/cmd/berth/internal/audit"
)

// newCheckCommand makes `berth check`: exit 0 without violations, 1 with.
func newCheckCommand() *cobra.Command {
	o := &options{ledgerPrefix: "/berth/"}
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Audit the cluster from the API server's own state",
		Long: "Lists nodes and pods, adds everything up from scratch, and reports nodes over their allocatable\n" +
			"and pods on nodes they do not fit. Exits 1 when it finds a violation; warnings do not count.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output: %q: want json or yaml", output)
			}
			cfg, err := o.restConfig()
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return fmt.Errorf("--kubeconfig: %w", err)
			}
			report, err := audit.Run(cmd.Context(), client)
			if err != nil {
				return err
			}
			if err := writeReport(cmd.OutOrStdout(), report, output); err != nil {
				return err
			}
			if n := report.Violations(); n > 0 {
				return fmt.Errorf("check: %d violations", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; default: text")
	return cmd
}

func writeReport(w io.Writer, r audit.Report, format string) error {
	switch format {
	case "json":
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, string(raw))
		return err
	case "yaml":
		raw, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	}
	fmt.Fprintf(w, "%d nodes, %d pods: %d bound (%d by Berth), %d pending\n",
		r.Nodes, r.Pods, r.Bound, r.ByBerth, r.Pending)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s  %s  %s: %s\n", f.Severity, f.Rule, f.Object, f.Message)
	}
	_, err := fmt.Fprintf(w, "%d violations, %d warnings\n", r.Violations(), len(r.Findings)-r.Violations())
	return err
}
