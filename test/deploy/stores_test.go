//go:build e2e

package deploy_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/test/kit"
)

// refusedWithin bounds the wait for an answer that does not come: NATS sends nothing to a publisher without the
// right.
const refusedWithin = 3 * time.Second

// quiet is for connections that are meant to be refused.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// openLog connects as a member.
func (s *system) openLog(as string) (*jetstream.Log, error) {
	cfg := jetstream.Config{URLs: s.stores.natsURLs()[:1], CAFile: filepath.Join(s.certsDir(), "ca.crt"), Logger: quiet}
	if as != "" {
		cfg.CertFile, cfg.KeyFile = s.file(as, "tls.crt"), s.file(as, "tls.key")
		cfg.InboxPrefix = "_INBOX.berth-" + as
	}
	log, err := jetstream.Open(s.Context(), cfg)
	if err == nil {
		s.Cleanup(log.Close)
	}
	return log, err
}

// openLedger connects as a member.
func (s *system) openLedger(as string) (*etcd.Store, error) {
	cfg := etcd.Config{
		Endpoints: s.stores.etcdURLs(), CAFile: filepath.Join(s.certsDir(), "ca.crt"), DialTimeout: refusedWithin,
	}
	if as != "" {
		cfg.CertFile, cfg.KeyFile = s.file(as, "tls.crt"), s.file(as, "tls.key")
	}
	store, err := etcd.Open(s.Context(), cfg)
	if err == nil {
		kit.AtEnd(s.T, func(context.Context) error { return store.Close() })
	}
	return store, err
}

// TestStoresRefuseWhoHasNoRight holds the claims of the threat model about the stores.
func TestStoresRefuseWhoHasNoRight(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	s.start("queue", "queue-0") // makes the streams
	binder := s.start("binder", "binder-0")
	t.Run("the log, without a certificate", func(t *testing.T) {
		if _, err := s.openLog(""); err == nil {
			t.Error("NATS lets anybody in")
		}
	})
	t.Run("the log, with a certificate of nobody it knows", func(t *testing.T) {
		if _, err := s.openLog("prometheus"); err == nil {
			t.Error("NATS lets everybody with a certificate in")
		}
	})
	t.Run("the ledger, without a certificate", func(t *testing.T) {
		if _, err := s.openLedger(""); err == nil {
			t.Error("etcd lets anybody in")
		}
	})
	t.Run("the ledger, with a certificate of nobody it knows", func(t *testing.T) {
		if _, err := s.openLedger("prometheus"); err == nil {
			t.Error("etcd lets everybody with a certificate in")
		}
	})
	t.Run("the peers' ports, without a certificate of a peer", func(t *testing.T) { s.foreignPeers(t) })
	t.Run("the log, subjects of another service", func(t *testing.T) { s.foreignSubjects(t) })
	t.Run("the log, answers to another service", func(t *testing.T) { s.foreignInboxes(t) })
	t.Run("the log, answers where the service may not publish", func(t *testing.T) { s.foreignAnswers(t) })
	t.Run("the log, what another service says", func(t *testing.T) { s.foreignMessages(t) })
	t.Run("the ledger, what another service writes", func(t *testing.T) { s.foreignKeys(t) })
	t.Run("the ledger, what the administrator does", func(t *testing.T) { s.foreignAdministration(t) })
	t.Run("a fact that the queue has not written", func(t *testing.T) { s.forgedFact(t) })
	t.Run("a placement without a reservation", func(t *testing.T) { s.forgedPlacement(t) })
	t.Run("an eviction that a budget forbids", func(t *testing.T) { s.forgedEviction(t) })
	t.Run("a reservation beyond what there is", func(t *testing.T) {
		binder.Kill() // which would give it back before long
		s.forgedReservation(t)
	})
}

func decision(kind events.DecisionKind, pod events.PodRef) []eventlog.Message {
	return []eventlog.Message{events.EncodeDecision(events.Decision{
		Kind: kind, Pod: pod, Actor: "nobody", SchedulerName: scheduler, Token: "0123456789abcdef", NodeName: "demo-0001",
	})}
}

// foreignMessages: no service may publish what only another service may.
func (s *system) foreignMessages(t *testing.T) {
	unknownPod := events.PodRef{UID: "nobody", Namespace: "none", Name: "none"}
	fact := []eventlog.Message{events.EncodeFact(events.Fact{Kind: events.KindPod, UID: "nobody"})}
	for _, c := range []struct {
		what   string
		stream eventlog.Stream
		msgs   []eventlog.Message
		by     string
	}{
		{"a fact", eventlog.Facts, fact, "queue"},
		{"a placement", eventlog.Decisions, decision(events.DecisionPlaced, unknownPod), "scheduler"},
		{"a bind", eventlog.Decisions, decision(events.DecisionBound, unknownPod), "binder"},
		{"a request for an eviction", eventlog.Decisions, decision(events.DecisionEvict, unknownPod), "descheduler"},
	} {
		for _, as := range readers {
			if c.stream == eventlog.Facts && as == c.by {
				continue // the queue that runs has said some already
			}
			log, err := s.openLog(as)
			if err != nil {
				t.Fatal(as, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), refusedWithin)
			_, err = log.Append(ctx, c.stream, eventlog.AnySequence, c.msgs)
			cancel()
			if (err == nil) != (as == c.by) {
				t.Errorf("%s by the %s: %v", c.what, as, err)
			}
			log.Close()
		}
	}
}

