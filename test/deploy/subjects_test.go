//go:build e2e

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// services are those whose certificate may be stolen.
var services = []string{"queue", "scheduler", "binder", "descheduler"}

// readers are all whose certificate reads the log: the services, and the operators' observer.
var readers = append(slices.Clone(services), "observer")

// subjectsOf are the subjects of Berth, each with the services that publish to it. It is written by hand, from the
// purpose of each service; subjects without a publisher are those of operators, and those that change the server.
var subjectsOf = map[string][]string{
	"facts.pod.x.1": {"queue"}, "facts.node.x.1": {"queue"},
	"ledger.changes": {"queue"}, "ledger.picture": {"queue"},
	"decisions.x.ungate": {"queue"}, "decisions.x.quarantined": {"queue"},
	"decisions.x.placed": {"scheduler"}, "decisions.x.nominated": {"scheduler"}, "decisions.x.withdrawn": {"scheduler"},
	"decisions.x.unplaceable": {"scheduler"}, "decisions.x.failed": {"scheduler"}, "decisions.x.lost": {"scheduler"},
	"decisions.x.held-back": {"scheduler"},
	"decisions.x.bound":     {"binder"}, "decisions.x.released": {"binder"}, "decisions.x.condition": {"binder"},
	"decisions.x.evicted": {"binder"}, "decisions.x.evict-refused": {"binder"}, "decisions.x.rejected": {"binder"},
	"decisions.x.fence-refused": {"binder"}, "decisions.x.evict-background": {"binder"},
	"decisions.x.evict": {"descheduler"}, "decisions.x.returned": {"descheduler"},
	"decisions.x.unheard-of": nil,
	"work.offers.x":          {"queue"}, "work.request": {"scheduler"}, "shards.turns": {"scheduler"},
	"answers.x": {"queue", "scheduler"}, "ask.queue": {"observer"}, "ask.shards": {"observer"},
	"$O.berth-snapshots.C.x": {"queue"}, "$O.other.C.x": nil,
	"$JS.API.STREAM.CREATE.x": {"queue"}, "$JS.API.STREAM.UPDATE.x": {"queue"},
	"$JS.API.STREAM.PURGE.OBJ_berth-snapshots": {"queue"}, "$JS.API.STREAM.PURGE.FACTS": nil,
	"$JS.API.STREAM.DELETE.x": nil, "$JS.API.STREAM.MSG.DELETE.x": nil, "$JS.API.STREAM.SNAPSHOT.x": nil,
	"$JS.API.STREAM.RESTORE.x": nil, "$JS.API.STREAM.LEADER.STEPDOWN.x": nil, "$JS.API.STREAM.PEER.REMOVE.x": nil,
	"$JS.API.META.LEADER.STEPDOWN": nil, "$JS.API.SERVER.REMOVE": nil, "$JS.API.ACCOUNT.PURGE.x": nil,
	"$JS.API.CONSUMER.DURABLE.CREATE.x.y": nil, "$JS.API.CONSUMER.LEADER.STEPDOWN.x.y": nil,
	"$JS.API.STREAM.INFO.x": readers, "$JS.API.CONSUMER.CREATE.x.y": readers, "$JS.API.CONSUMER.MSG.NEXT.x.y": readers,
	"$JS.ACK.x": nil, "$JS.FC.x": nil, "$SYS.REQ.SERVER.PING": nil, "$SYS.REQ.USER.INFO": nil, "_INBOX.x": nil, "x": nil,
}

// subscribers are subjects with the services that subscribe to them.
var subscribers = map[string][]string{
	"work.request": {"queue"}, "ask.queue": {"queue"}, "work.offers.x": {"scheduler"}, "shards.turns": {"scheduler"},
	"ask.shards": {"scheduler"}, "answers.x": {"observer"},
	"facts.>": nil, "decisions.>": nil, "ledger.>": nil, "work.>": nil, "$JS.>": nil, "$SYS.>": nil, "$O.>": nil, ">": nil,
}

