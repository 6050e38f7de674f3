package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	client "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventstest"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// Storing an object starts a goroutine in nats.go (1.55.0, newAsyncReply) that reads the channel on which it will
// wait only once it runs. If the publisher is cleaned up before that, the channel is nil and the goroutine never
// ends. It holds nothing but itself, and there is one for some of the snapshots, minutes apart.
var leftByTheClient = goleak.IgnoreTopFunction(
	"github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")

// clientPatience is how many leak checks, of about half a second each, may pass until there are no leaks: a
// consumer that was looking for its server when its reader was closed ends with its next attempt, which is up to 10
// s away.
const clientPatience = 40

// tests waits, before the leak check, for goroutines that end by themselves.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	for range clientPatience {
		if goleak.Find(leftByTheClient) == nil {
			break
		}
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}, leftByTheClient) }

// quiet discards the log output that the tests provoke.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// targets returns what opens a log on a server of its own, whose streams have frames or not.
func targets(
	frames bool, start func(t testing.TB) (*natsServer, jetstream.Config),
) func(t *testing.T) eventstest.Target {
	return func(t *testing.T) eventstest.Target {
		n, cfg := start(t)
		cfg.Logger = quiet
		cfg.MinFrame = 1
		if !frames {
			cfg.Format = jetstream.FormatRecords
		}
		l := open(t, cfg)
		return eventstest.Target{
			Log: l, Snapshots: l, Bus: l, Close: l.Close,
			Trim:       func(t *testing.T, s eventlog.Stream, first uint64) { trim(t, n, s, first) },
			Checkpoint: func(t *testing.T) func() { return checkpoint(t, n, l) },
		}
	}
}

func overSocket(t testing.TB) (*natsServer, jetstream.Config) {
	n := newServer(t, nil)
	return n, jetstream.Config{URLs: []string{n.url()}}
}

// inProcess is without a socket, as in the all-in-one process.
func inProcess(t testing.TB) (*natsServer, jetstream.Config) {
	n := newServer(t, func(o *server.Options) { o.DontListen = true })
	return n, jetstream.Config{InProcess: provider{n}}
}

// throughAccounts is a client whose account imports what it needs of the streams.
func throughAccounts(t testing.TB) (*natsServer, jetstream.Config) {
	n := newServerApart(t)
	return n, member(n)
}

func TestContract(t *testing.T) { eventstest.Run(t, targets(false, overSocket)) }

func TestContractOfFrames(t *testing.T) { eventstest.RunFrames(t, targets(true, overSocket)) }

func TestContractInProcess(t *testing.T) { eventstest.RunFrames(t, targets(true, inProcess)) }

func TestContractThroughAccounts(t *testing.T) {
	eventstest.Run(t, targets(false, throughAccounts))
}

func TestContractOfFramesThroughAccounts(t *testing.T) {
	eventstest.RunFrames(t, targets(true, throughAccounts))
}

// TestRestart: readers and writers continue, of single records and of frames, with their own account or not.
func TestRestart(t *testing.T) {
	for name, start := range map[string]func(t testing.TB) (*natsServer, jetstream.Config){
		"socket": overSocket, "accounts": throughAccounts,
	} {
		for format, run := range map[string]func(*testing.T, eventstest.Target, func(*testing.T)){
			"frames of one": eventstest.RunRestart, "frames": eventstest.RunFramesRestart,
		} {
			t.Run(name+", "+format, func(t *testing.T) {
				n, cfg := start(t)
				cfg.Logger, cfg.MinFrame = quiet, 1
				l := open(t, cfg)
				log := eventstest.OneByOne(l)
				if format == "frames" {
					log = l
				}
				run(t, eventstest.Target{Log: log, Snapshots: l, Bus: l}, func(t *testing.T) {
					n.stop()
					n.start(t)
				})
			})
		}
	}
	t.Run("single records", func(t *testing.T) {
		n := newServer(t, nil)
		l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, Format: jetstream.FormatRecords})
		eventstest.RunRestart(t, eventstest.Target{Log: l, Snapshots: l, Bus: l}, func(t *testing.T) {
			n.stop()
			n.start(t)
		})
	})
}

