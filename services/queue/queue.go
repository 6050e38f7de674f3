package queue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/applied"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
	"github.com/berth-scheduler/berth/services/queue/leader"
)

const (
	// batchBuffer is how many batches of facts, of the ledger and of decisions may wait for the deciding goroutine.
	// Each batch is bounded; a full buffer blocks the reader.
	batchBuffer = 16
	// shardTimeout is how long a shard's window counts after its last request: ten of the shards' heartbeats, so that a
	// few lost requests do not stop the offers.
	shardTimeout = 10 * time.Second
	// conditionWait bounds the wait for the condition of the last verdict to show in the facts. A lost message delays
	// the pod by this much; the first backoff is one second anyway.
	conditionWait = 5 * time.Second
	// maxOffers is the largest number of offers in one message to a shard, about 50 kB. A message is lost as a whole,
	// so a larger one would cost more pods a lease.
	maxOffers = 256
)

// Queue is one replica of the service. Run may be called once; all other methods are safe for concurrent use.
type Queue struct {
	cfg     Config
	deps    Deps
	logger  *slog.Logger
	cluster *intake.Cluster
	// applied is the state that the deciding goroutine has published. The leader's goroutines wait for it.
	applied *applied.Facts
	// inputs carries Lead and StepDown to the deciding goroutine; queries carries questions that run on it. Both have no
	// buffer: what was sent has been received, and what was not can be withdrawn when a context ends.
	inputs  chan decide.Input
	queries *driver.Queries
	// deciding is the loop of Run. Only the deciding goroutine uses it, for itself and for the questions.
	deciding *loop
	// leads is true while the deciding goroutine offers pods.
	leads atomic.Bool
	// profiles are the served profiles by scheduler name. They are shared and not changed.
	profiles map[string]*placement.Profile
	// seed seeds the tokens of this life's offers; see decide.Config.TokenSeed.
	seed uint64
	// candidate competes for leadership and does the leader's work.
	candidate *leader.Candidate
}

// New checks the configuration and the dependencies. It makes no request yet, and starts nothing. The seed of the
// tokens is drawn here, so that two lives of a replica never give two offers the same token.
func New(cfg Config, deps Deps) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.complete(); err != nil {
		return nil, err
	}
	cluster, err := intake.Connect(deps.RestConfig)
	if err != nil {
		return nil, err
	}
	profiles, err := cfg.profiles(deps.Hints)
	if err != nil {
		return nil, err
	}
	var seed [8]byte
	// crypto/rand, because a seed from the time could be that of another replica.
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("queue: seed for tokens: %w", err)
	}
	q := &Queue{
		cfg: cfg.withDefaults(), deps: deps, logger: deps.Logger,
		cluster: cluster, applied: applied.New(),
		inputs: make(chan decide.Input), queries: driver.NewQueries(),
		profiles: profiles, seed: binary.LittleEndian.Uint64(seed[:]),
	}
	q.candidate = q.newCandidate()
	return q, nil
}

// Run serves until ctx ends and then returns nil, after it has stopped offering, stored a last snapshot if it leads,
// and resigned. A stored memory of attempts, written last, makes the next start cheaper. It returns an error if the
// API server cannot be reached at start, if the ledger belongs to another cluster (*identity.ClusterMismatchError),
// or if the log or the ledger holds something that cannot be read.
func (q *Queue) Run(ctx context.Context) error {
	uid, err := q.cluster.Identify(ctx, q.cfg.StartTimeout)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// Every replica receives the shards' requests, leader or not, so that a new leader knows their windows.
	requests, unsubscribe, err := intake.Work(q.deps.Bus)
	if err != nil {
		return err
	}
	defer unsubscribe()
	// The session of the membership is also the one under which this replica campaigns.
	member, err := membership.Join(ctx, q.deps.Ledger, membership.Config{
		Role: membership.RoleQueue, ID: q.cfg.ID, TTL: q.cfg.SessionTTL, Log: q.deps.Logger,
		Address: q.cfg.Address, Version: q.cfg.Version, Started: q.deps.Clock.Now(),
	})
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	// From here on, the first goroutine that fails ends all others. The core has no drain (see loop.drive), so they
	// need no context that outlives ctx.
	group, ctx := errgroup.WithContext(ctx)
	in := feeds{
		facts:     make(chan feed.Step, batchBuffer),
		ledger:    make(chan replica.Batch, batchBuffer),
		decisions: make(chan intake.DecisionBatch, batchBuffer),
		requests:  requests,
	}
	// The readers start before the deciding goroutine; they wait at full channels until it receives.
	group.Go(func() error { return q.deps.Facts.Follow(ctx, in.facts) })
	group.Go(func() error { return replica.Follow(ctx, q.deps.Ledger, in.ledger) })
	recorder, mover := commit.NewRecorder(q.deps.Log, q.logger), commit.NewMover(q.deps.Ledger, q.logger)
	group.Go(func() error { return recorder.Run(ctx) })
	group.Go(func() error { return mover.Run(ctx) })
	group.Go(func() error {
		q.deciding = newLoop(q, in, commit.NewReporter(q.deps.Bus, recorder, mover, q.deps.Tracer, q.logger))
		// The memory determines where the reading of the decisions begins, so the reader starts after it was loaded.
		begin := q.deciding.loadMemory(ctx)
		group.Go(func() error { return intake.Decisions(ctx, q.deps.Log, begin, q.logger, in.decisions) })
		return q.deciding.drive(ctx)
	})
	group.Go(func() error { return explain.Serve(ctx, q.deps.Bus, work.SubjectAskQueue, q.answer) })
	// The membership outlives the leadership, which depends on the membership's session: a leader resigns under it, so
	// that the next one follows at once.
	stay, leave := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return member.Run(stay) })
	group.Go(func() error {
		defer leave()
		return q.candidate.Run(ctx, member, uid)
	})
	return group.Wait()
}

