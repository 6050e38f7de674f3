package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// Roles of members, as in member/<role>/<id>.
const (
	RoleQueue     = "queue"
	RoleScheduler = "scheduler"
	RoleBinder    = "binder"
)

const (
	// TTL bounds how long a member that has died counts as alive; until then its partitions, and the pods in them,
	// are not taken over. It is longer than a pause of the garbage collector, and a leader change of etcd extends
	// it by itself. A member that loses its lease for another reason rejoins within a second, and its transactions
	// fail until then: a TTL that is too short costs work, but breaks no promise.
	TTL = 4 * time.Second
	// leaveTimeout bounds closing a session; a session that is not closed expires with its lease.
	leaveTimeout = 5 * time.Second
)

// rejoinBackoff spaces the attempts to rejoin: 0.2 s doubling to 5 s, without end, because a member without a
// ledger can do nothing else.
var rejoinBackoff = wait.Backoff{
	Duration: 200 * time.Millisecond,
	Factor:   2,
	Jitter:   0.1,
	Steps:    6,
	Cap:      5 * time.Second,
}

// Config describes a member.
type Config struct {
	// Role is one of the Role constants. ID must be unique among all members that ever lived (give it a random
	// part). Neither may be empty.
	Role, ID string
	// Address and Version are for people; see roster.Member.
	Address, Version string
	Started          time.Time
	// TTL is the lease's TTL; 0 means the constant TTL. Whole seconds, at least two.
	TTL time.Duration
	// Log receives the events of the membership; nil means slog.Default.
	Log *slog.Logger
}

// Member is this process as other processes see it. It is safe for concurrent use.
type Member struct {
	store ledger.Store
	cfg   Config
	value []byte

	mu struct {
		sync.Mutex
		session ledger.Session
		// replaced is closed when session is replaced.
		replaced chan struct{}
	}
}

// Join opens a session and registers the member. Run must be called to keep it registered.
func Join(ctx context.Context, store ledger.Store, cfg Config) (*Member, error) {
	if cfg.Role == "" || cfg.ID == "" {
		return nil, fmt.Errorf("membership: Role is %q and ID is %q: want both", cfg.Role, cfg.ID)
	}
	if len(cfg.ID) > ledger.MaxMemberID {
		return nil, fmt.Errorf("membership: ID has %d bytes: want at most %d", len(cfg.ID), ledger.MaxMemberID)
	}
	if cfg.TTL == 0 {
		cfg.TTL = TTL
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	value, err := roster.EncodeMember(roster.Member{
		ID: cfg.ID, Role: cfg.Role, Address: cfg.Address, Started: cfg.Started, Version: cfg.Version,
	})
	if err != nil {
		return nil, fmt.Errorf("membership: member %s: %w", cfg.ID, err)
	}
	m := &Member{store: store, cfg: cfg, value: value}
	m.mu.replaced = make(chan struct{})
	if m.mu.session, err = m.enter(ctx, 0); err != nil {
		return nil, err
	}
	return m, nil
}

// ID returns the member's id.
func (m *Member) ID() string { return m.cfg.ID }

// Session returns the current session, which may be lost already (Done). Everything attached to a lost session is
// void: partitions, leadership.
func (m *Member) Session() ledger.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.session
}

// Alive returns the current session as soon as there is one that is not known to be lost. An error means that ctx
// has ended.
func (m *Member) Alive(ctx context.Context) (ledger.Session, error) {
	for {
		m.mu.Lock()
		session, replaced := m.mu.session, m.mu.replaced
		m.mu.Unlock()
		select {
		case <-session.Done():
		default:
			return session, nil
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return nil, fmt.Errorf("membership: member %s has no session: %w", m.cfg.ID, ctx.Err())
		}
	}
}

// Run keeps the member alive until ctx ends, rejoining with a new session whenever one is lost; then it closes the
// session, which ends everything attached to it at once. The caller must first stop everything that relies on the
// membership.
func (m *Member) Run(ctx context.Context) error {
	for {
		session := m.Session()
		select {
		case <-session.Done():
			m.cfg.Log.WarnContext(ctx, "membership lost; rejoining", "lease", session.Lease())
			m.rejoin(ctx, session)
		case <-ctx.Done():
			return m.leave(ctx)
		}
		if ctx.Err() != nil {
			return m.leave(ctx)
		}
	}
}

// leave closes the session; closing a lost one costs nothing.
func (m *Member) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := m.Session().Close(ctx); err != nil {
		return fmt.Errorf("membership: member %s: leave: %w", m.cfg.ID, err)
	}
	return nil
}

// rejoin replaces the lost session, or returns because ctx has ended.
func (m *Member) rejoin(ctx context.Context, lost ledger.Session) {
	// The only error Until can return here is that ctx has ended.
	_ = rejoinBackoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		session, err := m.enter(ctx, lost.Lease())
		if err != nil {
			m.cfg.Log.WarnContext(ctx, "could not rejoin; retrying", telemetry.KeyError, err)
			return false, nil
		}
		m.replace(session)
		return true, nil
	})
	if ctx.Err() != nil {
		return
	}
	// The server may keep a lease that this side considers lost: end it, so that the keys attached to it are free
	// for other members (and for this one) now.
	closing, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := lost.Close(closing); err != nil {
		m.cfg.Log.WarnContext(ctx, "could not revoke the lost lease; it will expire", "lease", lost.Lease(),
			telemetry.KeyError, err)
	}
}

// replace makes a session the current one, and wakes the callers of Alive.
func (m *Member) replace(session ledger.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.session = session
	close(m.mu.replaced)
	m.mu.replaced = make(chan struct{})
}

// enter opens a session and registers the member on it. If the member's key still exists on the lease of the
// session that this member has lost, it moves to the new lease; on any other lease the key belongs to another
// process.
func (m *Member) enter(ctx context.Context, lost int64) (ledger.Session, error) {
	session, err := m.store.OpenSession(ctx, m.cfg.TTL)
	if err != nil {
		return nil, fmt.Errorf("membership: member %s: %w", m.cfg.ID, err)
	}
	if err := m.register(ctx, session, lost); err != nil {
		// Also after an unknown outcome: revoking the lease removes the key.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		return nil, errors.Join(err, session.Close(closing))
	}
	return session, nil
}

// register puts the member's key on a session. The key must not exist, or be on the lease of the session that this
// member has lost; lost is 0 when it joins.
func (m *Member) register(ctx context.Context, session ledger.Session, lost int64) error {
	key := roster.KeyMember(m.cfg.Role, m.cfg.ID)
	txn := ledger.Txn{
		Compares: []ledger.Compare{{Key: key, Target: ledger.ModRevision}},
		Puts:     []ledger.Put{{Key: key, Value: m.value, Lease: session.Lease()}},
	}
	r, err := m.store.Commit(ctx, txn)
	if err == nil && !r.Succeeded && len(r.Current) == 1 && lost != 0 && r.Current[0].Lease == lost {
		txn.Compares[0].Revision = r.Current[0].ModRevision
		r, err = m.store.Commit(ctx, txn)
	}
	if err != nil {
		return fmt.Errorf("membership: member %s: %w", m.cfg.ID, err)
	}
	if !r.Succeeded {
		return fmt.Errorf("membership: ID %q of role %s is in use by another process; ids must be unique",
			m.cfg.ID, m.cfg.Role)
	}
	return nil
}
