package path

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/test/perf/bare"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/null"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// nullService is the null path's name in reports.
const nullService = "null path"

// nullEndsWithin bounds the time from the end of the null path's input to its end.
const nullEndsWithin = 30 * time.Second

// nullResult is the null path beside a run (package null).
type nullResult struct {
	// FactBytes and DecisionBytes are what Berth stored in the log for a pod, as the server counts bytes.
	FactBytes     float64 `json:"factBytesPerPod"`
	DecisionBytes float64 `json:"decisionBytesPerPod"`
	// Micros is processor time per pod in microseconds, by service.
	Micros map[string]float64 `json:"microsPerPod"`
}

// all is the processor time per pod of the null path and its stores.
func (n *nullResult) all() float64 {
	return result{Micros: n.Micros}.all()
}

// nullRatio is how often the null path's processor time a pod takes; 0 if there was no null path.
func (r result) nullRatio() float64 {
	if r.Null == nil {
		return 0
	}
	return r.all() / r.Null.all()
}

// stored is how many bytes the log has stored so far.
type stored struct{ facts, decisions uint64 }

// stored asks the log's server.
func (t *track) stored(ctx context.Context) (s stored, err error) {
	log, err := bare.Open(t.urls["nats"])
	if err != nil {
		return s, err
	}
	defer log.Close()
	if s.facts, err = log.Stored(ctx, string(eventlog.Facts)); err != nil {
		return s, err
	}
	s.decisions, err = log.Stored(ctx, string(eventlog.Decisions))
	return s, err
}

// since is what was stored for each of so many pods.
func (s stored) since(before stored, pods int) *nullResult {
	each := func(now, before uint64) float64 { return float64(now-before) / float64(pods) }
	return &nullResult{FactBytes: each(s.facts, before.facts), DecisionBytes: each(s.decisions, before.decisions)}
}

// beside runs the null path after a run if it is asked for.
func (m *measurement) beside(ctx context.Context, r *result) error {
	if r.Null == nil {
		return nil
	}
	if err := m.runNull(ctx, r.setting, r.Null); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, run %d: %s: %.0f µs a pod, Berth %.2f times that\n",
		r.setting, r.Run, nullService, r.Null.all(), r.nullRatio())
	return nil
}

// runNull runs the null path on fresh stores and a fresh sink, with the bytes of n, and completes n.
func (m *measurement) runNull(ctx context.Context, s setting, n *nullResult) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	t, err := m.openStores(ctx, s)
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	if err != nil {
		return err
	}
	for prefix, pods := range map[string]int{"warm": m.warm, "pod": m.pods} {
		if _, err := t.api.AddPods(m.arriving(prefix, pods)); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	const queues = 1
	o := null.Options{
		NATS: t.urls["nats"], Etcd: t.urls["etcd"], Kubeconfig: t.Kubeconfig(), Nodes: m.nodes, Pods: m.pods, Warm: m.warm,
		FactReaders: queues + s.Shards + m.binders, DecisionReaders: queues + m.binders,
		FactBytes: max(1, int(n.FactBytes)), DecisionBytes: max(1, int(n.DecisionBytes)),
	}
	child, err := startChild(ctx, program, o.Args())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, child.end()) }()
	if err := child.says(null.Ready); err != nil {
		return err
	}
	t.members = append(t.members, member{service: nullService, pids: []int{child.cmd.Process.Pid}})
	before, err := used(t.members)
	if err != nil {
		return err
	}
	if err := errors.Join(child.begin(), child.says(null.Done)); err != nil {
		return err
	}
	after, err := used(t.members)
	if err != nil {
		return err
	}
	n.Micros = map[string]float64{}
	for service, time := range after {
		n.Micros[service] = float64((time - before[service]).Microseconds()) / float64(m.pods)
	}
	if events := t.api.Events(); events != m.warm+m.pods {
		return fmt.Errorf("%s: %d events for %d pods", nullService, events, m.warm+m.pods)
	}
	return check(t.api, m.pods+m.warm)
}

// child is the running null path.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(ctx context.Context, program string, args []string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, program, args...)}
	c.cmd.Stderr, c.cmd.WaitDelay = os.Stderr, nullEndsWithin
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	return c, c.cmd.Start()
}

// says waits for a line.
func (c *child) says(want string) error {
	if !c.out.Scan() || c.out.Text() != want {
		return errors.Join(fmt.Errorf("%s says %q, want %q", nullService, c.out.Text(), want), c.out.Err())
	}
	return nil
}

// begin lets it place its pods.
func (c *child) begin() error {
	_, err := fmt.Fprintln(c.in)
	return err
}

// end closes its input, which ends it.
func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// nullTable compares the settings with their null paths; its rows are empty without any.
func (r report) nullTable() outcome.Table {
	number := outcome.Number
	t := outcome.Table{Title: "Beside a null path: microseconds of processor time a pod",
		Head: []string{"shards", "nodes full", "bytes of facts a pod", "of decisions", nullService, "etcd", "nats",
			"all of it", "all that is Berth's", "ratio"},
		Notes: []string{"The null path writes and reads as many bytes, in one message of each stream for " +
			fmt.Sprint(null.Group) + " pods, makes one transaction for them, and posts one bind and one event for each. It " +
			"decides nothing, decodes nothing and watches nothing."}}
	for _, s := range r.settings() {
		of := func(value func(*nullResult) float64) string {
			return number(r.median(s, func(x result) float64 { return value(x.Null) }))
		}
		if !r.withNull(s) {
			continue
		}
		micros := func(service string) string { return of(func(n *nullResult) float64 { return n.Micros[service] }) }
		t.Rows = append(t.Rows, []string{fmt.Sprint(s.Shards), fmt.Sprintf("%d%%", s.Full),
			of(func(n *nullResult) float64 { return n.FactBytes }), of(func(n *nullResult) float64 { return n.DecisionBytes }),
			micros(nullService), micros("etcd"), micros("nats"), of((*nullResult).all), number(r.median(s, result.all)),
			number(r.median(s, result.nullRatio))})
	}
	return t
}

// withNull reports whether all runs of a setting have a null path.
func (r report) withNull(s setting) bool {
	for _, x := range r.Results {
		if x.setting == s && x.Null == nil {
			return false
		}
	}
	return true
}
