package events_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// allKinds and allDecisionKinds are the constants found in the source.
var (
	allKinds         = constants("fact.go", "Kind")
	allDecisionKinds = constants("decision.go", "DecisionKind")
)

// constants returns the values of all string constants of a type, so that a constant that was added but is missing
// in the closed set is found.
func constants(file, typeName string) []string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		panic(err)
	}
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				panic(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

func TestKindsAreComplete(t *testing.T) {
	if len(allKinds) == 0 || len(allDecisionKinds) == 0 {
		t.Fatal("no constants found in the source")
	}
	for _, kind := range allKinds {
		f := events.Fact{Kind: events.Kind(kind), Op: events.OpProgress, Progress: 1}
		if _, err := events.DecodeFact(eventlog.Record{Message: events.EncodeFact(f), Sequence: 1}); err != nil {
			t.Error(err)
		}
	}
	for _, kind := range allDecisionKinds {
		d := events.Decision{Kind: events.DecisionKind(kind), Pod: events.PodRef{UID: "a"}}
		if _, err := events.DecodeDecision(eventlog.Record{Message: events.EncodeDecision(d), Sequence: 1}); err != nil {
			t.Error(err)
		}
	}
}

// text draws any string, with a preference for characters that are difficult for headers and subjects.
var text = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ %.*>\r\n\x00a-f0-9ü]{0,8}`),
	rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }))

// Valid draws text that protobuf carries unchanged.
var Valid = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~ü]{0,8}`)).Filter(utf8.ValidString)

var nonEmptyText = text.Filter(func(s string) bool { return s != "" })

func drawFact(t *rapid.T) events.Fact {
	f := events.Fact{
		Kind:            events.Kind(rapid.SampledFrom(allKinds).Draw(t, "kind")),
		Op:              events.Op(rapid.IntRange(1, 5).Draw(t, "op")),
		Namespace:       text.Draw(t, "namespace"),
		Name:            text.Draw(t, "name"),
		ResourceVersion: rapid.Uint64().Draw(t, "resourceVersion"),
		Progress:        rapid.Uint64().Draw(t, "progress"),
		Epoch:           rapid.Uint64().Draw(t, "epoch"),
		Cause:           text.Draw(t, "cause"),
		TraceParent:     text.Draw(t, "traceParent"),
	}
	switch f.Op {
	case events.OpUpsert:
		f.Object = rapid.SliceOf(rapid.Byte()).Draw(t, "object")
		f.UID = nonEmptyText.Draw(t, "uid")
	case events.OpDelete:
		f.UID = nonEmptyText.Draw(t, "uid")
	case events.OpEpochBegin, events.OpEpochEnd:
		if rapid.Bool().Draw(t, "all kinds") {
			f.Kind = ""
		}
	}
	return f
}

func TestFactRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFact(t)
		m := events.EncodeFact(f)
		if err := events.CheckAppend(eventlog.Facts, []eventlog.Message{m}); err != nil {
			t.Fatal(err)
		}
		checkHeader(t, m.Header)
		sequence := rapid.Uint64().Draw(t, "sequence")
		got, err := events.DecodeFact(eventlog.Record{Message: m, Sequence: sequence})
		if err != nil {
			t.Fatal(err)
		}
		want := events.SequencedFact{Sequence: sequence, Fact: f}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// checkHeader checks that NATS carries a header unchanged.
func checkHeader(t *rapid.T, h eventlog.Header) {
	for _, field := range h {
		key, value := field.Key, field.Value
		if key != strings.ToLower(key) || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("header %q: %q", key, value)
		}
	}
}

func drawDecision(t *rapid.T) events.Decision {
	return events.Decision{
		Kind: events.DecisionKind(rapid.SampledFrom(allDecisionKinds).Draw(t, "kind")),
		Pod: events.PodRef{
			UID: nonEmptyText.Draw(t, "uid"), Namespace: text.Draw(t, "ns"), Name: text.Draw(t, "name"),
		},
		SchedulerName:      Valid.Draw(t, "schedulerName"),
		Actor:              Valid.Draw(t, "actor"),
		Attempt:            rapid.Int32().Draw(t, "attempt"),
		Token:              Valid.Draw(t, "token"),
		FactSequence:       rapid.Uint64().Draw(t, "factSequence"),
		LedgerRevision:     rapid.Int64().Draw(t, "ledgerRevision"),
		PodResourceVersion: rapid.Uint64().Draw(t, "podResourceVersion"),
		NodeUID:            Valid.Draw(t, "nodeUID"),
		NodeName:           Valid.Draw(t, "nodeName"),
		Message:            Valid.Draw(t, "message"),
		Plugins:            rapid.SliceOf(Valid).Draw(t, "plugins"),
		Reasons:            rapid.MapOf(Valid, rapid.Int32()).Draw(t, "reasons"),
		RetryAfter:         time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "retryAfterMillis")) * time.Millisecond,
		NodesTotal:         rapid.Int32().Draw(t, "nodesTotal"),
		NodesFeasible:      rapid.Int32().Draw(t, "nodesFeasible"),
		Seed:               rapid.Uint64().Draw(t, "seed"),
		Strategy:           Valid.Draw(t, "strategy"),
		TraceParent:        text.Draw(t, "traceParent"),
		Evidence:           rapid.Ptr(rapid.Custom(drawEvidence), true).Draw(t, "evidence"),
	}
}

