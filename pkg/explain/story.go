package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Story is everything known about one pod. BuildStory fills in what the log has; the caller adds Queue, Shard and the
// replacements of Evicted. The fields are the output of `berth explain pod -o json`.
type Story struct {
	UID, Namespace, Name string
	SchedulerName        string `json:",omitempty"`
	Priority             int32
	// State is the pod's current state, in one word: gated, waiting, bound, leaving, ended or gone. Node is the
	// node that it is on, or was on last.
	State string
	Node  string `json:",omitempty"`
	// Events is the pod's history, oldest first, by the log's clock.
	Events []Event
	// Owner is the UID of the pod's controller, empty for none.
	Owner string `json:",omitempty"`
	// Evicted explains who evicted the pod, and why; nil if it was not evicted.
	Evicted *Eviction `json:",omitempty"`
	// Queue and Shard are the answers of running services; nil if none answered.
	Queue *QueueAnswer `json:",omitempty"`
	Shard *PodView     `json:",omitempty"`
	// Notes explain which parts are missing, and why.
	Notes []string `json:",omitempty"`
}

// Event is one event in a pod's history: a change that the facts show, or a decision. One fact may be several events.
type Event struct {
	Time time.Time
	// Sequence is the sequence in the log of facts, or in that of decisions if Decision is set.
	Sequence uint64
	// Index is the place of the record in its frame, counted from 0.
	Index int `json:",omitempty"`
	// What names the event in a word or two; Detail is the rest.
	What, Detail string `json:",omitempty"`
	// Decision is set for an event that a service decided or carried out.
	Decision *events.Decision `json:",omitempty"`
}

// Eviction is the reason why a pod had to leave. There is at most one in a story, that of the last eviction.
type Eviction struct {
	// By is the pod that needed its place, or the descheduler's strategy.
	By     string
	Reason string
	// Asked is when the eviction was decided, or first seen, by the log's clock.
	Asked time.Time
	// Done is when the pod was evicted; zero if it was not, or not yet.
	Done time.Time `json:",omitzero"`
	// Background is when the eviction became a request that another controller answers (events.DecisionEvictBackground);
	// zero if it did not.
	Background time.Time `json:",omitzero"`
	// Failed explains why the pod was not evicted.
	Failed string `json:",omitempty"`
	// Landing is the node on which its replacement was expected; Replacements are the pods that its controller has
	// created since.
	Landing      string  `json:",omitempty"`
	Replacements []Where `json:",omitempty"`
}

