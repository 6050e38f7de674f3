package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/inquire"
	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/config"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// replayListed is how many decisions are printed unless -o wide, json or yaml is given.
const replayListed = 20

// replayCommand is the command `berth replay`. One of pod, at, all and sample selects the decisions; strict withholds
// even the recorded nodes that a decision counted before the ledger showed them.
type replayCommand struct {
	logCommand
	// bundle is a file instead of a running Berth.
	bundle, pod, at string
	all, strict     bool
	sample          int
	seed            uint64
}

// newReplayCommand returns the command `berth replay`. It reads the log of a running Berth or a bundle, and contacts
// nothing else: neither extenders nor plugins are called again. The state is kept as a shard keeps it, so memory is
// that of a shard, and the time is that of the facts plus that of the decisions which are made again.
//
// The exit code is 1 if a decision differs for no known reason, and if no decision was selected that can be made
// again. Differences with a known reason (another configuration, another version) are listed and do not count.
func newReplayCommand() *cobra.Command {
	r := &replayCommand{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Recompute recorded decisions and compare the results",
		Long: "Rebuilds, from the facts in the log and the history of the ledger, the state on which a shard decided,\n" +
			"runs the shard's own code on it again, and compares the results: the node, the scores of the best nodes,\n" +
			"how many nodes each rule rejected, and the reasons. The record's own outcome is withheld from the\n" +
			"recomputation. The exit code is 1 if a result differs and neither the configuration nor the version\n" +
			"explains the difference.\n\n" +
			"It reads the log of a running Berth, or a bundle that `berth export` wrote, and changes nothing. Give the\n" +
			"configuration of the shards if it is not the default and not in the bundle.",
		Example: "  berth replay --pod shop/cart-7d9f-x2x\n" +
			"  berth replay --bundle incident.tar --all --strict\n" +
			"  berth replay --at 2026-11-22T02:33:48Z --nats-url nats://nats:4222",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	r.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&r.bundle, "bundle", "", "bundle that berth export wrote, instead of a running Berth")
	f.StringVar(&r.config, "config", "",
		"KubeSchedulerConfiguration of the shards; default: that of the bundle, otherwise one profile, default-scheduler")
	f.StringVar(&r.pod, "pod", "", "[NAMESPACE/]NAME or UID: all decisions about this pod")
	f.StringVar(&r.at, "at", "",
		"sequence number in the stream DECISIONS, or time (RFC 3339): the first decision at or after it;\n"+
			"17.2 is the third decision in the frame 17")
	f.BoolVar(&r.all, "all", false, "all decisions")
	f.IntVar(&r.sample, "sample", 0, "approximate number of decisions to choose at random")
	f.Uint64Var(&r.seed, "seed", 0, "seed of the random choice of --sample")
	f.BoolVar(&r.strict, "strict", false,
		"do not use any recorded node, not even those that a decision counted before the ledger showed them")
	cmd.MarkFlagsMutuallyExclusive("pod", "at", "all", "sample")
	cmd.MarkFlagsOneRequired("pod", "at", "all", "sample")
	return cmd
}

func (r *replayCommand) run(ctx context.Context, w io.Writer) error {
	if r.sample < 0 {
		return fmt.Errorf("--sample: %d: want 1 or more", r.sample)
	}
	return r.openSource(ctx, r.bundle, func(src rerun.Source, profiles []placement.ProfileConfig) error {
		return r.replay(ctx, w, src, profiles)
	})
}

// openSource opens the bundle, or the log of a running Berth, with the configuration to decide by, and calls use. Both
// are closed when use returns. replay, simulate and export share it.
func (r *logCommand) openSource(
	ctx context.Context, bundle string, use func(rerun.Source, []placement.ProfileConfig) error,
) error {
	if err := r.checkOutput(); err != nil {
		return err
	}
	// A bundle brings its own configuration, a running Berth does not.
	var src rerun.Source
	var text []byte
	if bundle != "" {
		b, err := past.OpenBundle(bundle)
		if err != nil {
			return fmt.Errorf("--bundle: %w", err)
		}
		defer func() { _ = b.Close() }() // it was only read
		src, text = b, b.Config
	} else {
		defer r.disconnect()
		log, err := r.openRunning(ctx)
		if err != nil {
			return err
		}
		defer log.Close()
		src = past.Live{Log: log}
	}
	cfg, err := r.profilesOf(text)
	if err != nil {
		return err
	}
	return use(src, cfg.Profiles)
}

// profilesOf returns the configuration of --config, else that of a bundle, else the default. It must be that of the
// shard that decided: with another one decisions differ for a known reason, which the verdict names.
func (r *logCommand) profilesOf(bundled []byte) (*config.Configuration, error) {
	switch {
	case r.config != "":
		cfg, err := config.Load(r.config, pluginNames()...)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		return cfg, nil
	case len(bundled) > 0:
		cfg, err := config.Parse("configuration of the bundle", bundled, pluginNames()...)
		if err != nil {
			return nil, fmt.Errorf("--bundle: %w", err)
		}
		return cfg, nil
	}
	return config.Default(), nil
}