func drawEvidence(t *rapid.T) evidence.Evidence {
	micros := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "micros")) * time.Microsecond
	})
	return evidence.Evidence{
		Config:         rapid.Uint64().Draw(t, "config"),
		Class:          rapid.Uint64().Draw(t, "class"),
		LedgerRevision: rapid.Int64().Draw(t, "revision"),
		Order:          rapid.Uint64().Draw(t, "order"),
		Staged:         rapid.SliceOf(rapid.Uint64()).Draw(t, "staged"),
		Home:           rapid.Bool().Draw(t, "home"),
		Stale:          rapid.Int32().Draw(t, "behind"),
		Rejected:       rapid.MapOf(Valid, rapid.Int32()).Draw(t, "rejected"),
		ScoredBy:       rapid.SliceOf(Valid).Draw(t, "scoredBy"),
		Candidates: rapid.SliceOf(rapid.Custom(func(t *rapid.T) evidence.Candidate {
			return evidence.Candidate{
				Node: Valid.Draw(t, "node"), Total: rapid.Int64().Draw(t, "total"),
				Points: rapid.SliceOf(rapid.Int64()).Draw(t, "points"),
			}
		})).Draw(t, "candidates"),
		Cause:  Valid.Draw(t, "cause"),
		Waited: micros.Draw(t, "waited"), Considered: micros.Draw(t, "considered"), Reserved: micros.Draw(t, "reserved"),
		Basis: drawBasis(t),
	}
}

func drawBasis(t *rapid.T) evidence.Basis {
	names := rapid.SliceOf(Valid)
	if rapid.Bool().Draw(t, "no basis") {
		return evidence.Basis{}
	}
	return evidence.Basis{
		LookNumber: rapid.Uint64Min(1).Draw(t, "moment"), FactEpoch: rapid.Uint64().Draw(t, "epoch"),
		Learned: rapid.SliceOf(rapid.Custom(func(t *rapid.T) evidence.Learned {
			return evidence.Learned{Revision: rapid.Int64().Draw(t, "learned"), Key: Valid.Draw(t, "key")}
		})).Draw(t, "learned"),
		LeftAlone: names.Draw(t, "left"), Avoided: names.Draw(t, "avoided"), Unlisted: rapid.Bool().Draw(t, "unlisted"),
		Preferred: Valid.Draw(t, "preferred"), Start: rapid.Int32().Draw(t, "start"),
		HomeStart: rapid.Int32().Draw(t, "homeStart"), Alternative: rapid.Int32().Draw(t, "alternative"),
		Way: evidence.Way(rapid.Uint8().Draw(t, "way")), NoHomePreference: rapid.Bool().Draw(t, "whole"),
		Spared: names.Draw(t, "spared"), Nominations: rapid.Bool().Draw(t, "nominations"),
	}
}

func TestDecisionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDecision(t)
		m := events.EncodeDecision(d)
		if err := events.CheckAppend(eventlog.Decisions, []eventlog.Message{m}); err != nil {
			t.Fatal(err)
		}
		checkHeader(t, m.Header)
		if diff := cmp.Diff(m, events.EncodeDecision(d)); diff != "" {
			t.Fatalf("two encodings differ: %s", diff)
		}
		got, err := events.DecodeDecision(eventlog.Record{Message: m, Sequence: 7})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events.SequencedDecision{Sequence: 7, Decision: d}, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		outcome, err := events.DecodeOutcome(eventlog.Record{Message: m, Sequence: 7})
		if err != nil {
			t.Fatal(err)
		}
		d.Evidence = nil
		if diff := cmp.Diff(events.SequencedDecision{Sequence: 7, Decision: d}, outcome, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestLargeDecisionsFitAMessage: a pod that names thousands of resources has a reason for each, and its decision is
// written all the same; what is left out is counted.
func TestLargeDecisionsFitAMessage(t *testing.T) {
	d := events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "a"}, Reasons: map[string]int32{},
		Message: "0/3 nodes are available: " + strings.Repeat("é", eventlog.MaxMessage),
		Evidence: &evidence.Evidence{Cause: "wake", Basis: evidence.Basis{
			LookNumber: 1, LeftAlone: []string{strings.Repeat("n", eventlog.MaxMessage)},
		}},
	}
	for i := range 20_000 {
		d.Reasons[fmt.Sprintf("Insufficient a.b/%05d%s", i, strings.Repeat("x", i%3*1000))] = 3
	}
	m := events.EncodeDecision(d)
	if err := events.CheckAppend(eventlog.Decisions, []eventlog.Message{m}); err != nil {
		t.Fatal(err)
	}
	got, err := events.DecodeDecision(eventlog.Record{Message: m, Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	kept, left, found := strings.Cut(got.Message, "… (")
	if want := fmt.Sprintf("%d more bytes left out)", len(d.Message)-len(kept)); !found || left != want {
		t.Errorf("the message ends in %q, want %q", left, want)
	}
	if !strings.HasPrefix(d.Message, kept) || len(got.Message) > events.MaxText {
		t.Errorf("the message has %d bytes, or does not begin as it did", len(got.Message))
	}
	nodes := int32(0)
	for _, n := range got.Reasons {
		nodes += n
	}
	if len(got.Reasons) > 5000 || nodes != 60_000 {
		t.Errorf("%d reasons for %d nodes together, want fewer, for 60000", len(got.Reasons), nodes)
	}
	if rest := fmt.Sprintf("%d more reasons left out", 20_001-len(got.Reasons)); got.Reasons[rest] == 0 {
		t.Errorf("no reason says %q", rest)
	}
	if got.Evidence == nil || got.Evidence.Cause != "wake" || got.Evidence.Basis.LookNumber != 0 {
		t.Errorf("the evidence is %v, want it without its basis", got.Evidence)
	}
	again, err := events.DecodeDecision(eventlog.Record{Message: events.EncodeDecision(got.Decision), Sequence: 1})
	if diff := cmp.Diff(got, again); err != nil || diff != "" {
		t.Errorf("encoded again it differs: %v %s", err, diff)
	}
}

// TestDecisionRepairsText: text that is not UTF-8 is repaired, not lost.
func TestDecisionRepairsText(t *testing.T) {
	d := events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "a"}, Message: "bad \xff byte",
		Plugins: []string{"\xff"}, Reasons: map[string]int32{"\xfe": 1, "\xff": 2, "fine": 3},
	}
	got, err := events.DecodeDecision(eventlog.Record{Message: events.EncodeDecision(d), Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	d.Message, d.Plugins = "bad \uFFFD byte", []string{"\uFFFD"}
	d.Reasons = map[string]int32{"\uFFFD": 3, "fine": 3}
	if diff := cmp.Diff(d, got.Decision); diff != "" {
		t.Fatal(diff)
	}
}

func TestBusRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := work.Request{
			Shard:  Valid.Filter(func(s string) bool { return s != "" }).Draw(t, "shard"),
			Window: rapid.Int32().Draw(t, "window"),
			Renew:  rapid.SliceOf(Valid).Draw(t, "renew"),
			Return: rapid.SliceOf(Valid).Draw(t, "return"),

			Activate: rapid.SliceOf(Valid).Draw(t, "activate"),
		}
		gotRequest, err := work.DecodeRequest(work.EncodeRequest(request))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(request, gotRequest, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		batch := work.OfferBatch{Queue: Valid.Draw(t, "queue"), Term: rapid.Int64().Draw(t, "term")}
		for range rapid.IntRange(0, 3).Draw(t, "offers") {
			batch.Offers = append(batch.Offers, work.Offer{
				Pod:          events.PodRef{UID: Valid.Draw(t, "uid"), Namespace: Valid.Draw(t, "ns"), Name: Valid.Draw(t, "name")},
				Partition:    rapid.Int32().Draw(t, "partition"),
				Token:        Valid.Draw(t, "token"),
				Attempt:      rapid.Int32().Draw(t, "attempt"),
				FactSequence: rapid.Uint64().Draw(t, "factSequence"),
				LeaseMillis:  rapid.Int32().Draw(t, "leaseMillis"),
				TraceParent:  Valid.Draw(t, "traceParent"),
			})
		}
		gotBatch, err := work.DecodeOffers(work.EncodeOffers(batch))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(batch, gotBatch, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestDecodeErrors: an error names the sequence, the header and the value.
func TestDecodeErrors(t *testing.T) {
	fact := events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Name: "n", Progress: 3, Object: []byte("o")}
	decision := events.Decision{Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "u"}}
	for _, c := range []struct {
		header, value string
		decision      bool
	}{
		{header: eventlog.HeaderSchema, value: "0"},
		{header: eventlog.HeaderSchema, value: "2"},
		{header: eventlog.HeaderSchema, value: ""},
		{header: eventlog.HeaderKind, value: "Gizmo"},
		{header: eventlog.HeaderKind, value: ""},
		{header: eventlog.HeaderOp, value: "upset"},
		{header: eventlog.HeaderUID, value: ""},
		{header: eventlog.HeaderName, value: "%zz"},
		{header: eventlog.HeaderName, value: "cut%2"},
		{header: eventlog.HeaderProgress, value: "-1"},
		{header: eventlog.HeaderEpoch, value: "18446744073709551616"},
		{header: eventlog.HeaderResourceVersion, value: "1e3"},
		{header: eventlog.HeaderSchema, value: "x", decision: true},
		{header: eventlog.HeaderKind, value: "no kind", decision: true},
		{header: eventlog.HeaderUID, value: "", decision: true},
	} {
		m := events.EncodeFact(fact)
		if c.decision {
			m = events.EncodeDecision(decision)
		}
		m.Header.Set(c.header, c.value)
		checkDecodeError(t, m, c.decision, c.header, c.value)
	}
	m := events.EncodeDecision(decision)
	m.Data = []byte{0xff}
	checkDecodeError(t, m, true, "payload", "1 bytes")
	m.Data = []byte{27<<3&0x7f | 2 | 0x80, 27 >> 4, 1, 0xff} // invalid evidence, of one byte
	checkDecodeError(t, m, true, "evidence", "1 bytes")
	if _, err := events.DecodeOutcome(eventlog.Record{Message: m, Sequence: 1}); err != nil {
		t.Errorf("an outcome does not look at evidence: %v", err)
	}
	m = events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpProgress})
	m.Data = []byte("abc")
	checkDecodeError(t, m, false, "payload", "3 bytes")
}

