//go:build e2e

package deploy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// services are those whose certificate may be stolen.
var services = []string{"queue", "scheduler", "binder", "descheduler"}

// subjectsOf are the subjects of Berth, each with the services that publish to it. It is written by hand, from what each
// service is for; subjects that nobody may publish to are those of operators, and those that change the server.
var subjectsOf = map[string][]string{
	"facts.pod.x.1": {"queue"}, "facts.node.x.1": {"queue"},
	"ledger.changes": {"queue"}, "ledger.picture": {"queue"},
	"decisions.x.ungate": {"queue"}, "decisions.x.quarantined": {"queue"},
	"decisions.x.placed": {"scheduler"}, "decisions.x.nominated": {"scheduler"}, "decisions.x.withdrawn": {"scheduler"},
	"decisions.x.unplaceable": {"scheduler"}, "decisions.x.failed": {"scheduler"}, "decisions.x.lost": {"scheduler"},
	"decisions.x.held-back": {"scheduler"},
	"decisions.x.bound":     {"binder"}, "decisions.x.released": {"binder"}, "decisions.x.condition": {"binder"},
	"decisions.x.evicted": {"binder"}, "decisions.x.evict-refused": {"binder"}, "decisions.x.rejected": {"binder"},
	"decisions.x.fence-refused": {"binder"},
	"decisions.x.evict":         {"descheduler"}, "decisions.x.returned": {"descheduler"},
	"decisions.x.unheard-of": nil,
	"work.offers.x":          {"queue"}, "work.request": {"scheduler"}, "shards.turns": {"scheduler"},
	"answers.x": {"queue", "scheduler"}, "ask.queue": nil, "ask.shards": nil,
	"$O.berth-snapshots.C.x": {"queue"}, "$O.other.C.x": nil,
	"$JS.API.STREAM.CREATE.x": {"queue"}, "$JS.API.STREAM.UPDATE.x": {"queue"},
	"$JS.API.STREAM.PURGE.OBJ_berth-snapshots": {"queue"}, "$JS.API.STREAM.PURGE.FACTS": nil,
	"$JS.API.STREAM.DELETE.x": nil, "$JS.API.STREAM.MSG.DELETE.x": nil, "$JS.API.STREAM.SNAPSHOT.x": nil,
	"$JS.API.STREAM.RESTORE.x": nil, "$JS.API.STREAM.LEADER.STEPDOWN.x": nil, "$JS.API.STREAM.PEER.REMOVE.x": nil,
	"$JS.API.META.LEADER.STEPDOWN": nil, "$JS.API.SERVER.REMOVE": nil, "$JS.API.ACCOUNT.PURGE.x": nil,
	"$JS.API.CONSUMER.DURABLE.CREATE.x.y": nil, "$JS.API.CONSUMER.LEADER.STEPDOWN.x.y": nil,
	"$JS.API.STREAM.INFO.x": services, "$JS.API.CONSUMER.CREATE.x.y": services, "$JS.API.CONSUMER.MSG.NEXT.x.y": services,
	"$SYS.REQ.SERVER.PING": nil, "$SYS.REQ.USER.INFO": nil, "_INBOX.x": nil, "x": nil,
}

// heardBy are subjects with the services that subscribe to them.
var heardBy = map[string][]string{
	"work.request": {"queue"}, "ask.queue": {"queue"}, "work.offers.x": {"scheduler"}, "shards.turns": {"scheduler"},
	"ask.shards": {"scheduler"}, "answers.x": nil, "facts.>": nil, "decisions.>": nil, "ledger.>": nil, "work.>": nil,
	"$JS.>": nil, "$SYS.>": nil, "$O.>": nil, ">": nil,
}

// client connects as a service, with nothing of Berth between.
func (s *system) natsClient(t *testing.T, as string) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(s.stores.natsURLs()[0], nats.Secure(s.identity(as)),
		nats.CustomInboxPrefix("_INBOX.berth-"+as), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(as, err)
	}
	t.Cleanup(c.Close)
	return c
}

// denied reports whether the server refused what was sent before.
func denied(t *testing.T, c *nats.Conn) bool {
	t.Helper()
	if err := c.FlushTimeout(refusedWithin); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	return errors.Is(c.LastError(), nats.ErrPermissionViolation) ||
		c.LastError() != nil && strings.Contains(strings.ToLower(c.LastError().Error()), "permissions violation")
}

// foreignSubjects tries every subject as every service. Nothing is stored: the append expects a sequence that no stream
// has.
func (s *system) foreignSubjects(t *testing.T) {
	for _, as := range services {
		for subject, by := range subjectsOf {
			c := s.natsClient(t, as)
			m := &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Expected-Last-Sequence": {"1000000000000"}}}
			if err := c.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
			if got, want := !denied(t, c), slices.Contains(by, as); got != want {
				t.Errorf("the %s may publish to %s: %t, want %t", as, subject, got, want)
			}
			c.Close()
		}
	}
}

// foreignInboxes tries to hear what is for others, answers of the server to other services among them.
func (s *system) foreignInboxes(t *testing.T) {
	heard := map[string][]string{"_INBOX.>": nil, "_INBOX.x": nil}
	for subject, by := range heardBy {
		heard[subject] = by
	}
	for _, service := range services {
		heard["_INBOX.berth-"+service+".>"] = []string{service}
	}
	for _, as := range services {
		for subject, by := range heard {
			c := s.natsClient(t, as)
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			if got, want := !denied(t, c), slices.Contains(by, as); got != want {
				t.Errorf("the %s may subscribe to %s: %t, want %t", as, subject, got, want)
			}
			c.Close()
		}
	}
}
