package app

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/placement/config"
)

// newConfigCommand returns the command `berth config`, which only has subcommands.
func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and print the configuration of the scheduler",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigPrintCommand())
	return cmd
}

// newConfigPrintCommand returns the command `berth config print`. It contacts nothing. The exit code is 1 if the file
// has mistakes; fields without effect are warnings on standard error.
func newConfigPrintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print a KubeSchedulerConfiguration with every default filled in",
		Long: "Prints what a file for --config means, as a KubeSchedulerConfiguration: each plugin at each point in\n" +
			"running order, the complete arguments of all plugins, and Berth's own settings. The output is a file that\n" +
			"means the same to Berth and to kube-scheduler; kube-scheduler writes one with --write-config-to. Without\n" +
			"FILE it prints the default configuration. Settings whose defaults differ between the two programs stay 0\n" +
			"or absent as in the file (see configuration.md). Fields without effect are named on standard error.",
		Example: "  berth config print examples/scheduler-config.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := config.Default()
			if len(args) > 0 {
				var err error
				if c, err = config.Load(args[0], pluginNames()...); err != nil {
					return err
				}
			}
			return printConfig(cmd.OutOrStdout(), cmd.ErrOrStderr(), c)
		},
	}
}

// printConfig writes a configuration as YAML, and its warnings.
func printConfig(out, warnings io.Writer, c *config.Configuration) error {
	text, err := yaml.Marshal(c.Effective)
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	for _, line := range c.Warnings {
		if _, err := fmt.Fprintf(warnings, "warning: %s\n", line); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}