// replay runs the selected decisions again and prints the result. -o wide, json and yaml list all of them; otherwise
// the first replayListed that differ.
func (r *replayCommand) replay(
	ctx context.Context, w io.Writer, src rerun.Source, profiles []placement.ProfileConfig,
) error {
	wanted, err := r.selection(ctx, src)
	if err != nil {
		return err
	}
	// The result is bounded, whatever the number of decisions.
	result := replayResult{listed: replayListed, single: r.pod != "" || r.at != ""}
	if r.output != "" {
		result.listed = math.MaxInt
	}
	// Each verdict is counted as it comes, so that a log of any length needs little memory.
	err = rerun.Run(ctx, rerun.Job{
		Source: src, Profiles: profiles, Version: berthVersion(), Wanted: wanted, Strict: r.strict, Each: result.add,
		LeftOut: func(eventlog.Record, error) { result.Unreadable++ },
	})
	if err != nil {
		return err
	}
	// A replay of nothing must not look like a success.
	if result.Decisions == 0 {
		return errors.New("the log has no such decision that records what it was computed from")
	}
	if done, err := render.Structured(w, &result, r.output); done {
		return errors.Join(err, result.verdict())
	}
	if err := result.text(w); err != nil {
		return err
	}
	return result.verdict()
}

// selection returns a filter for the requested records; nil selects all. Only decisions that an attempt of a shard
// made, with their evidence, can be made again; the run leaves others out by itself.
func (r *replayCommand) selection(
	ctx context.Context, src rerun.Source,
) (func(eventlog.Record, *events.Decision) bool, error) {
	switch {
	case r.pod != "":
		namespace := r.namespace
		if namespace == "" {
			namespace = r.kubectlNamespace()
		}
		name, err := inquire.PodName(namespace, r.pod)
		if err != nil {
			return nil, fmt.Errorf("--pod: %w", err)
		}
		return func(_ eventlog.Record, d *events.Decision) bool {
			return d.Pod.UID == name || d.Pod.Namespace+"/"+d.Pod.Name == name
		}, nil
	case r.at != "":
		return r.firstFrom()
	case r.sample > 0:
		total, err := rerun.Count(ctx, src)
		if err != nil {
			return nil, err
		}
		// Each record is chosen independently with this probability, so the number of chosen ones is approximate; the
		// log is read only once more.
		share := float64(r.sample) / float64(max(total, 1))
		return func(rec eventlog.Record, _ *events.Decision) bool {
			return share >= 1 || float64(mix(rec, r.seed)) < share*math.MaxUint64
		}, nil
	}
	return nil, nil
}

// mix hashes a position, so that records are sampled independently of their content: the same seed selects the same
// decisions of the same log. The factor (2^64 divided by the golden ratio) spreads FNV's weak upper bits.
func mix(r eventlog.Record, seed uint64) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, seed, " ", r.Sequence, " ", r.Index) // a hash never fails
	return h.Sum64() * 0x9e3779b97f4a7c15
}

// firstFrom returns a filter for the first decision at or after --at. The filter remembers that it has selected one,
// and so serves one run.
func (r *replayCommand) firstFrom() (func(eventlog.Record, *events.Decision) bool, error) {
	// The filter is called in the order of the log, so the first match is the decision to select.
	found := false
	first := func(reached func(eventlog.Record) bool) func(eventlog.Record, *events.Decision) bool {
		return func(rec eventlog.Record, _ *events.Decision) bool {
			if found || !reached(rec) {
				return false
			}
			found = true
			return true
		}
	}
	number, index, _ := strings.Cut(r.at, ".")
	if sequence, err := strconv.ParseUint(number, 10, 64); err == nil {
		in, err := strconv.Atoi(cmp.Or(index, "0"))
		if err != nil || in < 0 {
			return nil, fmt.Errorf("--at: %q: want a sequence, and behind a dot the place in its frame", r.at)
		}
		return first(func(rec eventlog.Record) bool {
			return rec.Sequence > sequence || rec.Sequence == sequence && rec.Index >= in
		}), nil
	}
	at, err := time.Parse(time.RFC3339, r.at)
	if err != nil {
		return nil, fmt.Errorf("--at: %q: want a sequence, or a time such as 2026-11-22T02:33:48Z", r.at)
	}
	return first(func(rec eventlog.Record) bool { return !rec.Time.Before(at) }), nil
}