// checkpoint is the server's checkpoint, and waits for the log to be connected again.
func checkpoint(t *testing.T, n *natsServer, l *jetstream.Log) func() {
	restore := n.checkpoint(t)
	awaitAnswer(t, l)
	return func() {
		restore()
		awaitAnswer(t, l)
	}
}

// answerTimeout bounds one request: the answer to a request that was sent while the connection broke never arrives.
const answerTimeout = 200 * time.Millisecond

func awaitAnswer(t *testing.T, l *jetstream.Log) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; {
		ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
		_, err := l.Last(ctx, eventlog.Facts)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not answer: %v", err)
		}
	}
}

// provider dials the server that is currently running.
type provider struct{ server *natsServer }

func (p provider) InProcessConn() (net.Conn, error) {
	if s := p.server.running.Load(); s != nil {
		return s.InProcessConn()
	}
	return nil, errors.New("no server")
}

// raw returns a separate connection for the test.
func raw(t *testing.T, n *natsServer) client.JetStream {
	t.Helper()
	var options []nats.Option
	if n.options.DontListen {
		options = append(options, nats.InProcessServer(n.running.Load()))
	}
	c, err := nats.Connect(n.url(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// trim makes the stream keep less for a moment, because the stream cannot be purged.
func trim(t *testing.T, n *natsServer, s eventlog.Stream, first uint64) {
	t.Helper()
	js := raw(t, n)
	stream, err := js.Stream(t.Context(), string(s))
	if err != nil {
		t.Fatal(err)
	}
	kept := stream.CachedInfo().Config
	less := kept
	if last := stream.CachedInfo().State.LastSeq; first > last {
		less.MaxBytes = 1
	} else {
		less.MaxMsgs = int64(last - first + 1)
	}
	for _, cfg := range []client.StreamConfig{less, kept} {
		if stream, err = js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if state := stream.CachedInfo().State; state.FirstSeq != first {
		t.Fatalf("the first record is %d, want %d", state.FirstSeq, first)
	}
}

func TestValidate(t *testing.T) {
	for want, cfg := range map[string]jetstream.Config{
		"URLs is empty":              {},
		`URLs is "nonsense"`:         {URLs: []string{"nonsense"}},
		"CertFile and KeyFile is":    {URLs: []string{"nats://a"}, CertFile: "a"},
		"CredsFile and User is":      {URLs: []string{"nats://a"}, CredsFile: "a", User: "b"},
		`InboxPrefix is "_INBOX.>"`:  {URLs: []string{"nats://a"}, InboxPrefix: "_INBOX.>"},
		"MaxAge is -1ns":             {URLs: []string{"nats://a"}, Retention: jetstream.Retention{MaxAge: -1}},
		"MaxBytes is -1":             {URLs: []string{"nats://a"}, Retention: jetstream.Retention{MaxBytes: -1}},
		"Replicas is 6, want 0 to 5": {URLs: []string{"nats://a"}, Replicas: 6},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}

func TestOpenUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = jetstream.Open(t.Context(), jetstream.Config{URLs: []string{"nats://user:secret@" + address}})
	if err == nil || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error that names %s and not the password", err, address)
	}
}

func TestOpenWithoutJetStream(t *testing.T) {
	n := newServer(t, func(o *server.Options) { o.JetStream = false })
	_, err := jetstream.Open(t.Context(), jetstream.Config{URLs: []string{n.url()}})
	if err == nil || !strings.Contains(err.Error(), "JetStream is not enabled") ||
		!strings.Contains(err.Error(), n.url()) {
		t.Errorf("got %v, want an error that says that %s has no JetStream", err, n.url())
	}
}

func TestOpenUserRefused(t *testing.T) {
	n := newServer(t, func(o *server.Options) { o.Username, o.Password = "berth", "right" })
	_, err := jetstream.Open(t.Context(), jetstream.Config{URLs: []string{n.url()}, User: "berth", Password: "wrong"})
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v, want %v", err, nats.ErrAuthorization)
	}
	open(t, jetstream.Config{URLs: []string{n.url()}, User: "berth", Password: "right"})
}

// TestServerWithALowLimit: a server that would not accept every message of the log is refused at the start, with a
// text that names the setting. A server with NATS's default limit is accepted.
func TestServerWithALowLimit(t *testing.T) {
	low := newServer(t, func(o *server.Options) { o.MaxPayload = 512 << 10 })
	_, err := jetstream.Open(t.Context(), jetstream.Config{URLs: []string{low.url()}})
	if err == nil || !strings.Contains(err.Error(), "max_payload of the server is 524288 bytes, want at least") {
		t.Errorf("got %v, want an error about max_payload", err)
	}
	usual := newServer(t, func(o *server.Options) { o.MaxPayload = server.MAX_PAYLOAD_SIZE })
	largest := eventlog.Message{Subject: "facts.pod.a", Data: make([]byte, eventlog.MaxMessage)}
	l := open(t, jetstream.Config{URLs: []string{usual.url()}})
	for _, expect := range []eventlog.Tail{{}, eventlog.AnySequence} {
		if _, err := l.Append(t.Context(), eventlog.Facts, expect, []eventlog.Message{largest}); err != nil {
			t.Errorf("the largest message is refused: %v", err)
		}
	}
}

// TestStreamWithALowLimit: max_msg_size of a stream does not restrict what the log promises to accept. If it is set
// while the log is open, the error names the message that is never accepted.
func TestStreamWithALowLimit(t *testing.T) {
	n := newServer(t, nil)
	limit := func() {
		stream, err := raw(t, n).Stream(t.Context(), string(eventlog.Decisions))
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgSize = 1000
		if _, err := raw(t, n).UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	open(t, jetstream.Config{URLs: []string{n.url()}})
	limit()
	l := open(t, jetstream.Config{URLs: []string{n.url()}})
	msgs := make([]eventlog.Message, 3)
	for i := range msgs {
		msgs[i] = eventlog.Message{Subject: "decisions.a.placed", Data: []byte("small")}
	}
	msgs[1].Data = make([]byte, 2000)
	if _, err := l.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
		t.Errorf("opened anew, the log refuses 2000 bytes: %v", err)
	}
	limit()
	last, err := l.Last(t.Context(), eventlog.Decisions)
	if err != nil {
		t.Fatal(err)
	}
	for _, expect := range []eventlog.Tail{{Sequence: last}, eventlog.AnySequence} {
		_, err := l.Append(t.Context(), eventlog.Decisions, expect, msgs)
		if refused := new(eventlog.ErrRefused); !errors.As(err, &refused) || refused.Message != 1 {
			t.Errorf("got %v, want that message 1 is refused", err)
		}
	}
}

// TestLimits: a stream gets the requested limits; an Open that requests none leaves them.
func TestLimits(t *testing.T) {
	n := newServer(t, nil)
	check := func(cfg jetstream.Config, age time.Duration, most int64) {
		t.Helper()
		cfg.URLs = []string{n.url()}
		open(t, cfg)
		for _, s := range eventlog.Streams() {
			stream, err := raw(t, n).Stream(t.Context(), string(s))
			if err != nil {
				t.Fatal(err)
			}
			got, bytes := stream.CachedInfo().Config, most
			if s == eventlog.Ledger && most == jetstream.DefaultMaxBytes {
				bytes = jetstream.DefaultLedgerBytes
			}
			if got.MaxAge != age || got.MaxBytes != bytes || got.Replicas != 1 || !got.AllowAtomicPublish || !got.DenyPurge ||
				got.MaxMsgsPerSubject != -1 || got.Storage != client.FileStorage || got.Retention != client.LimitsPolicy {
				t.Errorf("stream %s: %+v", s, got)
			}
		}
	}
	check(jetstream.Config{}, jetstream.DefaultMaxAge, jetstream.DefaultMaxBytes)
	check(jetstream.Config{Retention: jetstream.Retention{MaxAge: time.Hour, MaxBytes: 1 << 20}}, time.Hour, 1<<20)
	check(jetstream.Config{}, time.Hour, 1<<20)
	check(jetstream.Config{Retention: jetstream.Retention{MaxAge: 2 * time.Hour}}, 2*time.Hour, 1<<20)
}

// TestOverrunReader: a reader that retention has overtaken gets an error.
func TestOverrunReader(t *testing.T) {
	n := newServer(t, nil)
	bounded := jetstream.Retention{MaxBytes: 1 << 20}
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Retention: bounded, Logger: quiet})
	data := make([]byte, 10<<10)
	fill := func() {
		for i := range 300 {
			m := eventlog.Message{Subject: fmt.Sprintf("facts.pod.%d", i), Data: data}
			if _, err := l.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	stream, err := raw(t, n).Stream(t.Context(), string(eventlog.Facts))
	if err != nil {
		t.Fatal(err)
	}
	first := stream.CachedInfo().State.FirstSeq
	r, err := l.Read(t.Context(), eventlog.Facts, first)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 10 {
		fill() // far more than the reader requests in advance
	}
	next := first
	for {
		records, err := r.Next(t.Context())
		var gap *eventlog.ErrGap
		if errors.As(err, &gap) {
			if gap.Want != next || gap.Have <= next {
				t.Errorf("%v after sequence %d", err, next-1)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			if record.Sequence != next {
				t.Fatalf("sequence %d, want %d", record.Sequence, next)
			}
			next++
		}
		if next > first+3000 {
			t.Fatal("no gap, though the stream keeps a hundred records and the reader holds two thousand")
		}
	}
}

// TestSnapshotReplacedWhileItIsRead: its parts are gone. The reader gets the one that replaced it.
func TestSnapshotReplacedWhileItIsRead(t *testing.T) {
	n := newServer(t, nil)
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
	if err := l.Put(t.Context(), eventlog.Facts, 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	js := raw(t, n)
	stream, err := js.Stream(t.Context(), "OBJ_berth-snapshots")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), client.WithPurgeSubject("$O.berth-snapshots.C.>")); err != nil {
		t.Fatal(err)
	}
	asked, err := js.Conn().SubscribeSync("$JS.API.DIRECT.GET.OBJ_berth-snapshots") // requests for parts, by their subject
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	type result struct {
		data []byte
		err  error
	}
	got := make(chan result)
	go func() {
		_, data, _, err := l.Latest(t.Context(), eventlog.Facts)
		got <- result{data, err}
	}()
	if _, err := asked.NextMsg(startTimeout); err != nil { // the reader requests a part
		t.Fatal(err)
	}
	if err := l.Put(t.Context(), eventlog.Facts, 0, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.err != nil || string(r.data) != "after" {
		t.Errorf("read %q, %v", r.data, r.err)
	}
}

// TestSlowHandler: overflow is dropped and counted, and the bus continues.
func TestSlowHandler(t *testing.T) {
	n := newServer(t, nil)
	reported := 0
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, OnDropped: func(n int) { reported += n }})
	block, last := make(chan struct{}), make(chan struct{}, 1)
	handled := 0
	_, err := l.Subscribe("work.request", func(data []byte) {
		<-block
		handled++
		if string(data) == "last" {
			select {
			case last <- struct{}{}:
			default: // it is sent until one arrives, and several may
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	const sent = 3 * 4096
	for range sent {
		if err := l.Publish("work.request", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	// A subscription made after the messages shows that all of them have been processed.
	if _, err := l.Subscribe("other", func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	close(block)
	for done := false; !done; {
		if err := l.Publish("work.request", []byte("last")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-last:
			done = true
		case <-time.After(10 * time.Millisecond): // it was dropped too: try again
		}
	}
	if dropped := l.Dropped(); dropped == 0 || dropped >= sent {
		t.Errorf("%d of %d messages dropped", dropped, sent)
	}
}

// TestTheBusTakesWhatIsPublished: a client that may only read a stream requests a record of it, and names a subject
// of the bus for the answer. NATS does not check where answers are sent; no handler may mistake one for a message.
func TestTheBusTakesWhatIsPublished(t *testing.T) {
	n := newServer(t, nil)
	l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
	got := make(chan string, 16)
	if _, err := l.Subscribe("work.offers.s0", func(data []byte) { got <- string(data) }); err != nil {
		t.Fatal(err)
	}
	header := eventlog.Header{{Key: "a", Value: "b"}}
	forged := eventlog.Message{Subject: "decisions.0.bound", Header: header, Data: []byte("forged")}
	if _, err := l.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{forged}); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(n.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := c.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	stream := string(eventlog.Decisions)
	pull := &nats.ConsumerConfig{Name: "pull", AckPolicy: nats.AckNonePolicy}
	if _, err := js.AddConsumer(stream, pull); err != nil {
		t.Fatal(err)
	}
	if err := c.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+".pull", "work.offers.s0", nil); err != nil {
		t.Fatal(err)
	}
	push := &nats.ConsumerConfig{Name: "push", AckPolicy: nats.AckNonePolicy, DeliverSubject: "work.offers.s0"}
	if _, err := js.AddConsumer(stream, push); err != nil {
		t.Fatal(err)
	}
	// Both have delivered before this is published.
	for _, name := range []string{"pull", "push"} {
		for delivered := uint64(0); delivered == 0; {
			info, err := js.ConsumerInfo(stream, name)
			if err != nil {
				t.Fatal(err)
			}
			delivered = info.Delivered.Stream
		}
	}
	if err := l.Publish("work.offers.s0", []byte("published")); err != nil {
		t.Fatal(err)
	}
	if first := <-got; first != "published" {
		t.Errorf("the handler got %q", first)
	}
}

// TestAnAnswerThatIsStoredIsNotRead: an administrator, or any user of a server whose users share one account, makes
// the server answer a request for a record under a subject of a stream, which stores the answer. Readers and
// queries get none of its contents.
func TestAnAnswerThatIsStoredIsNotRead(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%t", direct), func(t *testing.T) {
			n := newServer(t, nil)
			js := raw(t, n)
			open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
			for _, s := range eventlog.Streams() {
				stream, err := js.Stream(t.Context(), string(s))
				if err != nil {
					t.Fatal(err)
				}
				cfg := stream.CachedInfo().Config
				cfg.AllowDirect = direct || s == eventlog.Decisions
				if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			l := open(t, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
			header := eventlog.Header{{Key: "a", Value: "b"}}
			msg := eventlog.Message{Subject: "decisions.0.bound", Header: header, Data: []byte("forged")}
			if _, err := l.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{msg}); err != nil {
				t.Fatal(err)
			}
			const forged = "facts.node.0.1"
			if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET.DECISIONS", forged, []byte(`{"seq":1}`)); err != nil {
				t.Fatal(err)
			}
			r, err := l.Read(t.Context(), eventlog.Facts, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			read, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found, err := l.About(t.Context(), eventlog.Facts, eventlog.Query{Filter: forged}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(read) != 1 || read[0].Subject != forged {
				t.Errorf("read %v, want one record", read)
			}
			for _, r := range append(read, found...) {
				if len(r.Header)+len(r.Data) > 0 {
					t.Errorf("got %v, want a record without contents", r)
				}
			}
			whole, err := l.About(t.Context(), eventlog.Decisions, eventlog.Query{Filter: msg.Subject}, 0)
			if err != nil || len(whole) != 1 || string(whole[0].Data) != "forged" || whole[0].Header.Get("a") != "b" {
				t.Errorf("got %v, %v, want the record that was appended", whole, err)
			}
		})
	}
}

func BenchmarkLog(b *testing.B) {
	for _, always := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync_always=%t", always), func(b *testing.B) {
			eventstest.Bench(b, func(b *testing.B) eventlog.Log {
				n := newServer(b, func(o *server.Options) { o.SyncAlways = always })
				return open(b, jetstream.Config{URLs: []string{n.url()}, Logger: quiet})
			})
		})
	}
	b.Run("single_records", func(b *testing.B) {
		eventstest.Bench(b, func(b *testing.B) eventlog.Log {
			n := newServer(b, nil)
			return open(b, jetstream.Config{URLs: []string{n.url()}, Logger: quiet, Format: jetstream.FormatRecords})
		})
	})
}

// BenchmarkMany fails if an append of many facts costs much more than one of a single fact.
func BenchmarkMany(b *testing.B) {
	n := newServer(b, nil)
	eventstest.BenchMany(b, open(b, jetstream.Config{URLs: []string{n.url()}, Logger: quiet}))
}
