package membership

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func joined(t *testing.T, ctx context.Context, store ledger.Store, id string) (*Member, func()) {
	t.Helper()
	m, err := Join(ctx, store, Config{Role: RoleScheduler, ID: id, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("member %s: %v", id, err)
		}
	}
}

func view(t *testing.T, store ledger.Store) *replica.View {
	t.Helper()
	kvs, revision, err := store.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	v := replica.NewView()
	if err := v.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	return v
}

func ids(v *replica.View) []string {
	var out []string
	for _, m := range v.Roster().Members(RoleScheduler) {
		out = append(out, m.ID)
	}
	return out
}

func TestMemberComesBackWithANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		m, stop := joined(t, t.Context(), store, "s1")
		first := m.Session()
		if got := ids(view(t, store)); !slices.Equal(got, []string{"s1"}) {
			t.Errorf("members %v, want s1", got)
		}
		if _, err := Join(t.Context(), store, Config{Role: RoleScheduler, ID: "s1"}); err == nil ||
			!strings.Contains(err.Error(), `"s1"`) {
			t.Errorf("second process of the same id: %v, want an error that names it", err)
		}

		store.FailTxns(2)
		store.Expire(first.Lease())
		synctest.Wait()
		if got := ids(view(t, store)); len(got) != 0 {
			t.Errorf("members %v while the ledger is down, want none", got)
		}
		second, err := m.Alive(t.Context())
		if err != nil || second.Lease() == first.Lease() {
			t.Fatalf("after a lost session: %v, %v, want a new one", second, err)
		}
		if got := ids(view(t, store)); !slices.Equal(got, []string{"s1"}) {
			t.Errorf("members %v, want s1 again", got)
		}
		stop()
		if got := ids(view(t, store)); len(got) != 0 {
			t.Errorf("members %v after a good-bye, want none", got)
		}
	})
}

// lingering is a store whose server keeps leases alive that the member considers lost.
type lingering struct {
	*mem.Store
	sessions []*lingeringSession
}

type lingeringSession struct {
	ledger.Session
	done chan struct{}
}

func (s *lingeringSession) Done() <-chan struct{} { return s.done }

func (s *lingering) OpenSession(ctx context.Context, ttl time.Duration) (ledger.Session, error) {
	inner, err := s.Store.OpenSession(ctx, ttl)
	if err != nil {
		return nil, err
	}
	session := &lingeringSession{Session: inner, done: make(chan struct{})}
	s.sessions = append(s.sessions, session)
	return session, nil
}

func TestMemberMovesItsKeyFromALeaseThatLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lingering{Store: mem.New()}
		m, stop := joined(t, t.Context(), store, "s1")
		first := m.Session()
		take, err := roster.TakePartition(3, roster.Owner{Member: "s1"}, first.Lease())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), take); err != nil {
			t.Fatal(err)
		}
		close(store.sessions[0].done)
		synctest.Wait()
		kvs, _, err := store.List(t.Context(), roster.PrefixMember)
		if err != nil || len(kvs) != 1 || kvs[0].Lease != m.Session().Lease() || kvs[0].Lease == first.Lease() {
			t.Errorf("member key %+v (%v), want it on the new lease", kvs, err)
		}
		if n := len(maps.Collect(view(t, store).Roster().Owners())); n != 0 {
			t.Errorf("%d partitions are held under a void session", n)
		}
		stop()
	})
}

func TestAliveEndsWithItsContext(t *testing.T) {
	store := mem.New()
	m, err := Join(t.Context(), store, Config{Role: RoleBinder, ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	store.Expire(m.Session().Lease())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Alive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("alive without a session: %v, want context.Canceled", err)
	}
	for _, cfg := range []Config{{ID: "x"}, {Role: RoleQueue}, {Role: RoleQueue, ID: "x", TTL: time.Second}} {
		if _, err := Join(t.Context(), store, cfg); err == nil {
			t.Errorf("join %+v: no error", cfg)
		}
	}
}
