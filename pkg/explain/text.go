package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
)

const (
	// defaultEvents and defaultClasses are how many of each are shown unless all are requested.
	defaultEvents  = 12
	defaultClasses = 8
	// clockFormat is a time of day; times are shown in UTC, as in the API.
	clockFormat = "15:04:05.000"
)

// page writes text and keeps the first error.
type page struct {
	w    io.Writer
	now  time.Time
	wide bool
	err  error
}

// line writes one line, unless an error has occurred.
func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// ago returns the time since t, as kubectl prints ages.
func (p *page) ago(t time.Time) string { return duration.HumanDuration(p.now.Sub(t)) + " ago" }

// Text writes the story for people, as of now: state, eviction, promises, nodes, the last choice, history, and what is
// missing. wide shows everything; otherwise lists are cut, and say so. It returns the first error of w. A pod that
// fits nowhere looks like this:
//
//	pod shop/big  uid 3f2c…  priority 0  scheduler default-scheduler
//	state: waiting, in pool parked for 60s
//	  rejected by NodeResourcesFit
//	woken by:
//	  NodeResourcesFit: NodeAdd, AssignedPodDelete
//	nodes: 0 of 5000 would accept it now
//	  5000  NodeResourcesFit: Insufficient cpu  n1, n2, n3, …
//	nearest:
//	  n7 lacks 500m cpu (requests 4, 3500m free)
//	history:
//	  12:00:00.000  facts               seen         created at 2026-01-01T12:00:00Z
//	  12:00:01.000  scheduler-0, try 1  unplaceable  …
func (s *Story) Text(w io.Writer, now time.Time, wide bool) error {
	p := &page{w: w, now: now, wide: wide}
	p.line("pod %s/%s  uid %s  priority %d  scheduler %s", s.Namespace, s.Name, s.UID, s.Priority, s.SchedulerName)
	p.state(s)
	p.eviction(s.Evicted)
	if s.Shard != nil {
		p.promises(s.Shard)
		p.nodes(s)
	}
	p.choice(s)
	p.history(s.Events)
	for _, note := range s.Notes {
		p.line("note: %s", note)
	}
	return p.err
}

// state writes where the pod is, and for a waiting pod its pool, the pods ahead of it, its backoff, and the events
// that would wake it.
func (p *page) state(s *Story) {
	where := ""
	if s.Node != "" {
		where = ", on node " + s.Node
		if s.State == stateGone {
			where = ", was on node " + s.Node
		}
	}
	q := s.Queue
	// Without an answer of the queue, or for a pod that it has no pool for, the facts are all there is. A bound pod
	// may still be in the answer of a queue that has not applied the bind.
	if q == nil || q.Pool == "" || s.State == stateBound {
		p.line("state: %s%s", s.State, where)
		if q != nil && q.Reason != "" && s.State == stateWaiting {
			p.line("  %s", q.Reason)
		}
		return
	}
	p.line("state: %s%s, in pool %s for %s", s.State, where, q.Pool, duration.HumanDuration(p.now.Sub(q.Since)))
	p.line("  %s", q.Reason)
	switch {
	case q.Ahead > 0:
		p.line("  %d pods are ahead of it in the queue of %s", q.Ahead, q.Shard)
	case q.Pool == "active" && q.Shard != "":
		p.line("  next to be offered to %s", q.Shard)
	}
	if q.NotBefore.After(p.now) {
		left := duration.HumanDuration(q.NotBefore.Sub(p.now))
		p.line("  not before %s (in %s)", q.NotBefore.UTC().Format(clockFormat), left)
	}
	if len(q.Wakes) > 0 {
		p.line("woken by:")
		for _, wake := range q.Wakes {
			p.line("  %s: %s", wake.Plugin, strings.Join(wake.Events, ", "))
		}
	}
}

// eviction writes who evicted the pod, and what became of it; nothing if it was not evicted.
func (p *page) eviction(e *Eviction) {
	if e == nil {
		return
	}
	p.line("evicted: by %s, %s", e.By, p.ago(e.Asked))
	if e.Reason != "" {
		p.line("  %s", e.Reason)
	}
	if !e.Background.IsZero() && e.Done.IsZero() && e.Failed == "" {
		p.line("  requested: another controller makes it leave, or gives the request up")
	}
	if e.Failed != "" && e.Done.IsZero() {
		p.line("  refused: %s", e.Failed)
	}
	if e.Landing != "" {
		p.line("  its replacement was expected on node %s", e.Landing)
	}
	for _, r := range e.Replacements {
		p.line("  replaced by %s/%s on node %s", r.Namespace, r.Name, cmp.Or(r.Node, "(none yet)"))
	}
}

