//go:build e2e

package deploy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// snapshotStream keeps the snapshots.
const snapshotStream = "OBJ_berth-snapshots"

// answered is a subject on which an attacker has NATS answer him.
type answered struct {
	subject string
	// body is the content that the answer needs in order to do harm, if it needs any.
	body string
	// by are those that may publish there anyway, and a service that would only receive its own messages.
	by []string
}

// victims are subjects where an answer does harm.
var victims = []answered{
	{subject: "$JS.API.STREAM.UPDATE.FACTS", body: `{"name":"FACTS","subjects":["facts.>"],"storage":"file",` +
		`"num_replicas":3,"max_msgs":1,"max_bytes":1048576,"deny_delete":true,"allow_atomic":true}`, by: []string{"queue"}},
	{subject: "$JS.API.STREAM.CREATE.forged", body: `{"name":"forged","subjects":["forged.>"],"storage":"file"}`,
		by: []string{"queue"}},
	{subject: "facts.node.forged.1", body: "forged", by: []string{"queue"}},
	{subject: "ledger.forged", body: "forged", by: []string{"queue"}},
	{subject: "decisions.forged.placed", body: "forged", by: []string{"scheduler"}},
	{subject: "decisions.forged.bound", body: "forged", by: []string{"binder"}},
	{subject: "$O.berth-snapshots.M.forged", body: "forged", by: []string{"queue"}},
	{subject: "work.request", body: "forged", by: []string{"scheduler", "queue"}},
	{subject: "_INBOX.berth-queue.forged.1", body: "forged", by: []string{"queue"}},
	{subject: "$JS.API.STREAM.PURGE.FACTS"},
	{subject: "$JS.API.STREAM.DELETE.LEDGER"},
	{subject: "$JS.API.STREAM.DELETE.FACTS"},
}

// ownDecisions are subjects of decisions that each service may write.
var ownDecisions = map[string]string{
	"queue": "decisions.attack.quarantined", "scheduler": "decisions.attack.failed",
	"binder": "decisions.attack.released", "descheduler": "decisions.attack.returned",
}

// attacker has NATS answer, with the rights of one service, on subjects that are not the service's.
type attacker struct {
	*system
	t  *testing.T
	as string
	c  *nats.Conn
	js nats.JetStreamContext
}

// consumer makes one that delivers on request, or to a subject if that is given.
func (a *attacker) consumer(stream, name, deliver string, from uint64) {
	cfg := &nats.ConsumerConfig{
		Name: name, AckPolicy: nats.AckNonePolicy, DeliverSubject: deliver, InactiveThreshold: time.Minute,
		DeliverPolicy: nats.DeliverByStartSequencePolicy, OptStartSeq: from,
	}
	if _, err := a.js.AddConsumer(stream, cfg); err != nil {
		a.t.Logf("the %s makes a consumer of %s: %v", a.as, stream, err)
	}
}

// request publishes a request and names the subject for the answer.
func (a *attacker) request(request, answer string, data []byte) {
	a.must(a.c.PublishRequest(request, answer, data))
}

// record stores a body in the log where the service may.
func (a *attacker) record(body string) (sequence uint64) {
	subject := ownDecisions[a.as]
	if subject == "" {
		return 1 // any record
	}
	ack, err := a.js.Publish(subject, []byte(body))
	if err != nil {
		a.t.Fatal(a.as, err)
	}
	return ack.Sequence
}

