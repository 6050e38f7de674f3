package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/manifest"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/simulate"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// simulateCommand is the command `berth simulate`.
type simulateCommand struct {
	logCommand
	bundle, at string
	// like and count are --like and --add-nodes; files are manifests of objects to add.
	like    string
	count   int
	files   []string
	changes simulate.Changes
}

// newSimulateCommand returns the command `berth simulate`. It reads the log of a running Berth or a bundle, and
// manifests from files; it contacts no other server and changes nothing. It rebuilds the state first, which takes
// seconds in a large cluster, and then runs package simulate.
//
// The exit code is 1 if a change cannot be applied, such as a drain of an unknown node; pods that stay pending are a
// result, not an error.
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
	// The current time is replaced below by that of a state in the past.
	in := simulate.Input{Now: time.Now()}
	if in.Changes, err = s.readChanges(); err != nil {
		return err
	}
	// Configuration and policy are checked before the log is read, which may take a while.
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
		// A state of the past, or one in a bundle, is played at its own time. The current time would make its pods
		// hours older than they were, and old enough for strategies that look at ages.
		if !rebuilt.Time.IsZero() && (s.at != "" || s.bundle != "") {
			in.Now = rebuilt.Time
		}
		report, err := simulate.Run(in)
		if err != nil {
			return err
		}
		if done, err := render.Structured(w, &report, s.output); done {
			return err
		}
		return render.Simulation(w, &report)
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

// readManifest reads one file of --filename. Standard input and URLs, which kubectl accepts, are not supported.
func readManifest(path string) (manifest.Content, error) {
	file, err := os.Open(path)
	if err != nil {
		return manifest.Content{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return manifest.Read(file)
}
