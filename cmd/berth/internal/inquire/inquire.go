package inquire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/explain"
)

const (
	// queueTimeout bounds the wait for the leading queue, which answers within milliseconds.
	queueTimeout = time.Second
	// shardTimeout bounds the wait for a shard, which first finishes its current step and then checks all nodes.
	shardTimeout = 2 * time.Second
	// maxRecords is how many records of one stream about one pod are read: the newest.
	maxRecords = 500
)

// Inquiry holds the sources of answers: the log, its records by subject, and the bus to the services. All are
// required; one connection to NATS provides all three.
type Inquiry struct {
	Log     eventlog.Log
	History eventlog.History
	Bus     eventlog.Bus
}

// PodName converts what a user gives as a pod (NAME, NAMESPACE/NAME, UID, any of them after "pod/") to namespace/name,
// or to a UID. namespace is that of a pod given without one.
func PodName(namespace, pod string) (string, error) {
	ns, name, named := strings.Cut(strings.TrimPrefix(pod, "pod/"), "/")
	switch {
	case pod == "" || named && (ns == "" || name == "" || strings.Contains(name, "/")):
		return "", fmt.Errorf("pod %q: want NAME, NAMESPACE/NAME, or a UID", pod)
	case named:
		return ns + "/" + name, nil
	case isUID(ns):
		return ns, nil
	}
	return namespace + "/" + ns, nil
}

// GangName converts what a user gives as a PodGroup (NAME, NAMESPACE/NAME, either of them after "podgroup/") to
// namespace/name. namespace is that of a group given without one.
func GangName(namespace, gang string) (string, error) {
	ns, name, named := strings.Cut(strings.TrimPrefix(gang, "podgroup/"), "/")
	switch {
	case ns == "" || named && (name == "" || strings.Contains(name, "/")):
		return "", fmt.Errorf("gang %q: want NAME or NAMESPACE/NAME of a PodGroup", gang)
	case named:
		return ns + "/" + name, nil
	}
	return namespace + "/" + ns, nil
}

// isUID reports whether a text is a UID rather than a name: five groups of hexadecimal digits. A pod could have such a
// name; it must then be given with its namespace.
func isUID(text string) bool {
	const digits = "0123456789abcdef"
	for i, part := range strings.Split(text, "-") {
		if want := []int{8, 4, 4, 4, 12}; i >= len(want) || len(part) != want[i] || strings.Trim(part, digits) != "" {
			return false
		}
	}
	return strings.Count(text, "-") == 4
}

// Pod returns all that is known about a pod, by namespace/name or UID. It is an error if the log has no record of the
// pod.
func (q *Inquiry) Pod(ctx context.Context, pod string) (*explain.Story, error) {
	// The queue first: it knows the UID of a pod that exists, and the shard that would decide about it.
	queue, err := q.queue(ctx, explain.Question{Pod: pod})
	if err != nil {
		return nil, err
	}
	uid, err := q.uid(ctx, pod, queue)
	if err != nil {
		return nil, err
	}
	story, err := q.Story(ctx, uid)
	if err != nil {
		return nil, err
	}
	// The queue may know the pod although retention has removed its records; without history there is no story.
	if len(story.Events) == 0 {
		return nil, fmt.Errorf("pod %s: not found in the log", pod)
	}
	story.Queue = queue
	if queue == nil {
		story.Notes = append(story.Notes, "no leading queue answered: the pod's position in it is unknown")
	}
	if queue != nil && queue.Known && queue.Shard != "" {
		if err := q.shard(ctx, story, queue.Shard); err != nil {
			return nil, err
		}
	}
	return story, q.addEviction(ctx, story)
}