// foreignKeys: no service may write the keys of another in the ledger, and all may read them.
func (s *system) foreignKeys(t *testing.T) {
	for _, c := range []struct {
		key string
		by  []string
	}{
		{ledger.KeyNode("nobody"), []string{"queue", "scheduler", "binder", "descheduler"}},
		{ledger.KeyIncarnation("nobody"), []string{"queue", "scheduler", "binder", "descheduler"}},
		{roster.KeyOwn(0), []string{"scheduler"}},
		{roster.KeyWant(0), []string{"queue"}},
		{identity.KeyCluster, []string{"queue"}},
		{identity.KeyGeneration, []string{"queue", "scheduler", "binder", "descheduler"}},
		{ledger.KeyFloor, []string{"queue", "binder"}},
		{pause.Key, nil},
		{registry.KeyTermRegistry, []string{"queue", "scheduler"}},
		{registry.PrefixTerm + "nothing", []string{"queue", "scheduler"}},
		{registry.PrefixGuard + "nothing/nowhere/c", []string{"queue", "scheduler"}},
		{ledger.PrefixBudget + "nobody", []string{"queue", "scheduler", "binder", "descheduler"}},
		{ledger.PrefixVolume + "nobody", []string{"queue", "scheduler", "binder", "descheduler"}},
		{ledger.PrefixPool + "nobody/nowhere", []string{"queue", "scheduler", "binder", "descheduler"}},
		{ledger.PrefixPlan + "nothing", []string{"queue", "scheduler", "binder", "descheduler"}},
		{roster.KeyMember("queue", "nobody"), []string{"queue"}},
		{roster.KeyMember("scheduler", "nobody"), []string{"scheduler"}},
		{roster.KeyMember("binder", "nobody"), []string{"binder"}},
		{roster.KeyMember("descheduler", "nobody"), []string{"descheduler"}},
		{roster.PrefixElection + "queue/1", []string{"queue"}},
		{roster.PrefixElection + "descheduler/1", []string{"descheduler"}},
		{roster.PrefixElection + "nobody/1", nil},
		{"nobody", nil},
	} {
		for _, as := range readers {
			store, err := s.openLedger(as)
			if err != nil {
				t.Fatal(as, err)
			}
			if _, _, err := store.List(t.Context(), roster.PrefixMember); err != nil {
				t.Errorf("the %s cannot read: %v", as, err)
			}
			// A revision that no key ever has: nothing is written, even by a service with the right.
			_, err = store.Commit(t.Context(), ledger.Txn{
				Compares: []ledger.Compare{{Key: c.key, Target: ledger.ModRevision, Revision: 1 << 60}},
				Puts:     []ledger.Put{{Key: c.key, Value: []byte("x")}},
			})
			may := false
			for _, by := range c.by {
				may = may || by == as
			}
			if (err == nil) != may {
				t.Errorf("%s by the %s: %v", c.key, as, err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// forgedPlacement: no pod is bound for a shard that claims to have placed it, but has no reservation for it. The pod
// fits nowhere, so that no honest shard places it; that its condition is written afterwards shows that the binder has
// read past the lie.
func (s *system) forgedPlacement(t *testing.T) {
	ns := "forged"
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	spec := template("victim", "100m").Spec
	spec.NodeSelector = map[string]string{"no-node": "has-this"}
	pod, err := s.client.CoreV1().Pods(ns).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim"}, Spec: spec}, metav1.CreateOptions{})
	s.must(err)
	log, err := s.openLog("scheduler")
	s.must(err)
	lie := decision(events.DecisionPlaced, events.PodRef{UID: string(pod.UID), Namespace: ns, Name: pod.Name})
	if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, lie); err != nil {
		t.Fatal(err)
	}
	s.start("scheduler", "scheduler-0")
	s.eventually(placedWithin, "the pod's condition is written", func(ctx context.Context) (string, error) {
		now, err := s.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		if now.Spec.NodeName != "" {
			return "", errors.New("the forged placement was bound to " + now.Spec.NodeName)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "0/") {
				return "", nil
			}
		}
		return "no condition", nil
	})
}
