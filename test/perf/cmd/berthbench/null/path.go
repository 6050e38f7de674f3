package null

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/test/perf/bare"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// The streams, in place of Berth's.
const (
	factStream     = "NULLFACTS"
	decisionStream = "NULLDECISIONS"
)

// documentBytes is about the size of a node's document in the ledger while pods arrive: with it, etcd receives
// 460 bytes for a pod, and 400 from Berth (etcd_network_client_grpc_received_bytes_total).
const documentBytes = 400

// path is the running program.
type path struct {
	options Options
	writer  *bare.Log
	readers []*bare.Log
	// arrived has an element for each message of facts that the first reader has read.
	arrived chan struct{}
	// facts and decisions count what the readers of each have read.
	facts, decisions *tally
	etcd             *clientv3.Client
	api              *poster
	// revisions are those of the nodes' documents. No two groups in flight are about one node.
	revisions []int64
	document  string
}

// open connects everything.
func open(ctx context.Context, o Options) (p *path, err error) {
	p = &path{
		options: o, revisions: make([]int64, o.Nodes), document: string(make([]byte, documentBytes)),
		facts: newTally(), decisions: newTally(), arrived: make(chan struct{}, max(o.Pods, o.Warm)/Group+1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{o.Etcd}, Context: ctx}); err != nil {
		return p, err
	}
	if p.api, err = newPoster(o.Kubeconfig); err != nil {
		return p, err
	}
	if p.writer, err = bare.Open(o.NATS); err != nil {
		return p, err
	}
	for _, stream := range []string{factStream, decisionStream} {
		if err := p.writer.Create(ctx, stream); err != nil {
			return p, err
		}
	}
	for i := range o.FactReaders {
		note := p.facts.add
		if i == 0 {
			note = func(bytes int) { p.facts.add(bytes); p.arrived <- struct{}{} }
		}
		if err := p.read(ctx, factStream, note); err != nil {
			return p, err
		}
	}
	for range o.DecisionReaders {
		if err := p.read(ctx, decisionStream, p.decisions.add); err != nil {
			return p, err
		}
	}
	return p, nil
}

// read starts a reader with a connection of its own.
func (p *path) read(ctx context.Context, stream string, note func(bytes int)) error {
	reader, err := bare.Open(p.options.NATS)
	if err != nil {
		return err
	}
	p.readers = append(p.readers, reader)
	_, err = reader.Count(ctx, stream, note) // ends with the connection
	return err
}

// close closes what is open.
func (p *path) close() (err error) {
	for _, reader := range p.readers {
		reader.Close()
	}
	if p.writer != nil {
		p.writer.Close()
	}
	if p.etcd != nil {
		err = p.etcd.Close()
	}
	return err
}

// pass places pods whose names have this prefix, and returns when every reader has read all that was written.
func (p *path) pass(ctx context.Context, prefix string, pods int) error {
	o := p.options
	readFacts := p.facts.expect(pods * o.FactBytes * o.FactReaders)
	readDecisions := p.decisions.expect(pods * o.DecisionBytes * o.DecisionReaders)
	all, passing := errgroup.WithContext(ctx)
	all.Go(func() error {
		for from := 0; from < pods; from += Group {
			size := min(Group, pods-from) * o.FactBytes
			if err := p.writer.Append(passing, factStream, make([]byte, size)); err != nil {
				return fmt.Errorf("append facts: %w", err)
			}
		}
		return nil
	})
	all.Go(func() error {
		groups, placing := errgroup.WithContext(passing)
		groups.SetLimit(inFlight)
		for from := 0; from < pods && placing.Err() == nil; from += Group {
			select {
			case <-p.arrived:
			case <-placing.Done():
				continue
			}
			groups.Go(func() error { return p.place(placing, prefix, from, min(Group, pods-from)) })
		}
		return groups.Wait()
	})
	if err := all.Wait(); err != nil {
		return err
	}
	for _, read := range []<-chan struct{}{readFacts, readDecisions} {
		select {
		case <-read:
		case <-ctx.Done():
			return fmt.Errorf("not all that was written has been read: %w", ctx.Err())
		}
	}
	return nil
}

// place reserves a group of pods in one transaction, writes the decisions, and binds each pod.
func (p *path) place(ctx context.Context, prefix string, from, n int) error {
	if err := p.reserve(ctx, from, n); err != nil {
		return err
	}
	if err := p.writer.Append(ctx, decisionStream, make([]byte, n*p.options.DecisionBytes)); err != nil {
		return fmt.Errorf("append decisions: %w", err)
	}
	posts, posting := errgroup.WithContext(ctx)
	for i := from; i < from+n; i++ {
		pod, node := PodName(prefix, i), bench.NodeName(i%p.options.Nodes)
		posts.Go(func() error { return errors.Join(p.api.bind(posting, pod, node), p.api.event(posting, pod, node)) })
	}
	return posts.Wait()
}

// reserve compares and writes the documents of a group's nodes in one transaction.
func (p *path) reserve(ctx context.Context, from, n int) error {
	compares, puts := make([]clientv3.Cmp, n), make([]clientv3.Op, n)
	for i := range n {
		node := (from + i) % p.options.Nodes
		key := "null/nodes/" + bench.NodeName(node)
		compares[i] = clientv3.Compare(clientv3.ModRevision(key), "=", p.revisions[node])
		puts[i] = clientv3.OpPut(key, p.document)
	}
	answer, err := p.etcd.Txn(ctx).If(compares...).Then(puts...).Commit()
	if err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	if !answer.Succeeded {
		return errors.New("a transaction was refused: another program writes the documents")
	}
	for i := range n {
		p.revisions[(from+i)%p.options.Nodes] = answer.Header.Revision
	}
	return nil
}

// tally counts bytes up to an expected number. It is safe for concurrent use.
type tally struct {
	mu struct {
		sync.Mutex
		seen, want int
		reached    chan struct{}
	}
}

func newTally() *tally {
	t := &tally{}
	t.mu.reached = make(chan struct{})
	close(t.mu.reached)
	return t
}

// expect returns what closes when so many bytes more have been counted. The bytes expected before must have been.
func (t *tally) expect(more int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if more > 0 {
		t.mu.want += more
		t.mu.reached = make(chan struct{})
		if t.mu.seen >= t.mu.want {
			close(t.mu.reached)
		}
	}
	return t.mu.reached
}

func (t *tally) add(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.mu.seen
	if t.mu.seen += bytes; before < t.mu.want && t.mu.seen >= t.mu.want {
		close(t.mu.reached)
	}
}