// Ready returns nil once this replica has applied the log and knows how far the log's progress reaches: it leads, or
// could take over at once. Followers are ready too, so that a rolling update waits until the next leader is warm.
func (q *Queue) Ready() error {
	snapshot := q.applied.Snapshot()
	if _, ok := snapshot.Position().Progress(events.KindPod); !ok {
		return errors.New("facts not applied yet")
	}
	return nil
}

// coreConfig returns the configuration of the core: what people configure, and the constants of this package.
func (q *Queue) coreConfig() decide.Config {
	return decide.Config{
		Queue:          q.cfg.ID,
		Profiles:       q.profiles,
		InitialBackoff: q.cfg.PodInitialBackoff,
		MaxBackoff:     q.cfg.PodMaxBackoff,
		Lease:          q.cfg.OfferLease,
		DeliveryLimit:  q.cfg.DeliveryLimit,
		ShardTimeout:   shardTimeout,
		ConditionWait:  conditionWait,
		FlushAfter:     q.cfg.FlushAfter,
		MaxOffers:      maxOffers,
		TokenSeed:      q.seed,
		Trace:          telemetry.Tracing(),
	}
}

// Describe prints every pool and its pods, sorted, as tests and debug dumps show them. Its time and its result grow
// with the number of waiting pods. It fails only if ctx ends first, for instance because the replica does not run.
func (q *Queue) Describe(ctx context.Context) (string, error) {
	var text string
	err := q.query(ctx, func(l *loop) { text = l.core.Describe() })
	return text, err
}

// Where returns the pool of a pod ("" for none) and a reason in words for people. It fails only if ctx ends first.
func (q *Queue) Where(ctx context.Context, podUID string) (pool, reason string, err error) {
	err = q.query(ctx, func(l *loop) {
		p, why := l.core.Where(podUID)
		pool, reason = string(p), why
	})
	return pool, reason, err
}

// Explain answers people about one pod, given by UID or as namespace/name, or about the queue as a whole if pod is
// empty. A name is looked up in the published state and the pool in the core, which may be a step ahead; a pod that is
// not in the facts is an answer and no error. It fails only if ctx ends first.
func (q *Queue) Explain(ctx context.Context, pod string) (string, error) {
	if pod == "" {
		var text string
		err := q.query(ctx, func(l *loop) { text = l.core.Overview() })
		return text, err
	}
	uid := pod
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		snapshot := q.applied.Snapshot()
		p, known := snapshot.PodByName(namespace, name)
		if !known {
			return fmt.Sprintf("%s: pod not found in the facts\n", pod), nil
		}
		uid = p.UID
	}
	pool, reason, err := q.Where(ctx, uid)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s: %s\n", pod, or(pool, "in no pool"), reason), nil
}

// query runs question on the deciding goroutine, between two steps, and waits until it has returned. The question may
// look at everything that the loop owns, and must keep nothing of it that changes. ask fails only if ctx ends first.
func (q *Queue) query(ctx context.Context, question func(*loop)) error {
	if err := q.queries.Ask(ctx, func() { question(q.deciding) }); err != nil {
		return fmt.Errorf("queue: query the core: %w", err)
	}
	return nil
}
