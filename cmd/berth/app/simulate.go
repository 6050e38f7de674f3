package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/manifest"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/simulate"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// simulateCommand is the command `berth simulate`.
type simulateCommand struct {
	logCommand
	bundle, at string
	like       string
	count      int
	files      []string
	changes    simulate.Changes
}

// newSimulateCommand returns the command `berth simulate`. It reads the log of a running Berth or a bundle, and
// manifests from files; it contacts no other server and changes nothing. The exit code is 1 if a change cannot be
// applied, such as a drain of an unknown node; pods that stay pending are a result, not an error.
func newSimulateCommand() *cobra.Command {
	s := &simulateCommand{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Predict what would happen to the cluster after a change",
		Long: "Takes the state from the log of a running Berth or from a bundle, at its end or at a time in the past,\n" +
			"applies the changes given, and plays them through with the rules of the shards and the descheduler: which\n" +
			"pods get which place, which pods are evicted for which others, and which pods stay pending, and why.\n" +
			"Nothing is changed.\n\n" +
			"Without changes it predicts what happens to the pending pods.",
		Example: "  berth simulate --drain node-3 --drain node-4\n" +
			"  berth simulate -f deployment.yaml --add-nodes 2 --like node-1\n" +
			"  berth simulate --bundle incident.tar --at 2026-11-22T02:33:48Z --config packing.yaml -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVarP(&s.output, "output", "o", "", "json or yaml; default: tables")
	f.StringVar(&s.bundle, "bundle", "", "bundle that berth export wrote, instead of a running Berth")
	f.StringVar(&s.at, "at", "", "sequence number in the stream FACTS, or time (RFC 3339); default: the end of the log")
	f.StringSliceVar(&s.changes.Drain, "drain", nil,
		"drain this node, as kubectl drain does, respecting disruption budgets")
	f.StringSliceVar(&s.changes.Remove, "remove-node", nil, "remove this node, with all pods on it")
	f.IntVar(&s.count, "add-nodes", 0, "number of nodes to add, copies of --like")
	f.StringVar(&s.like, "like", "", "node to copy for --add-nodes")
	f.StringSliceVarP(&s.files, "filename", "f", nil, "manifest of pods, nodes or workloads to add")
	f.StringVar(&s.config, "config", "",
		"KubeSchedulerConfiguration to place by; default: that of the bundle, otherwise one profile, default-scheduler")
	f.StringVar(&s.descheduling.policy, "policy", "", "DeschedulerPolicy to apply once")
	s.addLog(f)
	cmd.MarkFlagsRequiredTogether("add-nodes", "like")
	return cmd
}

// run rebuilds the state, applies the changes, and prints the report. The time of the simulation is the current one
// for the end of a running log, and otherwise that of the state, so that ages are right.
func (s *simulateCommand) run(ctx context.Context, w io.Writer) error {
	if err := checkOutput(s.output); err != nil {
		return err
	}
	at, err := s.moment()
	if err != nil {
		return err
	}
	in := simulate.Input{Now: time.Now()}
	if in.Changes, err = s.readChanges(); err != nil {
		return err
	}
	files, err := s.readFiles()
	if err != nil {
		return err
	}
	in.Policy = files.policy
	return s.openSource(ctx, s.bundle, func(src rerun.Source, profiles []placement.ProfileConfig) error {
		rebuilt, err := rerun.Rebuild(ctx, src, at)
		if err != nil {
			return err
		}
		in.Facts = rebuilt.Facts
		in.Ledger = rebuilt.Ledger
		in.Profiles = profiles
		if !rebuilt.Time.IsZero() && (s.at != "" || s.bundle != "") {
			in.Now = rebuilt.Time
		}
		report, err := simulate.Run(in)
		if err != nil {
			return err
		}
		if done, err := writeStructured(w, &report, s.output); done {
			return err
		}
		return writeSimulation(w, &report)
	})
}

// moment parses --at; the zero value is the end of the log.
func (s *simulateCommand) moment() (rerun.At, error) {
	if s.at == "" {
		return rerun.At{}, nil
	}
	if sequence, err := strconv.ParseUint(s.at, 10, 64); err == nil && sequence > 0 {
		return rerun.At{Sequence: sequence}, nil
	}
	t, err := time.Parse(time.RFC3339, s.at)
	if err != nil {
		return rerun.At{}, fmt.Errorf("--at: %q: want a sequence from 1, or a time such as 2026-11-22T02:33:48Z", s.at)
	}
	return rerun.At{Time: t}, nil
}

// readChanges returns the changes that the flags describe, with the pods and nodes of all manifests.
func (s *simulateCommand) readChanges() (simulate.Changes, error) {
	changes := s.changes
	if s.like != "" {
		if s.count < 1 {
			return changes, fmt.Errorf("--add-nodes: %d: want 1 or more", s.count)
		}
		changes.Add = []simulate.Addition{{Count: s.count, Like: s.like}}
	}
	for _, path := range s.files {
		content, err := readManifest(path)
		if err != nil {
			return changes, fmt.Errorf("--filename: %s: %w", path, err)
		}
		changes.Pods = append(changes.Pods, content.Pods...)
		changes.Nodes = append(changes.Nodes, content.Nodes...)
	}
	return changes, nil
}

func readManifest(path string) (manifest.Content, error) {
	file, err := os.Open(path)
	if err != nil {
		return manifest.Content{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return manifest.Read(file)
}

// writeSimulation prints a report.
func writeSimulation(w io.Writer, r *simulate.Report) error {
	out := &errWriter{w: w}
	out.printf("at fact %d, ledger revision %d; then %d nodes, %d pods on them\n", r.Facts, r.Ledger, r.Nodes, r.Pods)
	for _, change := range r.Changes {
		out.printf("  %s\n", change)
	}
	if r.Unasked > 0 {
		out.printf(
			"%d pods are placed by built-in rules only: extenders or plugins that would be consulted are not called\n",
			r.Unasked)
	}
	table := func(header string, rows [][]any) {
		if len(rows) == 0 {
			return
		}
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintf(t, "\n%s\n", header) // out keeps the error
		for _, row := range rows {
			for i, cell := range row {
				if i > 0 {
					_, _ = fmt.Fprint(t, "\t")
				}
				_, _ = fmt.Fprint(t, cell)
			}
			_, _ = fmt.Fprintln(t)
		}
		_ = t.Flush()
	}
	table("EVICTED\tFROM\tBY\tWHY", evictionRows(r.Evicted))
	table("STAYS\tON\tBY\tBECAUSE", evictionRows(r.Kept))
	var placed, pending [][]any
	for _, p := range r.Placed {
		placed = append(placed, []any{p.Pod, p.Node, dash(p.Replaces), p.Feasible})
	}
	for _, p := range r.Pending {
		pending = append(pending, []any{p.Pod, dash(p.Replaces), p.Why})
	}
	table("PLACED\tON\tREPLACES ONE ON\tFEASIBLE", placed)
	table("PENDING\tREPLACES ONE ON\tWHY", pending)
	out.printf("\n%d evicted, %d stay, %d placed, %d pending\n",
		len(r.Evicted), len(r.Kept), len(r.Placed), len(r.Pending))
	return out.err
}

func evictionRows(list []simulate.Eviction) [][]any {
	var rows [][]any
	for _, e := range list {
		rows = append(rows, []any{e.Pod, e.Node, e.By, e.Why})
	}
	return rows
}

// dash returns "-" for an empty cell, so that scripts can split the columns.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