func checkDecodeError(t *testing.T, m eventlog.Message, decision bool, field, value string) {
	t.Helper()
	var err error
	if r := (eventlog.Record{Message: m, Sequence: 4711}); decision {
		_, err = events.DecodeDecision(r)
	} else {
		_, err = events.DecodeFact(r)
	}
	var decode *events.DecodeError
	if !errors.As(err, &decode) || decode.Sequence != 4711 || decode.Field != field || decode.Value != value ||
		decode.Want == "" {
		t.Errorf("%s %q: %v", field, value, err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	fact := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Object: []byte("o")})
	decision := events.EncodeDecision(events.Decision{Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "u"}, Seed: 1})
	f.Add("1", "pod", "upsert", "u", "7", fact.Data)
	f.Add("1", "placed", "", "u%20", "", decision.Data)
	f.Add("2", "", "epoch-begin", "%", "-", []byte{0xff})
	f.Fuzz(func(t *testing.T, schema, kind, op, uid, number string, data []byte) {
		header := eventlog.NewHeader(map[string]string{
			eventlog.HeaderSchema: schema, eventlog.HeaderKind: kind, eventlog.HeaderOp: op, eventlog.HeaderUID: uid,
			eventlog.HeaderResourceVersion: number, eventlog.HeaderEpoch: number, eventlog.HeaderProgress: number,
		})
		r := eventlog.Record{Message: eventlog.Message{Subject: "facts.a.b", Header: header, Data: data}, Sequence: 1}
		// What decodes must survive being encoded and decoded again.
		if fact, err := events.DecodeFact(r); err == nil {
			again, err := events.DecodeFact(eventlog.Record{Message: events.EncodeFact(fact.Fact), Sequence: 1})
			if diff := cmp.Diff(fact, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		} else {
			checkIsDecodeError(t, err)
		}
		if decision, err := events.DecodeDecision(r); err == nil {
			again, err := events.DecodeDecision(eventlog.Record{Message: events.EncodeDecision(decision.Decision), Sequence: 1})
			if diff := cmp.Diff(decision, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		} else {
			checkIsDecodeError(t, err)
		}
	})
}

func FuzzDecodeBus(f *testing.F) {
	f.Add(work.EncodeRequest(work.Request{Shard: "s", Window: 3, Renew: []string{"a"}}))
	f.Add(work.EncodeOffers(work.OfferBatch{Queue: "q", Term: 1, Offers: []work.Offer{{Token: "t"}}}))
	f.Add(work.EncodeTurn(work.Turn{NodeUID: "n", Shard: "s"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if turn, err := work.DecodeTurn(data); err == nil {
			again, err := work.DecodeTurn(work.EncodeTurn(turn))
			if diff := cmp.Diff(turn, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		} else {
			checkIsDecodeError(t, err)
		}
		if request, err := work.DecodeRequest(data); err == nil {
			again, err := work.DecodeRequest(work.EncodeRequest(request))
			if diff := cmp.Diff(request, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		} else {
			checkIsDecodeError(t, err)
		}
		if batch, err := work.DecodeOffers(data); err == nil {
			again, err := work.DecodeOffers(work.EncodeOffers(batch))
			if diff := cmp.Diff(batch, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		} else {
			checkIsDecodeError(t, err)
		}
	})
}

func checkIsDecodeError(t *testing.T, err error) {
	t.Helper()
	var decode *events.DecodeError
	if !errors.As(err, &decode) || decode.Field == "" || decode.Want == "" {
		t.Errorf("not a full DecodeError: %v", err)
	}
}

// The subject of a fact, with its sequence, is that of no other fact: it distinguishes epochs.
func TestSubjectOfAFact(t *testing.T) {
	for want, f := range map[string]events.Fact{
		"facts.pod.56r.0":                {Kind: events.KindPod, Op: events.OpUpsert, UID: "uid-1"},
		"facts.pod.56r.7":                {Kind: events.KindPod, Op: events.OpUpsert, UID: "uid-1", Epoch: 7},
		"facts.node._.7":                 {Kind: events.KindNode, Op: events.OpProgress, Epoch: 7},
		"facts._._.18446744073709551615": {Op: events.OpEpochBegin, Epoch: 1<<64 - 1},
	} {
		if got := events.EncodeFact(f).Subject; got != want {
			t.Errorf("subject of %+v is %q, want %q", f, got, want)
		}
	}
}

// A server keeps each subject in memory: the number of subjects must not grow with the pods that are created and
// deleted.
func TestSubjectsAreBounded(t *testing.T) {
	const pods, buckets = 1_000_000, 1 << 14
	facts, decisions := map[string]int{}, map[string]int{}
	for i := range pods {
		uid := fmt.Sprintf("%08x-0d4c-4f4e-9a55-5d3c4f4e9a55", i*2654435761%(1<<32))
		facts[events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: uid, Epoch: 3}).Subject]++
		d := events.Decision{Kind: events.DecisionPlaced, Pod: events.PodRef{UID: uid}}
		decisions[events.EncodeDecision(d).Subject]++
	}
	for _, subjects := range []map[string]int{facts, decisions} {
		most := 0
		for _, n := range subjects {
			most = max(most, n)
		}
		if len(subjects) > buckets || most > 3*pods/buckets {
			t.Errorf("%d subjects for %d pods, one of them for %d; want %d at most, and even ones",
				len(subjects), pods, most, buckets)
		}
	}
}

// TestARecordMatchesItsSubject: the log permits each service to write certain subjects, so a reader accepts a
// record only as far as its subject allows. A record of another stream, of another kind, or a repetition is
// refused.
func TestARecordMatchesItsSubject(t *testing.T) {
	fact := func() eventlog.Message {
		return events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Epoch: 3})
	}
	placed := func() eventlog.Message {
		return events.EncodeDecision(events.Decision{Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "u"}})
	}
	for _, subject := range []string{"decisions.0.bound", "facts.node.0.3", "facts.podx.0.3", "facts", ""} {
		m := fact()
		m.Subject = subject
		checkDecodeError(t, m, false, "subject", subject)
	}
	for _, subject := range []string{"decisions.0.bound", "facts.pod.0.placed", "decisions.0.xplaced", "decisions", ""} {
		m := placed()
		m.Subject = subject
		checkDecodeError(t, m, true, "subject", subject)
	}
	m := fact()
	m.Header.Set(eventlog.HeaderPosition, "7")
	if _, err := events.DecodeFact(eventlog.Record{Message: m, Sequence: 7}); err != nil {
		t.Errorf("a fact in its place: %v", err)
	}
	checkDecodeError(t, m, false, eventlog.HeaderPosition, "7")
}
