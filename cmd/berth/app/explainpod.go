package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/inquire"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// newExplainPodCommand returns the command `berth explain pod`. It reads the pod's records from the log, and asks the
// leading queue and the pod's shard over NATS, for at most one and two seconds; without their answers the rest is
// printed with a note. A pod that is gone and given by name is searched for in the log, which takes longer.
//
// The exit code is 1 if the log does not know the pod, or cannot be read.
func newExplainPodCommand() *cobra.Command {
	r := &logCommand{}
	cmd := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME | UID",
		Short: "Explain why a pod is on its node, pending, or gone",
		Long: "Prints the state of a pod, each attempt to place it and what the attempt weighed, which nodes would accept\n" +
			"it now and why the others would not, which event would requeue it and how many pods are ahead of it, what\n" +
			"the ledger holds for it, and for an evicted pod who evicted it, why, and what replaced it.\n\n" +
			"The history is read from the log, also for deleted pods, as far back as the log reaches. The current state\n" +
			"comes from the running queue and shards; if they do not answer, the rest is printed.",
		Example: "  berth explain pod shop/cart-7d9f-x2x\n" +
			"  kubectl berth explain pod cart-7d9f-x2x -n shop -o wide\n" +
			"  berth explain pod cart-7d9f-x2x -n shop --nats-url nats://nats:4222",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.aboutPod(cmd.Context(), args[0], func(ctx context.Context, i *inquire.Inquiry, pod string) error {
				story, err := i.Pod(ctx, pod)
				if err != nil {
					return err
				}
				return r.write(cmd.OutOrStdout(), story, func(w io.Writer, wide bool) error {
					return story.Text(w, time.Now(), wide)
				})
			})
		},
	}
	r.addFlags(cmd)
	return cmd
}

// newExplainNodeCommand returns the command `berth explain node`. Any shard that knows the node answers, over NATS;
// the first answer is printed. The exit code is 1 if none answers within two seconds.
func newExplainNodeCommand() *cobra.Command {
	r := &logCommand{}
	cmd := &cobra.Command{
		Use:   "node NAME",
		Short: "Explain what a node is used for, and whether shards use it",
		Long: "Prints what a shard counts on a node: what is free, which pods run there or have a reservation, which of\n" +
			"them are to be evicted, and why shards avoid the node if they do. It asks the running shards.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.ask(cmd.Context(), func(ctx context.Context, i *inquire.Inquiry) error {
				a, err := i.Node(ctx, args[0])
				if err != nil {
					return err
				}
				return r.write(cmd.OutOrStdout(), a, func(w io.Writer, wide bool) error {
					return a.Node.Text(w, a.Member, wide)
				})
			})
		},
	}
	r.addFlags(cmd)
	return cmd
}

// newExplainGangCommand returns the command `berth explain gang`. Any shard that knows the PodGroup answers, over NATS,
// and the leading queue about the pod that stands for it. The exit code is 1 if no shard answers within two seconds.
func newExplainGangCommand() *cobra.Command {
	r := &logCommand{}
	cmd := &cobra.Command{
		Use:   "gang [NAMESPACE/]NAME",
		Short: "Explain where the pods of a PodGroup are, and what they wait for",
		Long: "Prints the state of a PodGroup and of each of its pods, how many of them must still find a node together,\n" +
			"which pod stands for the others in the queue and what would wake it, and how many pods have room, in which\n" +
			"domains of the group's topology. It asks the running queue and shards.",
		Example: "  berth explain gang ml/train\n" +
			"  kubectl berth explain gang train -n ml -o wide",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.about(cmd.Context(), args[0], inquire.GangName,
				func(ctx context.Context, i *inquire.Inquiry, name string) error {
					g, err := i.Gang(ctx, name)
					if err != nil {
						return err
					}
					return r.write(cmd.OutOrStdout(), g, func(w io.Writer, wide bool) error {
						return g.Text(w, time.Now(), wide)
					})
				})
		},
	}
	r.addFlags(cmd)
	return cmd
}

// logCommand is a command that reads the log and asks the services: explain, trace, export, replay and simulate embed
// it.
type logCommand struct {
	storeFlags
	namespace string
}

// addFlags adds the flags of a command about one pod or node.
func (r *logCommand) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&r.output, "output", "o", "", "wide, json or yaml; default: text that fits a screen")
	f.StringVarP(&r.namespace, "namespace", "n", "",
		"namespace of a pod given without one; default: that of the kubeconfig's context, as for kubectl")
	r.addLog(f)
}

// aboutPod calls ask with the name or the UID of a pod that a user gave.
func (r *logCommand) aboutPod(
	ctx context.Context, pod string, ask func(context.Context, *inquire.Inquiry, string) error,
) error {
	return r.about(ctx, pod, inquire.PodName, ask)
}

// about resolves a name and calls ask with it. A name without a namespace is completed as kubectl would.
func (r *logCommand) about(
	ctx context.Context, given string, resolve func(namespace, given string) (string, error),
	ask func(context.Context, *inquire.Inquiry, string) error,
) error {
	namespace := r.namespace
	if namespace == "" {
		namespace = r.kubectlNamespace()
	}
	name, err := resolve(namespace, given)
	if err != nil {
		return err
	}
	return r.ask(ctx, func(ctx context.Context, i *inquire.Inquiry) error { return ask(ctx, i, name) })
}

// ask opens the log and calls ask with an inquiry on it. The log is also the bus on which services are asked.
func (r *logCommand) ask(ctx context.Context, ask func(context.Context, *inquire.Inquiry) error) error {
	if err := r.checkOutput(); err != nil {
		return err
	}
	defer r.disconnect()
	// Only the log is opened: the services have what is needed of the ledger.
	log, err := r.openRunning(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return ask(ctx, &inquire.Inquiry{Log: log, History: log, Bus: log})
}

// checkOutput is checkOutput with wide as an additional value.
func (r *logCommand) checkOutput() error {
	if r.output != "wide" && checkOutput(r.output) != nil {
		return errors.New(`--output: "` + r.output + `": want wide, json or yaml`)
	}
	return nil
}

// openRunning opens the log of a running Berth, which it locates if no flag does. The caller closes it.
func (r *logCommand) openRunning(ctx context.Context) (*jetstream.Log, error) {
	if err := r.locate(); err != nil {
		return nil, err
	}
	logger, err := r.logger()
	if err != nil {
		return nil, err
	}
	return r.openLog(ctx, logger)
}

// write writes an answer as text, or structured if requested. wide is passed to text, which then shows everything.
func (r *logCommand) write(w io.Writer, answer any, text func(w io.Writer, wide bool) error) error {
	if done, err := render.Structured(w, answer, r.output); done {
		return err
	}
	return text(w, r.output == "wide")
}