// natsClient connects as a service, with nothing of Berth between.
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

// denied reports whether the server refused the previous message.
func denied(t *testing.T, c *nats.Conn) bool {
	t.Helper()
	if err := c.FlushTimeout(refusedWithin); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	return errors.Is(c.LastError(), nats.ErrPermissionViolation) ||
		c.LastError() != nil && strings.Contains(strings.ToLower(c.LastError().Error()), "permissions violation")
}

// foreignSubjects tries every subject with every certificate that reads the log. Nothing is stored: the append expects
// a sequence that no stream has.
func (s *system) foreignSubjects(t *testing.T) {
	for _, as := range readers {
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

// forgedFact: the administrator writes a decision with the header of a fact, and makes the server deliver it to a
// subject of the facts, where the stream stores it; no service gets that far (see foreignAnswers). No shard takes it
// for a fact: its node does not exist for any shard.
func (s *system) forgedFact(t *testing.T) {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "forged", UID: "forged", Labels: map[string]string{"forged": "true"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	raw, err := node.Marshal()
	s.must(err)
	fact := events.EncodeFact(events.Fact{
		Kind: events.KindNode, Op: events.OpUpsert, UID: "forged", Name: "forged", ResourceVersion: 1 << 40, Object: raw,
	})
	c := s.natsClient(t, "root")
	js, err := c.JetStream()
	s.must(err)
	header := nats.Header{}
	for _, field := range fact.Header {
		header[field.Key] = []string{field.Value}
	}
	stored, err := js.PublishMsg(&nats.Msg{Subject: "decisions.0.bound", Header: header, Data: fact.Data})
	s.must(err)
	_, err = js.AddConsumer(stored.Stream, &nats.ConsumerConfig{
		Name: "forger", AckPolicy: nats.AckNonePolicy,
		DeliverPolicy: nats.DeliverByStartSequencePolicy, OptStartSeq: stored.Sequence,
	})
	s.must(err)
	before, err := js.StreamInfo(string(eventlog.Facts))
	s.must(err)
	s.must(c.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stored.Stream+".forger", fact.Subject, nil))
	s.eventually(placedWithin, "the stream of facts has the forged record", func(context.Context) (string, error) {
		now, err := js.StreamInfo(string(eventlog.Facts))
		if err != nil || now.State.LastSeq > before.State.LastSeq {
			return "", err
		}
		return "it ends as before", nil
	})
	shard := s.start("scheduler", "scheduler-forged")
	ns := "forged-fact"
	s.create(&corev1.Namespace{ObjectMeta: named(ns)})
	spec := template("dupe", "100m").Spec
	spec.NodeSelector = map[string]string{"forged": "true"}
	dupe, err := s.client.CoreV1().Pods(ns).Create(t.Context(),
		&corev1.Pod{ObjectMeta: named("dupe"), Spec: spec}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.CoreV1().Pods(ns).Create(t.Context(),
		&corev1.Pod{ObjectMeta: named("plain"), Spec: template("plain", "100m").Spec}, metav1.CreateOptions{})
	s.must(err)
	s.bound(ns, 1, placedWithin)
	s.eventually(placedWithin, "the pod for the forged node has a condition", func(ctx context.Context) (string, error) {
		now, err := s.client.CoreV1().Pods(ns).Get(ctx, dupe.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "0/60 nodes") {
				return "", nil
			}
		}
		return fmt.Sprintf("bound to %q, conditions %v", now.Spec.NodeName, now.Status.Conditions), nil
	})
	s.must(shard.Stop(t.Context()))
}

// foreignInboxes tries to receive messages for others, answers of the server to other services among them.
func (s *system) foreignInboxes(t *testing.T) {
	allowed := map[string][]string{"_INBOX.>": nil, "_INBOX.x": nil}
	for subject, by := range subscribers {
		allowed[subject] = by
	}
	for _, service := range readers {
		allowed["_INBOX.berth-"+service+".>"] = []string{service}
	}
	for _, as := range readers {
		for subject, by := range allowed {
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
