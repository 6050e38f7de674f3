package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/deploy/internal/render"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{Use: "deploy", Short: "Manifests and chart", SilenceUsage: true, SilenceErrors: true}
	cmd.PersistentFlags().StringVar(&root, "root", ".", "root of the repository")
	cmd.AddCommand(generateCommand(&root), renderCommand(&root))
	return cmd
}

func generateCommand(root *string) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "generate", Short: "Write the files generated from the chart", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return render.Generate(*root, check) },
	}
	cmd.Flags().BoolVar(&check, "check", false, "do not write; fail if a file is stale")
	return cmd
}

func renderCommand(root *string) *cobra.Command {
	var chart, kustomize string
	cmd := &cobra.Command{
		Use: "render", Short: "Print the objects of a variant", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var text string
			var err error
			switch {
			case chart != "":
				var templates map[string]string
				templates, err = render.Chart(*root, render.Variant{Name: chart})
				text = render.Merged(templates)
			case kustomize != "":
				text, err = render.Kustomization(*root, render.Variant{Name: kustomize})
			default:
				err = errors.New("--chart, --kustomize: both empty: want one of them, with the name of a variant")
			}
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&chart, "chart", "", "variant to render with the chart")
	cmd.Flags().StringVar(&kustomize, "kustomize", "", "variant to build from its kustomization")
	return cmd
}