// replayResult collects the verdicts, and is the output of -o json and yaml. It is bounded: listed is the greatest
// length of List, and single lists decisions that are the same as well.
type replayResult struct {
	// Decisions counts the requested decisions. Of these, Same came out the same, Explained differed for a known
	// reason, Different differed without one, and Missing could not be made again.
	Decisions, Same, Explained, Different, Missing int
	// Unreadable counts the records of decisions that were left out.
	Unreadable int `json:",omitempty"`
	// Why counts the reasons of Missing.
	Why map[string]int `json:",omitempty"`
	// List holds the decisions that are not the same; all of them if only specific ones were requested.
	List []replayed `json:",omitempty"`

	listed int
	single bool
}

// replayed is one decision in the list: what was recorded, and NodeAgain, the node that came out now.
type replayed struct {
	// Outcome is identical, different, "different, explained" or "not reproducible"; Kind is that of the recorded
	// decision.
	Pod, UID, Shard, Kind, Outcome string
	Attempt                        int32
	// Facts and Ledger are the sequence and the revision from which the decision was computed.
	Facts                     uint64
	Ledger                    int64
	Node, NodeAgain           string `json:",omitempty"`
	NodesFeasible, NodesTotal int32
	Differences               []rerun.Difference `json:",omitempty"`
	Explained, Missing        string             `json:",omitempty"`
}

// add counts a verdict, and lists it if it is not the same or was requested by name.
func (r *replayResult) add(v rerun.Verdict) error {
	r.Decisions++
	// A decision that could be made again and differs is explained (another configuration or version) or not; only the
	// latter is a failure.
	outcome := "identical"
	switch {
	case v.Same():
		r.Same++
	case v.Remade == nil:
		r.Missing++
		outcome = "not reproducible"
		if r.Why == nil {
			r.Why = map[string]int{}
		}
		// Reasons are few texts; the limit is for a log in which each decision has its own.
		if len(r.Why) < replayListed || r.Why[v.Missing] > 0 {
			r.Why[v.Missing]++
		}
	case v.Explained != "":
		r.Explained++
		outcome = "different, explained"
	default:
		r.Different++
		outcome = "different"
	}
	if !r.single && v.Same() || len(r.List) >= r.listed {
		return nil
	}
	d := v.Recorded
	one := replayed{
		Pod: d.Pod.Namespace + "/" + d.Pod.Name, UID: d.Pod.UID, Shard: d.Actor, Kind: string(d.Kind), Outcome: outcome,
		Attempt: d.Attempt, Facts: d.FactSequence, Ledger: d.Evidence.LedgerRevision, Node: d.NodeName,
		NodesFeasible: d.NodesFeasible, NodesTotal: d.NodesTotal,
		Differences: v.Differences, Explained: v.Explained, Missing: v.Missing,
	}
	if v.Remade != nil {
		one.NodeAgain = v.Remade.NodeName
	}
	r.List = append(r.List, one)
	return nil
}

// verdict returns an error if a decision came out differently for no known reason: the exit code is then 1. A decision
// that cannot be made again is not counted as a difference.
func (r *replayResult) verdict() error {
	if r.Different > 0 {
		return fmt.Errorf("%d of %d decisions differ", r.Different, r.Decisions)
	}
	return nil
}

// text prints the list and the totals.
func (r *replayResult) text(w io.Writer) error {
	out := render.NewLines(w)
	for _, d := range r.List {
		out.Printf("pod %s, try %d by %s at fact %d, ledger revision %d: %s\n", d.Pod, d.Attempt, d.Shard, d.Facts,
			d.Ledger, d.Outcome)
		switch {
		case d.Missing != "":
			out.Printf("  recorded: %s; %s\n", strings.TrimSpace(d.Kind+" "+d.Node), d.Missing)
		case d.Outcome == "identical":
			out.Printf("  %s, %d of %d nodes feasible, both recorded and recomputed\n", strings.TrimSpace(d.Kind+" "+d.Node),
				d.NodesFeasible, d.NodesTotal)
		}
		if len(d.Differences) > 0 {
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(table, "  \tRECORDED\tRECOMPUTED") // out keeps the error
			for _, diff := range d.Differences {
				_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", diff.What, diff.Recorded, diff.Remade)
			}
			_ = table.Flush()
		}
		if d.Explained != "" {
			out.Printf("  %s\n", d.Explained)
		}
	}
	out.Printf("%d decisions recomputed: %d identical, %d different (%d of them explained), %d not reproducible\n",
		r.Decisions, r.Same, r.Different+r.Explained, r.Explained, r.Missing)
	if r.Unreadable > 0 {
		out.Printf("%d decision records cannot be decoded and were skipped\n", r.Unreadable)
	}
	for _, why := range sortedByCount(r.Why) {
		out.Printf("  %d: %s\n", r.Why[why], why)
	}
	return out.Err()
}

func sortedByCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