// BuildStory builds the story of one pod from its records: the facts and the decisions, each in the order of their
// sequences. Records that cannot be read are noted and left out. Events of the two streams are ordered by the time at
// which the log stored them, which is as close to their true order as two streams allow. Pure.
func BuildStory(uid string, facts, decisions []eventlog.Record) *Story {
	s := &Story{UID: uid}
	s.addFacts(facts)
	for _, r := range decisions {
		d, err := events.DecodeDecision(r)
		if err != nil {
			s.noteUnreadable(r, err)
			continue
		}
		s.addDecision(r, &d.Decision)
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return s
}

// noteUnreadable notes a record that cannot be read.
func (s *Story) noteUnreadable(r eventlog.Record, err error) {
	s.Notes = append(s.Notes, fmt.Sprintf("record %d (%s) cannot be decoded: %v", r.Sequence, r.Subject, err))
}

// addFacts adds an event for each change between two versions of the pod, and sets the pod's last known state. After a
// deletion the next version is compared with nothing.
func (s *Story) addFacts(records []eventlog.Record) {
	var before *corev1.Pod
	for _, r := range records {
		f, err := events.DecodeFact(r)
		pod := &corev1.Pod{}
		if err == nil && f.Op != events.OpDelete {
			err = pod.Unmarshal(f.Object)
		}
		if err != nil {
			s.noteUnreadable(r, err)
			continue
		}
		s.Namespace, s.Name = f.Namespace, f.Name
		// Every event of one fact has its sequence and time.
		add := func(what, detail string) {
			s.Events = append(s.Events, Event{Time: r.Time, Sequence: r.Sequence, Index: r.Index, What: what, Detail: detail})
		}
		if f.Op == events.OpDelete {
			add("deleted", "")
			s.State, before = stateGone, nil
			continue
		}
		for _, change := range changes(before, pod) {
			add(change[0], change[1])
		}
		s.setState(pod)
		before = pod
	}
}

// States of a Story.
const (
	stateGone    = "gone"
	stateEnded   = "ended"
	stateLeaving = "leaving"
	stateBound   = "bound"
	stateGated   = "gated"
	stateWaiting = "waiting"
)

// setState sets the fields that the newest version of the pod determines. The node stays known when the pod is gone. A
// pod that ended is "ended" even while it is being deleted.
func (s *Story) setState(pod *corev1.Pod) {
	s.SchedulerName, s.Node = pod.Spec.SchedulerName, cmp.Or(pod.Spec.NodeName, s.Node)
	if pod.Spec.Priority != nil {
		s.Priority = *pod.Spec.Priority
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		s.Owner = string(owner.UID)
	}
	switch {
	// The order of the cases matters: a pod that ended or leaves has a node, too.
	case hasEnded(pod):
		s.State = stateEnded
	case pod.DeletionTimestamp != nil:
		s.State = stateLeaving
	case pod.Spec.NodeName != "":
		s.State = stateBound
	case len(pod.Spec.SchedulingGates) > 0:
		s.State = stateGated
	default:
		s.State = stateWaiting
	}
}

// hasEnded reports whether all containers of the pod have terminated for good.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// changes returns the meaning of an update of a pod, as pairs of What and Detail.
func changes(before, pod *corev1.Pod) (list [][2]string) {
	add := func(what, detail string) { list = append(list, [2]string{what, detail}) }
	// The first version is compared with an empty pod, so that a pod which was bound before the log begins is seen and
	// bound at once.
	if before == nil {
		created := "at " + pod.CreationTimestamp.UTC().Format(time.RFC3339)
		add("seen", "created "+created)
		before = &corev1.Pod{}
	}
	if gates := gatesOf(pod); gates != gatesOf(before) {
		if gates == "" {
			add("gates removed", "")
		} else {
			add("gated", gates)
		}
	}
	// A nomination that is withdrawn is not an event: the decision that withdraws it is one.
	if pod.Status.NominatedNodeName != before.Status.NominatedNodeName && pod.Status.NominatedNodeName != "" {
		add("nominated", "to "+pod.Status.NominatedNodeName)
	}
	if pod.Spec.NodeName != before.Spec.NodeName {
		add("bound", "to "+pod.Spec.NodeName)
	}
	if pod.DeletionTimestamp != nil && before.DeletionTimestamp == nil {
		add("leaving", disruption(pod))
	}
	if pod.Status.Phase != before.Status.Phase && pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		add(strings.ToLower(string(pod.Status.Phase)), strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	return list
}

// gatesOf returns the pod's scheduling gates as one text, empty for none.
func gatesOf(pod *corev1.Pod) string {
	var names []string
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// disruption returns the reason why a pod leaves, if its status states one.
func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// addDecision adds a decision about the pod as an event, and records what it means for the state and the eviction.
func (s *Story) addDecision(r eventlog.Record, d *events.Decision) {
	s.Namespace, s.Name = cmp.Or(s.Namespace, d.Pod.Namespace), cmp.Or(s.Name, d.Pod.Name)
	s.Events = append(s.Events, Event{
		Time: r.Time, Sequence: r.Sequence, Index: r.Index, What: string(d.Kind), Detail: detailOf(d), Decision: d,
	})
	switch d.Kind {
	case events.DecisionBound:
		if s.State == stateWaiting { // the binder has the API server's answer; the facts do not show it yet
			s.State, s.Node = stateBound, d.NodeName
		}
	case events.DecisionEvict:
		s.Evicted = &Eviction{
			By: "descheduler, strategy " + d.Strategy, Reason: d.Message, Asked: r.Time, Landing: d.Landing,
		}
	case events.DecisionEvictBackground:
		s.ensureEviction(r).Background = r.Time
	case events.DecisionEvicted:
		s.ensureEviction(r).Done = r.Time
	case events.DecisionEvictRefused:
		s.ensureEviction(r).Failed = d.Message
	}
}

// ensureEviction returns the story's eviction. A pod that was evicted without a decision of the descheduler was
// preempted: the binder reports only the result.
func (s *Story) ensureEviction(r eventlog.Record) *Eviction {
	if s.Evicted == nil {
		s.Evicted = &Eviction{By: "preemption", Asked: r.Time}
	}
	return s.Evicted
}

// PlanToken returns the token of the pod for which this pod was evicted by preemption; "" if it was not. The
// nomination of that pod has the same token.
func (s *Story) PlanToken() string {
	for _, e := range slices.Backward(s.Events) {
		if d := e.Decision; d != nil && d.Kind == events.DecisionEvicted && d.Strategy == "" && d.Attempt == 0 {
			return d.Token
		}
	}
	return ""
}

// detailOf returns the text of a decision next to its kind.
func detailOf(d *events.Decision) string {
	switch d.Kind {
	case events.DecisionPlaced:
		return placedDetail(d)
	case events.DecisionLost:
		if d.Message == events.LostAbandoned {
			return fmt.Sprintf("%s changed before it was requested; retrying", d.NodeName)
		}
		return fmt.Sprintf("conflict on %s (%s); retrying", d.NodeName, d.Message)
	case events.DecisionNominated:
		return "place held on " + d.NodeName + " until its victims are gone: " + d.Message
	case events.DecisionBound:
		return "to " + d.NodeName
	case events.DecisionEvict:
		return d.Message
	}
	return d.Message
}

// placedDetail describes a placement: the node, how many were feasible, and the best candidates with their scores.
func placedDetail(d *events.Decision) string {
	text := fmt.Sprintf("on %s, %d of %d nodes feasible", d.NodeName, d.NodesFeasible, d.NodesTotal)
	if len(d.Plugins) > 0 {
		text += "; bound by plugin " + strings.Join(d.Plugins, ", ")
	}
	if d.Evidence == nil {
		return text
	}
	for i, c := range d.Evidence.Candidates {
		if i == 0 {
			text += "; best:"
		}
		text += fmt.Sprintf(" %s %d", c.Node, c.Total)
	}
	return text
}

// Rejections lists "n rule", most nodes first, equal counts by rule. A count without a rule is of nodes that were
// skipped.
func Rejections(counts map[string]int32) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], cmp.Or(name, "skipped"))
	}
	return names
}
