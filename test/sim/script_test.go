package sim

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
)

// TestScripts plays the scripts in testdata/scripts against the real cores, without faults other than those that a
// script requests, and compares the events with those that the script has recorded. `make scripts REWRITE=1` records
// them again.
//
// A script has commands with their arguments above a line of dashes, and the resulting events below it:
//
//	create      one object a line: node <name> pods=<n>, pod <name> [priority=<n>] [size=<n>], budget <app> stay=<n>
//	run         until nothing is left undone, or with for=<duration> as long as that
//	show        the pods, and where they are
//	delete      pod=<name>
//	cordon      node=<name>
//	crash       member=<role>-<n>; it stays down until start
//	start       member=<role>-<n>
//	blind       member=<role>-<n> for=<duration>: its streams deliver nothing as long as that
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.command(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

// script is a world that performs only the requested steps.
type script struct {
	w *world
	// out holds the events since the last command, seen the number of API server changes among them.
	out  strings.Builder
	seen int
	pods map[types.UID]*corev1.Pod
}

const (
	// quietTime bounds a run without a duration, in the world's time.
	quietTime = 3 * time.Minute
	// quietSweeps is how many sweeps find nothing left undone before a run ends: all members have read everything then.
	quietSweeps = 10
)

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{pods: map[types.UID]*corev1.Pod{}}
	w, err := newWorld(t.Context(), Options{Seed: 1, Family: string(ordinary), Trace: func(line string) { s.line(line) }})
	if err != nil {
		t.Fatal(err)
	}
	s.w = w
	w.cluster.reregistrations, w.cluster.registered = map[string]int{}, map[types.UID]uint64{}
	w.cluster.podsFirst, w.cluster.replicas = 0, 0
	w.shards = w.shards[:2]
	if err := w.untilTrue("start", warmUp*sweepTime, func() error {
		if n := w.oracle.unowned(); n > 0 {
			return fmt.Errorf("%d partitions are vacant", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.out.Reset()
	return s
}

func (s *script) command(d *datadriven.TestData) (string, error) {
	s.out.Reset()
	var err error
	switch d.Cmd {
	case "create":
		for line := range strings.Lines(d.Input) {
			err = cmp.Or(err, s.create(strings.Fields(line)))
		}
		s.seen = len(s.w.api.history)
		return "", err
	case "run":
		err = s.run(d)
	case "show":
		return s.show(), nil
	case "delete":
		err = s.remove(argument(d, "pod"))
	case "cordon":
		err = s.cordon(argument(d, "node"))
	case "crash", "start", "blind":
		err = s.member(d)
	default:
		err = fmt.Errorf("command %q: want create, run, show, delete, cordon, crash, start or blind", d.Cmd)
	}
	s.changes()
	return s.out.String(), err
}

func argument(d *datadriven.TestData, key string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

// create adds one object, which fields name.
func (s *script) create(fields []string) error {
	if len(fields) < 2 {
		return fmt.Errorf("%q: want a kind, a name and what it has", fields)
	}
	has, err := numbers(fields[2:])
	if err != nil {
		return err
	}
	w := s.w
	switch fields[0] {
	case "node":
		n := w.cluster.newNode(has["pods"])
		n.Name, n.UID = fields[1], types.UID("node-"+fields[1])
		n.Labels[corev1.LabelHostname] = fields[1]
		w.api.put(events.KindNode, n)
	case "pod":
		p := w.cluster.newPod(int64(max(1, has["size"])))
		p.Name, p.UID = fields[1], types.UID("pod-"+fields[1])
		p.Spec.Priority = new(int32(has["priority"]))
		w.api.put(events.KindPod, p)
		s.pods[p.UID] = p
	case "budget":
		w.api.put(events.KindDisruptionBudget, newBudget(fields[1], intstr.FromInt(has["stay"])))
	default:
		return fmt.Errorf("kind %q: want node, pod or budget", fields[0])
	}
	return nil
}

// numbers reads key=number.
func numbers(fields []string) (map[string]int, error) {
	has := map[string]int{}
	for _, f := range fields {
		key, text, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q: want key=number", f)
		}
		has[key] = n
	}
	return has, nil
}

func (s *script) run(d *datadriven.TestData) error {
	if text := argument(d, "for"); text != "" {
		long, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		for end := s.w.now + long; s.w.now < end; {
			if err := s.sweep(); err != nil {
				return err
			}
		}
		return nil
	}
	for quiet, end := 0, s.w.now+quietTime; quiet < quietSweeps; quiet++ {
		if err := s.sweep(); err != nil {
			return err
		}
		left := s.w.oracle.unfinished()
		if left != nil || len(s.w.calls) > 0 {
			quiet = 0
		}
		if s.w.now >= end {
			return fmt.Errorf("%s was not enough: %w", quietTime, left)
		}
	}
	return nil
}

func (s *script) sweep() error {
	err := s.w.sweepOnce(false)
	s.changes() // of kubelets
	return err
}

func (s *script) show() string {
	var b strings.Builder
	for _, p := range s.w.api.pods() {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, cmp.Or(p.Spec.NodeName, "pending"))
	}
	return b.String()
}

func (s *script) remove(pod string) error {
	if _, known := s.w.api.pod("pod-" + pod); !known {
		return fmt.Errorf("pod %q is not there", pod)
	}
	s.w.api.delete("pod-" + pod)
	return nil
}

func (s *script) cordon(node string) error {
	n, known := s.w.api.node("node-" + node)
	if !known {
		return fmt.Errorf("node %q is not there", node)
	}
	n = n.DeepCopy()
	n.Spec.Unschedulable = true
	s.w.api.put(events.KindNode, n)
	return nil
}

// member crashes, starts or blinds a member.
func (s *script) member(d *datadriven.TestData) error {
	name := argument(d, "member")
	all := s.w.processes()
	i := slices.IndexFunc(all, func(p process) bool { return fmt.Sprintf("%s-%d", p.base().role, p.base().n) == name })
	if i < 0 {
		return fmt.Errorf("member %q: want one such as scheduler-0", name)
	}
	p := all[i]
	switch d.Cmd {
	case "crash":
		p.base().crash()
	case "start":
		p.start()
	case "blind":
		long, err := time.ParseDuration(argument(d, "for"))
		if err != nil {
			return err
		}
		p.base().blind = s.w.now + long
	}
	return nil
}

// What a script leaves out of the trace: times, revisions, and the work of members on their leases and partitions.
var (
	traced    = regexp.MustCompile(`^ *\S+ `)
	revisions = regexp.MustCompile(`(, by revision \d+ and fact \d+| at \d+)`)
	routine   = regexp.MustCompile(` (join|own|hand-over|claim partition|leave)\b`)
)

// line takes one line of the trace.
func (s *script) line(text string) {
	if s.w == nil {
		return
	}
	text = revisions.ReplaceAllString(traced.ReplaceAllString(text, ""), "")
	if routine.MatchString(text) {
		return
	}
	for _, r := range readable {
		text = r.from.ReplaceAllString(text, r.to)
	}
	fmt.Fprintln(&s.out, text)
	s.changes()
}

// readable turns lines of the trace into sentences.
var readable = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`-(\d+)-1\b`), "-$1"}, // the first life of a member
	{regexp.MustCompile(`: succeeded true$`), " commits"},
	{regexp.MustCompile(`: succeeded false$`), " meets a conflict"},
	{regexp.MustCompile(` decided: (\S+) (\S+) $`), " decides: $1 $2"},
	{regexp.MustCompile(` decided: (\S+) (\S+) (\S+)$`), " decides: $1 $2 on $3"},
	{regexp.MustCompile(`( bind .*): 1$`), "$1"},
	{regexp.MustCompile(`( bind .*): \d$`), "$1: refused"},
}