// promises writes the ledger's entries about the pod.
func (p *page) promises(v *PodView) {
	if v.Promise != nil {
		p.line("ledger: %s %s on node %s, by %s", v.Promise.State, v.Promise.Role, v.Promise.Node, v.Promise.Shard)
	}
	for _, victim := range v.Victims {
		p.line("  waits for victim %s on %s (%s)", victim.Pod, victim.Node, cmp.Or(victim.State, "claimed"))
	}
	if v.Claim != nil {
		p.line("ledger: claimed as a victim for %s (%s)", v.Claim.For, cmp.Or(v.Claim.State, "eviction not started"))
	}
}

// nodes writes, for a waiting pod, which nodes would accept it now and why the others would not: classes of nodes with
// the same reasons, the nodes that came nearest, and those that one rule alone rules out.
func (p *page) nodes(s *Story) {
	v := s.Shard
	// Which nodes would accept a pod matters only until it has one.
	if s.State != stateWaiting && s.State != stateGated {
		return
	}
	switch {
	case v.Failed != "":
		p.line("nodes: %s", v.Failed)
		return
	case v.Rejection != "":
		p.line("nodes: none of %d evaluated: %s", v.Nodes, v.Rejection)
		return
	}
	p.line("nodes: %d of %d would accept it now", v.Feasible, v.Nodes)
	if v.Behind > 0 {
		p.line("  %d cannot be used until the shard has applied the facts about them", v.Behind)
	}
	p.classes(v.Classes)
	for i, m := range v.Nearest {
		if i == 0 {
			p.line("nearest:")
		}
		p.line("  %s", missText(&m))
	}
	p.singleFailures(v.Classes)
}