// Story returns the history of a pod: its newest maxRecords facts and as many decisions.
func (q *Inquiry) Story(ctx context.Context, uid string) (*explain.Story, error) {
	facts, err := q.History.About(ctx, eventlog.Facts, events.FactsAbout(events.KindPod, uid), maxRecords)
	if err != nil {
		return nil, err
	}
	decisions, err := q.History.About(ctx, eventlog.Decisions, events.DecisionsAbout(uid), maxRecords)
	if err != nil {
		return nil, err
	}
	return explain.BuildStory(uid, facts, decisions), nil
}

// queue asks the leading queue; nil if no queue leads or answers in time. Only the leader answers.
func (q *Inquiry) queue(ctx context.Context, question explain.Question) (*explain.QueueAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	answers, err := explain.Ask(ctx, q.Bus, work.SubjectAskQueue, question, anyAnswer[explain.QueueAnswer])
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return &answers[0], nil
}

// anyAnswer reports whether there is an answer: the first one is enough.
func anyAnswer[A any](answers []A) bool { return len(answers) > 0 }

// UID returns the UID of a pod by namespace/name or UID, even if the pod is gone: from the queue if it knows the pod,
// else from the facts in the log.
func (q *Inquiry) UID(ctx context.Context, pod string) (string, error) {
	queue, err := q.queue(ctx, explain.Question{Pod: pod})
	if err != nil {
		return "", err
	}
	return q.uid(ctx, pod, queue)
}

// uid returns the UID of a pod, given the queue's answer about it.
func (q *Inquiry) uid(ctx context.Context, pod string, queue *explain.QueueAnswer) (string, error) {
	if queue != nil && queue.Known {
		return queue.Where.UID, nil
	}
	namespace, name, named := strings.Cut(pod, "/")
	if !named {
		return pod, nil
	}
	return q.searchFacts(ctx, namespace, name)
}

// searchFacts reads the facts for the last pod with a name: no other source knows pods that are gone. It reads the
// whole stream, of which the headers suffice; in a large cluster that takes seconds.
func (q *Inquiry) searchFacts(ctx context.Context, namespace, name string) (uid string, err error) {
	err = q.scan(ctx, eventlog.Facts, func(r eventlog.Record) {
		h := r.Header
		if h.Get(eventlog.HeaderName) == name && h.Get(eventlog.HeaderNamespace) == namespace &&
			h.Get(eventlog.HeaderKind) == string(events.KindPod) {
			uid = h.Get(eventlog.HeaderUID)
		}
	})
	if err == nil && uid == "" {
		err = fmt.Errorf("pod %s/%s: not found in the cluster or in the log", namespace, name)
	}
	return uid, err
}

// scan reads a stream from the oldest record that is kept to the one that is the last now. Records that are appended
// while it reads are left out, so that it ends on a busy log.
func (q *Inquiry) scan(ctx context.Context, s eventlog.Stream, visit func(eventlog.Record)) error {
	last, err := q.Log.Last(ctx, s)
	if err != nil || last == 0 {
		return err
	}
	// Retention has usually removed the beginning; the error names the first record that is left.
	reader, err := q.Log.Read(ctx, s, 1)
	var gap *eventlog.ErrGap
	if errors.As(err, &gap) {
		reader, err = q.Log.Read(ctx, s, gap.Have)
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Sequence <= last {
				visit(r)
			}
		}
		if records[len(records)-1].Sequence >= last {
			return nil
		}
	}
}

// shard asks the shard that holds the pod's partition, and adds its answer to the story, or a note. Other shards do
// not answer about the pod.
func (q *Inquiry) shard(ctx context.Context, story *explain.Story, member string) error {
	ctx, cancel := context.WithTimeout(ctx, shardTimeout)
	defer cancel()
	answers, err := explain.Ask(ctx, q.Bus, work.SubjectAskShards, explain.Question{Pod: story.UID},
		anyAnswer[explain.ShardAnswer])
	if err != nil {
		return err
	}
	if len(answers) == 0 {
		story.Notes = append(story.Notes, "shard "+member+" does not answer: node and ledger state are unknown")
		return nil
	}
	story.Shard = answers[0].Pod
	return nil
}