// changes prints the changes of pods at the API server.
func (s *script) changes() {
	for ; s.seen < len(s.w.api.history); s.seen++ {
		c := s.w.api.history[s.seen]
		p, ok := c.object.(*corev1.Pod)
		if !ok {
			continue
		}
		before := s.pods[p.UID]
		s.pods[p.UID] = p
		if text := changeOf(before, p, c.deleted); text != "" {
			fmt.Fprintf(&s.out, "    pod %s %s\n", p.Name, text)
		}
	}
}

// changeOf describes the change of a pod, empty if it is of no interest to a reader.
func changeOf(before, after *corev1.Pod, deleted bool) string {
	if before == nil {
		before = &corev1.Pod{}
	}
	now, _ := conditionOf(after)
	was, _ := conditionOf(before)
	switch {
	case deleted:
		return "is gone"
	case after.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		return "is being deleted"
	case after.Spec.NodeName != before.Spec.NodeName:
		return "is bound to " + after.Spec.NodeName
	case after.Status.NominatedNodeName != before.Status.NominatedNodeName:
		return "is nominated to " + cmp.Or(after.Status.NominatedNodeName, "no node")
	case now.Reason != was.Reason || now.Message != was.Message:
		return fmt.Sprintf("is %s: %s", now.Reason, now.Message)
	}
	return ""
}
