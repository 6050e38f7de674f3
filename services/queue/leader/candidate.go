package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/applied"
	"github.com/berth-scheduler/berth/services/queue/generation"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// Election is the name under which replicas elect their leader.
const Election = "queue"

var (
	errSessionLost = errors.New("queue: ledger session lost")
	errDeposed     = errors.New("queue: another replica leads")
)

// Config configures a candidate. Every field must be set unless its comment says otherwise; package queue holds the
// defaults.
type Config struct {
	// ID is this replica's member id.
	ID string
	// WholeObjects keeps in the facts the fields that no rule reads, for plugins that are shown whole objects.
	WholeObjects bool
	// MetricsInterval is the time between two polls of metrics.k8s.io; 0 is never.
	MetricsInterval time.Duration
	// SnapshotEvery counts facts, and SnapshotInterval is a time. A snapshot is stored when either is reached.
	SnapshotEvery    uint64
	SnapshotInterval time.Duration
}

// Decider is the port to the goroutine that owns the core. Its calls return false or an error only if ctx ends first.
type Decider interface {
	generation.Observer
	// Lead makes the core offer pods under a term. decided is the end of the decisions of earlier leaders in the log.
	Lead(ctx context.Context, term int64, decided uint64) bool
	// StepDown ends the core's leadership.
	StepDown(ctx context.Context) bool
}

// Deps holds the external systems and the ports of a candidate. All but WhileLeading are required.
type Deps struct {
	Log         eventlog.Log
	Snapshots   eventlog.Snapshots
	Ledger      ledger.Store
	Elections   ledger.Elections
	Cluster     *intake.Cluster
	Generations *generation.Controller
	Applied     *applied.Facts
	Decider     Decider
	Clock       clock.WithTicker
	Logger      *slog.Logger
	// WhileLeading is called in each term, and returns when its context ends.
	WhileLeading func(ctx context.Context)
}

// Candidate is this replica's part in the election, and its work while it leads. Run may be called once.
type Candidate struct {
	cfg Config
	Deps
	tail      *logTail
	snapshots *snapshots
}

// New returns a candidate. It makes no request yet.
func New(cfg Config, deps Deps) *Candidate {
	return &Candidate{
		cfg: cfg, Deps: deps,
		tail: &logTail{
			log: deps.Log, applied: deps.Applied, observer: deps.Decider, clock: deps.Clock, logger: deps.Logger,
		},
		snapshots: &snapshots{
			log: deps.Log, store: deps.Snapshots, clock: deps.Clock, logger: deps.Logger, applied: deps.Applied,
			every: cfg.SnapshotEvery, interval: cfg.SnapshotInterval,
		},
	}
}

// Run campaigns for leadership, leads, and campaigns again, until ctx ends, when it returns nil. It gives up only if
// the ledger belongs to another cluster (*identity.ClusterMismatchError).
func (c *Candidate) Run(ctx context.Context, member *membership.Member, clusterUID string) error {
	for ctx.Err() == nil {
		err := c.candidacy(ctx, member, clusterUID)
		var foreign *identity.ClusterMismatchError
		if errors.As(err, &foreign) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("leadership lost; campaigning again", telemetry.KeyError, err)
		pause(ctx, c.Clock)
	}
	return nil
}

// candidacy runs one session: it waits for leadership, leads, and resigns in order. It returns when the session is
// lost or the term has ended. life ends when the replica stops: then the leader still stores a last snapshot and
// resigns, each within stopTimeout.
func (c *Candidate) candidacy(life context.Context, member *membership.Member, clusterUID string) error {
	session, err := member.Alive(life)
	if err != nil {
		return err
	}
	defer c.resign(life, session)
	// Stop offering first, whatever ended the term.
	defer c.Decider.StepDown(life)
	group, ctx := errgroup.WithContext(life)
	ctx, done := context.WithCancel(ctx)
	group.Go(func() error {
		select {
		case <-session.Done():
			return errSessionLost
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		defer done()
		term, err := c.Elections.Campaign(ctx, session, Election, c.cfg.ID)
		if err != nil {
			return fmt.Errorf("queue: campaign: %w", err)
		}
		return c.serveTerm(ctx, session, term, clusterUID)
	})
	return group.Wait()
}

// resign gives up the leadership, so that the next leader need not wait for the session to expire.
func (c *Candidate) resign(ctx context.Context, session ledger.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := c.Elections.Resign(ctx, session, Election); err != nil {
		c.Logger.Warn("could not resign; the session will expire", telemetry.KeyError, err)
	}
}

// confirm checks with the ledger that this replica still leads under a term. A leader may campaign again under its
// session and gets the same term at once; any other result means that the term has ended.
func (c *Candidate) confirm(ctx context.Context, session ledger.Session, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	again, err := c.Elections.Campaign(ctx, session, Election, c.cfg.ID)
	if err != nil {
		return fmt.Errorf("queue: confirm leadership: %w", err)
	}
	if again != term {
		return errDeposed
	}
	return nil
}
