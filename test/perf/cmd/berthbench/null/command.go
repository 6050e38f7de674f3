package null

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// What the program prints.
const (
	// Ready is printed after the warm-up, Done after the pods.
	Ready, Done = "ready", "done"
)

// Group is how many pods have one message of each stream, and one transaction: as many as a shard puts into one.
const Group = 24

// inFlight is how many groups are placed at once.
const inFlight = 4

// Options are the command line. Args makes one of them.
type Options struct {
	// NATS, Etcd and Kubeconfig lead to the stores and the sink.
	NATS, Etcd, Kubeconfig string
	// Nodes, Pods and Warm are how many there are: nodes and pods of bench.NodeName and PodName.
	Nodes, Pods, Warm int
	// FactReaders and DecisionReaders are how many connections read each stream.
	FactReaders, DecisionReaders int
	// FactBytes and DecisionBytes are written for a pod.
	FactBytes, DecisionBytes int
}

// Prefixes of the pods' names.
const (
	warmPrefix = "warm"
	podPrefix  = "pod"
)

// PodName returns the name of the i-th pod with a prefix.
func PodName(prefix string, i int) string { return fmt.Sprintf("%s-%06d", prefix, i) }

// New returns the subcommand.
func New() bench.Subcommand { return &Options{} }

// flags are the options by the names of their flags.
func (o *Options) flags() (texts map[string]*string, numbers map[string]*int) {
	return map[string]*string{"nats": &o.NATS, "etcd": &o.Etcd, "kubeconfig": &o.Kubeconfig},
		map[string]*int{"nodes": &o.Nodes, "pods": &o.Pods, "warm": &o.Warm, "fact-readers": &o.FactReaders,
			"decision-readers": &o.DecisionReaders, "fact-bytes": &o.FactBytes, "decision-bytes": &o.DecisionBytes}
}

// Flags implements bench.Subcommand.
func (o *Options) Flags(set *pflag.FlagSet) {
	texts, numbers := o.flags()
	for name, value := range texts {
		set.StringVar(value, name, "", "see berthbench path --null, which starts this")
	}
	for name, value := range numbers {
		set.IntVar(value, name, 0, "see berthbench path --null, which starts this")
	}
}

// Args returns the command line of these options, without the program.
func (o *Options) Args() []string {
	args := []string{"null"}
	texts, numbers := o.flags()
	for name, value := range texts {
		args = append(args, "--"+name+"="+*value)
	}
	for name, value := range numbers {
		args = append(args, fmt.Sprintf("--%s=%d", name, *value))
	}
	return args
}

// Validate implements bench.Subcommand.
func (o *Options) Validate() error {
	if o.Pods < 1 || o.Warm < 0 || o.FactReaders < 1 || o.DecisionReaders < 0 || o.FactBytes < 1 || o.DecisionBytes < 1 {
		return fmt.Errorf("--pods %d, --warm %d, --fact-readers %d, --decision-readers %d, --fact-bytes %d, "+
			"--decision-bytes %d: want at least 1, 0, 1, 0, 1, 1",
			o.Pods, o.Warm, o.FactReaders, o.DecisionReaders, o.FactBytes, o.DecisionBytes)
	}
	if least := Group * (inFlight + 1); o.Nodes < least {
		return fmt.Errorf("--nodes %d: want at least %d, so that no two transactions at once are about one node",
			o.Nodes, least)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *Options) Run(ctx context.Context) error { return o.run(ctx, os.Stdin, os.Stdout) }

// run places the pods when the input says so.
func (o *Options) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	p, err := open(ctx, *o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.pass(ctx, warmPrefix, o.Warm); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	lines := bufio.NewScanner(in)
	if fmt.Fprintln(out, Ready); !lines.Scan() {
		return errors.Join(errors.New("the input ended before it was time to begin"), lines.Err())
	}
	if err := p.pass(ctx, podPrefix, o.Pods); err != nil {
		return err
	}
	if fmt.Fprintln(out, Done); lines.Scan() {
		return fmt.Errorf("a second line of input: %q", lines.Text())
	}
	return lines.Err()
}