// forgeAnswers has each kind of answer come on a subject.
func (a *attacker) forgeAnswers(n int, v answered) {
	const decisions, next, direct = string(eventlog.Decisions), "$JS.API.CONSUMER.MSG.NEXT.", "$JS.API.DIRECT.GET."
	name := fmt.Sprintf("attack-%s-%d", a.as, n)
	sequence := a.record(v.body)
	a.consumer(string(eventlog.Ledger), name, "", 1)
	a.request(next+string(eventlog.Ledger)+"."+name, v.subject, []byte(`{"batch":1,"no_wait":true}`))
	a.request(next+string(eventlog.Ledger)+"."+name, v.subject, []byte("no JSON"))
	a.request(direct+snapshotStream, v.subject, []byte(`{"seq":1000000000000}`))
	a.request("$JS.API.STREAM.INFO.FACTS", v.subject, nil)
	a.request("$JS.API.STREAM.MSG.GET."+decisions, v.subject, fmt.Appendf(nil, `{"seq":%d}`, sequence))
	if own := ownDecisions[a.as]; own != "" {
		a.request(own, v.subject, []byte(v.body))
	}
	// A record as it is, and as the snapshots' stream has it then: from there NATS answers under any subject.
	a.consumer(decisions, name, "", sequence)
	a.request(next+decisions+"."+name, v.subject, nil)
	a.consumer(decisions, name+"-planted", "", sequence)
	a.request(next+decisions+"."+name+"-planted", "$O.berth-snapshots.M.planted", nil)
	a.must(a.c.FlushTimeout(refusedWithin))
	a.request(direct+snapshotStream, v.subject, fmt.Appendf(nil, `{"last_by_subj":%q}`, ownDecisions[a.as]))
	a.consumer(decisions, name+"-pushed", v.subject, sequence)
	// NATS reports the way of a message to a subject that the message names.
	m := &nats.Msg{Subject: "$JS.API.INFO", Header: nats.Header{"Nats-Trace-Dest": {v.subject}}}
	a.must(a.c.PublishMsg(m))
}

// foreignAnswers: NATS checks the subject that a client publishes to, and not the one where it wants the answer. A
// service that sends an allowed request, and names for the answer a subject that it may not publish to, does no harm.
func (s *system) foreignAnswers(t *testing.T) {
	root := s.natsClient(t, "root")
	js, err := root.JetStream()
	s.must(err)
	facts, err := js.StreamInfo(string(eventlog.Facts))
	s.must(err)
	requests, err := s.natsClient(t, "queue").SubscribeSync("work.request") // no shard runs
	s.must(err)
	for _, as := range readers {
		undone := t.Run(as, func(t *testing.T) {
			a := &attacker{system: s, t: t, as: as, c: s.natsClient(t, as)}
			var err error
			a.js, err = a.c.JetStream()
			s.must(err)
			for n, v := range victims {
				if !slices.Contains(v.by, as) {
					a.forgeAnswers(n, v)
				}
			}
			s.must(a.c.FlushTimeout(refusedWithin))
			for end := time.Now().Add(refusedWithin); time.Now().Before(end); {
				if done := changedState(js, facts, requests); done != "" {
					t.Fatalf("the %s has NATS answer where it may not publish: %s", as, done)
				}
			}
		})
		if !undone {
			return // there may be no streams any more
		}
	}
}

// changedState names the state that has changed.
func changedState(js nats.JetStreamContext, before *nats.StreamInfo, requests *nats.Subscription) string {
	var all []string
	streams := []string{snapshotStream}
	for _, name := range eventlog.Streams() {
		streams = append(streams, string(name))
	}
	for _, stream := range streams {
		now, err := js.StreamInfo(stream, &nats.StreamInfoRequest{SubjectsFilter: ">"})
		if err != nil {
			all = append(all, fmt.Sprintf("stream %s: %v", stream, err))
			continue
		}
		for subject := range now.State.Subjects {
			if strings.Contains(subject, "forged") || strings.Contains(subject, "planted") ||
				strings.Contains(subject, "attack") && stream != string(eventlog.Decisions) {
				all = append(all, fmt.Sprintf("stream %s has a record %s", stream, subject))
			}
		}
		if stream == before.Config.Name && (now.State.FirstSeq > before.State.FirstSeq ||
			now.Config.MaxMsgs != before.Config.MaxMsgs || !now.Created.Equal(before.Created)) {
			raw, _ := json.Marshal(now) // only shown
			all = append(all, fmt.Sprintf("stream %s is another: %s", stream, raw))
		}
	}
	if _, err := js.StreamInfo("forged"); err == nil {
		all = append(all, "there is a stream forged")
	}
	if n, _, err := requests.Pending(); err != nil || n > 0 {
		all = append(all, fmt.Sprintf("%d requests for work: %v", n, err))
	}
	return strings.Join(all, "\n")
}
