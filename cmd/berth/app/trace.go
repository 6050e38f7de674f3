package app

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/inquire"
	"github.com/berth-scheduler/berth/pkg/explain"
)

// newTraceCommand returns the command `berth trace`.
func newTraceCommand() *cobra.Command {
	r := &reading{}
	pod := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME | UID",
		Short: "Draw the path of a pod as a waterfall",
		Long: "Draws what became of a pod, and how long each part of it took: in the queue and why, each attempt with\n" +
			"what it found, the reservation, the bind. It is read from the log alone, also for pods that are gone and\n" +
			"pods whose traces were not recorded. In a tracing backend the same path is the trace whose id is the\n" +
			"pod's UID without dashes.",
		Example: "  berth trace pod shop/cart-7d9f-x2x --nats-url nats://nats:4222",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.about(cmd.Context(), args[0], func(ctx context.Context, i *inquire.Inquiry, pod string) error {
				uid, err := i.UID(ctx, pod)
				if err != nil {
					return err
				}
				story, err := i.Story(ctx, uid)
				if err != nil {
					return err
				}
				now := time.Now()
				return r.write(cmd.OutOrStdout(), path{story.UID, story.Namespace, story.Name, story.Steps(now)},
					func(w io.Writer, wide bool) error { return story.Waterfall(w, now, wide) })
			})
		},
	}
	r.addFlags(pod)
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Draw what happened, and how long it took",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pod)
	return cmd
}

// path is the output of -o json and yaml.
type path struct {
	UID, Namespace, Name string
	Steps                []explain.Step
}
