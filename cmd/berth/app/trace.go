package app

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/inquire"
	"github.com/berth-scheduler/berth/pkg/explain"
)

// newTraceCommand returns the command `berth trace`, with its subcommand `pod`. It reads the log alone, except that
// the queue is asked for the UID of a pod that is given by name. It needs no tracing backend: the times are in the
// decisions' evidence. A shard that runs with --no-evidence leaves only the times between records.
//
// The exit code is 1 if the pod is not found, or the log cannot be read; a pod without events is drawn as such.
func newTraceCommand() *cobra.Command {
	r := &logCommand{}
	pod := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME | UID",
		Short: "Draw the path of a pod as a waterfall",
		Long: "Draws each step of a pod's path and how long it took: in the queue and why, each attempt and its result,\n" +
			"the reservation, the bind. It reads only the log, and so works for deleted pods and for pods whose traces\n" +
			"were not recorded. A tracing backend has the same path as the trace whose ID is the pod's UID without\n" +
			"dashes.",
		Example: "  berth trace pod shop/cart-7d9f-x2x --nats-url nats://nats:4222",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.aboutPod(cmd.Context(), args[0], func(ctx context.Context, i *inquire.Inquiry, pod string) error {
				uid, err := i.UID(ctx, pod)
				if err != nil {
					return err
				}
				story, err := i.Story(ctx, uid)
				if err != nil {
					return err
				}
				// One time for the steps and the drawing, so that open steps end at its right edge.
				now := time.Now()
				return r.write(cmd.OutOrStdout(), path{story.UID, story.Namespace, story.Name, story.Steps(now)},
					func(w io.Writer, wide bool) error { return story.Waterfall(w, now, wide) })
			})
		},
	}
	r.addFlags(pod)
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Draw what happened and how long it took",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pod)
	return cmd
}

// path is the output of -o json and yaml: the pod, and its steps in the order of their starts.
type path struct {
	UID, Namespace, Name string
	Steps                []explain.Step
}