// classes writes the table of classes of nodes, in the shard's order, the first defaultClasses unless wide.
func (p *page) classes(classes []placement.NodeClass) {
	table := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	shown := classes
	if !p.wide {
		shown = classes[:min(len(classes), defaultClasses)]
	}
	rest := 0
	for _, c := range classes[len(shown):] {
		rest += c.Nodes
	}
	for _, c := range shown {
		names := strings.Join(c.Examples, ", ")
		if c.Nodes > len(c.Examples) {
			names += ", …"
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\n", c.Nodes, failuresText(c.Failures), names)
	}
	p.err = firstError(p.err, table.Flush())
	if rest > 0 {
		p.line("  and %d nodes in %d more classes (use -o wide to show them)", rest, len(classes)-len(shown))
	}
}

// firstError returns a, or b if a is nil.
func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// failuresText joins the failures of one node, each with its rule.
func failuresText(failures []placement.Failure) string {
	list := make([]string, len(failures))
	for i, f := range failures {
		list[i] = reasonsText(f)
		if f.Plugin != "" {
			list[i] = f.Plugin + ": " + list[i]
		}
	}
	return strings.Join(list, "; ")
}

// reasonsText returns a rule's reasons, with its details beyond upstream's messages.
func reasonsText(f placement.Failure) string {
	text := strings.Join(f.Reasons, ", ")
	if len(f.Details) > 0 {
		text += " (" + strings.Join(f.Details, ", ") + ")"
	}
	return text
}

// singleFailures counts the nodes that one rule alone rules out and that the departure of other pods would not help.
func (p *page) singleFailures(classes []placement.NodeClass) {
	for _, c := range classes {
		if len(c.Failures) == 1 && c.Failures[0].Code == rule.UnschedulableAndUnresolvable {
			p.line("  %d %s fit except for: %s", c.Nodes, nodesWould(c.Nodes), reasonsText(c.Failures[0]))
		}
	}
}

// nodesWould returns "node would" or "nodes would".
func nodesWould(n int) string {
	if n == 1 {
		return "node would"
	}
	return "nodes would"
}

// missText describes a node that came near: what it lacks, in the units of the API, and other failures. The failure of
// NodeResourcesFit is left out where amounts are known.
func missText(m *placement.Miss) string {
	var lacks []string
	for _, s := range m.Short {
		lacks = append(lacks, fmt.Sprintf("lacks %s %s (requests %s, %s free)", amount(s.Resource, s.Lacked), s.Resource,
			amount(s.Resource, s.Asked), amount(s.Resource, max(s.Free, 0))))
	}
	for _, f := range m.Failures {
		if len(m.Short) > 0 && f.Plugin == names.NodeResourcesFit {
			continue
		}
		lacks = append(lacks, reasonsText(f))
	}
	return m.Node + " " + strings.Join(lacks, "; ")
}

// amount formats a quantity as the API does.
func amount(name string, n int64) string {
	switch name {
	case "cpu":
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case "memory", "ephemeral-storage":
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

// choice writes the last decision that chose a node, with its evidence.
func (p *page) choice(s *Story) {
	var d *events.Decision
	// The last placement with evidence is the one that explains the present node; those before it were lost or
	// released.
	for _, e := range slices.Backward(s.Events) {
		if e.Decision != nil && e.Decision.Kind == events.DecisionPlaced && e.Decision.Evidence != nil {
			d = e.Decision
			break
		}
	}
	if d == nil {
		return
	}
	e := d.Evidence
	p.line("chosen: %s, %d of %d nodes feasible", d.NodeName, d.NodesFeasible, d.NodesTotal)
	if looked := lookedAt(e); looked != "" {
		p.line("  looked at: %s", looked)
	}
	if rejected := Rejections(e.Rejected); len(rejected) > 0 {
		p.line("  rejected: %s", strings.Join(rejected, ", "))
	}
	if len(e.Candidates) == 0 {
		return
	}
	table := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  \t%s\tTOTAL\n", strings.Join(e.ScoredBy, "\t"))
	for _, c := range e.Candidates {
		fmt.Fprintf(table, "  %s", c.Node)
		for i := range e.ScoredBy {
			points := "-"
			if i < len(c.Points) {
				points = fmt.Sprint(c.Points[i])
			}
			fmt.Fprintf(table, "\t%s", points)
		}
		fmt.Fprintf(table, "\t%d\n", c.Total)
	}
	p.err = firstError(p.err, table.Flush())
}

// lookedAt describes which nodes a decision looked at; empty if the record does not show it.
func lookedAt(e *evidence.Evidence) string {
	text := fmt.Sprintf("%d of %d nodes", e.Examined, e.Usable)
	switch {
	case e.Home && e.Usable == 0:
		return "its shard's home nodes only"
	case e.Home:
		return text + ", its shard's home nodes only, which come first (homeNodesFirst)"
	case e.Examined == 0:
		return ""
	case e.Examined == e.Usable:
		text = fmt.Sprintf("all %d nodes", e.Usable)
	}
	near := e.Basis.Near > 0 && e.Basis.Preferred == ""
	if best := e.Candidates; near && len(best) > 1 && best[0].Total < best[1].Total {
		text += "; a home node of its shard came first, as good as the best once other shards' pods are there"
	}
	return text
}

// history writes the events of the pod, oldest first, the newest defaultEvents unless wide.
func (p *page) history(list []Event) {
	shown := list
	if !p.wide && len(list) > defaultEvents {
		shown = list[len(list)-defaultEvents:]
	}
	p.line("history:")
	if n := len(list) - len(shown); n > 0 {
		p.line("  %d earlier events (use -o wide to show them)", n)
	}
	table := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, e := range shown {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", e.Time.UTC().Format(clockFormat), actorOf(e), e.What, oneLine(e.Detail))
	}
	p.err = firstError(p.err, table.Flush())
}

// actorOf returns the member that made a decision, with the number of the attempt; "facts" for other events.
func actorOf(e Event) string {
	if e.Decision == nil {
		return "facts"
	}
	if e.Decision.Attempt > 0 && e.Decision.Evidence != nil {
		return fmt.Sprintf("%s, try %d", e.Decision.Actor, e.Decision.Attempt)
	}
	return e.Decision.Actor
}

// oneLine replaces line breaks and repeated blanks, which would break a table.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Text writes the node for people. wide also lists the pods. member is the shard that answered, since another one may
// count differently at the same moment.
//
//	node n1  uid 9a0e…  12 pods, as scheduler-0 counts them
//	RESOURCE  ALLOCATABLE  USED   FREE
//	cpu       4            3500m  500m
//	memory    16Gi         9Gi    7Gi
//
//	PROMISED     TO        STATE      BY
//	reservation  shop/web  committed  scheduler-1
func (v *NodeView) Text(w io.Writer, member string, wide bool) error {
	p := &page{w: w, wide: wide}
	p.line("node %s  uid %s  %d pods, as %s counts them", v.Name, v.UID, v.Pods, member)
	if v.Unusable != "" {
		p.line("not used at present: %s", v.Unusable)
	}
	if v.Cordoned {
		p.line("cordoned")
	}
	if len(v.Taints) > 0 {
		p.line("taints: %s", strings.Join(v.Taints, ", "))
	}
	marks := nodemark.Read(v.Marks)
	if marks.Withheld {
		p.line("autoscalers see: no room for pods (taint %s)", nodemark.Taint)
	}
	if marks.Kept {
		p.line("autoscalers see: not to be removed, because places are promised to pods that are not bound yet")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tALLOCATABLE\tUSED\tFREE")
	for _, r := range v.Resources {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Name, amount(r.Name, r.Allocatable), amount(r.Name, r.Used),
			amount(r.Name, r.Allocatable-r.Used))
	}
	if len(v.Promises) > 0 {
		fmt.Fprintln(table, "\nPROMISED\tTO\tSTATE\tBY")
	}
	for _, x := range v.Promises {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", x.Role, x.Pod, cmp.Or(x.State, "-"), cmp.Or(x.Shard, x.For))
	}
	if wide && len(v.Standing) > 0 {
		fmt.Fprintln(table, "\nPOD\tPRIORITY\tCPU\tMEMORY")
		for _, s := range v.Standing {
			name := s.Pod
			if s.Reserved {
				name += " (reserved)"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", name, s.Priority,
				amount("cpu", s.Requests["cpu"]), amount("memory", s.Requests["memory"]))
		}
	}
	return firstError(p.err, table.Flush())
}
