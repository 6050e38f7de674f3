package app

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
)

// newExplainDescheduleCommand returns the command `berth explain deschedule`.
func newExplainDescheduleCommand() *cobra.Command {
	o := &once{dryRun: true, write: writeExplanation}
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

// writeExplanation prints a summary of a plan: a paragraph for each strategy, and a line for each node that the plan
// affects.
func writeExplanation(w io.Writer, r *plan.Report, format string) error {
	if done, err := writeStructured(w, r, format); done {
		return err
	}
	fmt.Fprintf(w, "%d nodes, %d pods picked, %d to evict, %d stay (facts %d)\n",
		r.Nodes, r.Picked, len(r.Evict), len(r.Kept), r.Facts)
	if r.Skipped != "" {
		fmt.Fprintf(w, "no cycle: %s\n", r.Skipped)
	}
	for _, s := range r.Strategies {
		going, because := 0, map[string]int{}
		for _, m := range r.Evict {
			if m.Profile == s.Profile && m.Strategy == s.Strategy {
				going++
			}
		}
		for _, k := range r.Kept {
			if k.Profile == s.Profile && k.Strategy == s.Strategy {
				because[string(k.Because)]++
			}
		}
		fmt.Fprintf(w, "\n%s of profile %s: %d picked, %d to evict\n", s.Strategy, s.Profile, s.Picked, going)
		for _, sentence := range s.Says {
			fmt.Fprintf(w, "  %s\n", sentence)
		}
		for _, reason := range counted(because) {
			fmt.Fprintf(w, "  stay: %s\n", reason)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
			fmt.Fprintf(w, "  node %s is %s\n", name, s.Nodes[name])
		}
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "\n%s of profile %s failed: %s\n", f.Strategy, f.Profile, f.Error)
	}
	return writeByNode(w, r)
}

// counted lists "n reason", the most frequent first.
func counted(because map[string]int) []string {
	reasons := slices.SortedFunc(maps.Keys(because), func(a, b string) int {
		return cmp.Or(cmp.Compare(because[b], because[a]), cmp.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", because[reason], reason)
	}
	return reasons
}

// traffic is the effect of a plan on a node.
type traffic struct {
	leave, arrive int
	because       map[string]int
}

func writeByNode(w io.Writer, r *plan.Report) error {
	nodes := map[string]*traffic{}
	at := func(name string) *traffic {
		if nodes[name] == nil {
			nodes[name] = &traffic{because: map[string]int{}}
		}
		return nodes[name]
	}
	for _, m := range r.Evict {
		at(m.Node).leave++
		if m.Landing != "" {
			at(m.Landing).arrive++
		}
	}
	for _, k := range r.Kept {
		at(k.Node).because[string(k.Because)]++
	}
	if len(nodes) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tLEAVE\tARRIVE\tSTAY")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		stay := strings.Join(counted(n.because), "; ")
		if stay == "" {
			stay = "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", name, n.leave, n.arrive, stay)
	}
	return t.Flush()
}
