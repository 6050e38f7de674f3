package memory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

const (
	// readBatch is how many facts a reader returns at once, about what a real one finds.
	readBatch = 256
	// decidedBuffer is how many decisions may wait for the program to look at them.
	decidedBuffer = 1024
)

// factLog is the log of a cluster: facts are made when they are read, decisions are handed
// on and forgotten.
type factLog struct {
	sections []section
	apps     int
	// pending are the pods to be decided.
	pending int
	// last is how many facts there are.
	last    uint64
	decided chan events.Decision
	stored  atomic.Uint64
	load    placementbench.Workload
}

// section is a run of facts of one kind.
type section struct {
	kind   events.Kind
	count  int
	object func(i int) state.APIObject
}

func newFactLog(o options) *factLog {
	perNode := o.pods / o.nodes
	w := placementbench.Population(o.nodes, perNode, o.podsPerApp)
	namespaces, services, sets := w.Namespaces(), w.Services(), w.ReplicaSets()
	l := &factLog{
		apps: w.Apps(), pending: o.decisions, decided: make(chan events.Decision, decidedBuffer), load: w,
		sections: []section{
			{events.KindNamespace, len(namespaces), func(i int) state.APIObject { return namespaces[i] }},
			{events.KindService, len(services), func(i int) state.APIObject { return services[i] }},
			{events.KindReplicaSet, len(sets), func(i int) state.APIObject { return sets[i] }},
			{events.KindNode, o.nodes, func(i int) state.APIObject { return w.Node(i) }},
			{events.KindPod, o.pods, func(i int) state.APIObject { return w.Bound(i/perNode, i%perNode) }},
			{events.KindPod, o.decisions, func(i int) state.APIObject { return w.Pending(i) }},
		},
	}
	for _, s := range l.sections {
		l.last += uint64(s.count)
	}
	l.last += uint64(len(state.Kinds())) // the closing marker of each kind's list
	return l
}

// record makes the fact with this sequence, from 1 to last.
func (l *factLog) record(sequence uint64) (eventlog.Record, error) {
	i := int(sequence) - 1
	for _, s := range l.sections {
		if i < s.count {
			return recordOf(s.kind, s.object(i), sequence)
		}
		i -= s.count
	}
	marker := events.Fact{Kind: state.Kinds()[i], Op: events.OpProgress, Progress: l.last, Cause: "list"}
	return eventlog.Record{Message: events.EncodeFact(marker), Sequence: sequence, Time: time.Now()}, nil
}

// recordOf makes the fact of one object as the queue's intake does.
func recordOf(k events.Kind, obj state.APIObject, sequence uint64) (eventlog.Record, error) {
	obj.SetResourceVersion(fmt.Sprint(sequence))
	strip.Strip(obj)
	data, err := obj.Marshal()
	if err != nil {
		return eventlog.Record{}, fmt.Errorf("%s %s: %w", k, obj.GetName(), err)
	}
	return eventlog.Record{Sequence: sequence, Time: time.Now(), Message: events.EncodeFact(events.Fact{
		Kind: k, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: sequence, Cause: "list", Object: data,
	})}, nil
}

// offers are the queue's offers for the pending pods.
func (l *factLog) offers() []work.Offer {
	offers := make([]work.Offer, l.pending)
	for i := range offers {
		p := l.load.Pending(i)
		offers[i] = work.Offer{
			Pod:       events.PodRef{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
			Partition: ledger.PartitionOf(string(p.UID)), Token: ledger.Token(i + 1).String(),
			Attempt: 1, FactSequence: l.last, LeaseMillis: int32(time.Minute.Milliseconds()),
		}
	}
	return offers
}

var errReadOnly = errors.New("the facts are made up: nothing can be appended to them")

// Append implements eventlog.Log for decisions.
func (l *factLog) Append(ctx context.Context, s eventlog.Stream, _ eventlog.Tail, msgs []eventlog.Message) (uint64,
	error) {
	if s != eventlog.Decisions {
		return 0, errReadOnly
	}
	for _, m := range msgs {
		sequence := l.stored.Add(1)
		d, err := events.DecodeDecision(eventlog.Record{Message: m, Sequence: sequence})
		if err != nil {
			return 0, err
		}
		select {
		case l.decided <- d.Decision:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return l.stored.Load(), nil
}

// Frames implements eventlog.Log.
func (l *factLog) Frames(eventlog.Stream) int { return 0 }

// Last implements eventlog.Log.
func (l *factLog) Last(_ context.Context, s eventlog.Stream) (uint64, error) {
	if s == eventlog.Decisions {
		return l.stored.Load(), nil
	}
	return l.last, nil
}

// Read implements eventlog.Log for facts.
func (l *factLog) Read(_ context.Context, s eventlog.Stream, from uint64) (eventlog.Reader, error) {
	if s != eventlog.Facts {
		return nil, fmt.Errorf("stream %s: decisions are not kept", s)
	}
	return &factReader{log: l, next: from, closed: make(chan struct{})}, nil
}

// factReader reads all facts and then waits for ever.
type factReader struct {
	log    *factLog
	next   uint64
	closed chan struct{}
}

// Next implements eventlog.Reader.
func (r *factReader) Next(ctx context.Context) ([]eventlog.Record, error) {
	if r.next > r.log.last {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.closed:
			return nil, eventlog.ErrClosed
		}
	}
	var records []eventlog.Record
	for ; r.next <= r.log.last && len(records) < readBatch; r.next++ {
		record, err := r.log.record(r.next)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

// Close implements eventlog.Reader.
func (r *factReader) Close() { close(r.closed) }