// addEviction determines for which pod a pod was evicted, and which pods its controller has created since. The
// preemptor is the pod whose nomination has the token of the eviction.
func (q *Inquiry) addEviction(ctx context.Context, s *explain.Story) error {
	if s.Evicted == nil {
		return nil
	}
	if token := s.PlanToken(); token != "" {
		// Nominations are few, so all of them are read to find the one with the token.
		records, err := q.History.About(ctx, eventlog.Decisions, events.DecisionsOf(events.DecisionNominated), 0)
		if err != nil {
			return err
		}
		for _, r := range records {
			d, err := events.DecodeDecision(r)
			if err == nil && d.Token == token { // a record that cannot be decoded is of no use here
				s.Evicted.By = "preemption, for pod " + d.Pod.Namespace + "/" + d.Pod.Name
				s.Evicted.Reason = "its place on " + d.NodeName + " was needed: " + d.Message
			}
		}
	}
	// A pod without a controller is not replaced.
	if s.Owner == "" {
		return nil
	}
	answer, err := q.queue(ctx, explain.Question{Pod: s.UID, Owner: s.Owner, Since: s.Evicted.Asked.Truncate(time.Second)})
	if err == nil && answer != nil {
		s.Evicted.Replacements = answer.Siblings
	}
	return err
}

// Node asks the shards about a node, and returns the first answer. All shards count the same pods on it, as far as
// each is up to date.
func (q *Inquiry) Node(ctx context.Context, name string) (*explain.ShardAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, shardTimeout)
	defer cancel()
	// A shard that does not know the node leaves the question to others.
	question := explain.Question{Node: name}
	answers, err := explain.Ask(ctx, q.Bus, work.SubjectAskShards, question, anyAnswer[explain.ShardAnswer])
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("node %s: not known to any running shard", name)
	}
	return &answers[0], nil
}

// Gang asks the shards about a gang, given as namespace/name, and the leading queue about the member that stands for
// it. The first shard's answer is returned: all of them see the same pods, as far as each is up to date.
func (q *Inquiry) Gang(ctx context.Context, name string) (*explain.Gang, error) {
	queue, err := q.queue(ctx, explain.Question{Gang: name})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, shardTimeout)
	defer cancel()
	// A shard that does not know the gang leaves the question to others.
	question := explain.Question{Gang: name}
	answers, err := explain.Ask(ctx, q.Bus, work.SubjectAskShards, question, anyAnswer[explain.ShardAnswer])
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 || answers[0].Gang == nil {
		return nil, fmt.Errorf("gang %s: no running shard answered: none knows a PodGroup of that name, or a pod of it, "+
			"or all are of a version before this command", name)
	}
	return &explain.Gang{GangView: *answers[0].Gang, Member: answers[0].Member, Queue: queue}, nil
}

// Overview asks the leading queue and all shards for their status. descheduler is the running one, if known. It waits
// for as many shards as the queue knows to be alive, or for shardTimeout.
func (q *Inquiry) Overview(ctx context.Context, descheduler string) (*explain.Overview, error) {
	queue, err := q.queue(ctx, explain.Question{Status: true})
	if err != nil {
		return nil, err
	}
	// Without a queue it is not known how many shards there are; one answer is enough then.
	alive := 1
	if queue != nil && queue.Status != nil {
		alive = 0
		for _, m := range queue.Status.Members {
			if m.Role == "scheduler" {
				alive++
			}
		}
	}
	sctx, cancel := context.WithTimeout(ctx, shardTimeout)
	defer cancel()
	shards, err := explain.Ask(sctx, q.Bus, work.SubjectAskShards, explain.Question{Status: true},
		func(a []explain.ShardAnswer) bool { return len(a) >= alive })
	if err != nil {
		return nil, err
	}
	last, err := q.Log.Last(ctx, eventlog.Facts)
	if err != nil {
		return nil, err
	}
	o := explain.NewOverview(queue, shards, last, descheduler)
	return &o, nil
}
