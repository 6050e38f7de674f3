package frame_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/eventspb"
	"github.com/berth-scheduler/berth/pkg/events/frame"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// subjects are those of messages that may and may not share a frame.
var subjects = []string{
	"facts.pod.1a.5", "facts.pod.2b.5", "facts.node.1a.5", "facts.pod.1a.6", "facts._._.5", "decisions.1a.placed",
	"decisions.2b.placed", "decisions.1a.bound", "facts.5", "facts.pod.x.y.5",
}

// drawMessages draws messages as the codec of events writes them, and others.
func drawMessages(t *rapid.T) []eventlog.Message {
	key := rapid.SampledFrom([]string{
		eventlog.HeaderSchema, eventlog.HeaderKind, eventlog.HeaderOp, eventlog.HeaderUID, eventlog.HeaderNamespace,
		eventlog.HeaderName, eventlog.HeaderResourceVersion, eventlog.HeaderProgress, eventlog.HeaderEpoch,
		eventlog.HeaderCause, eventlog.HeaderTraceParent, eventlog.HeaderPosition, "other", "",
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) eventlog.Message {
		return eventlog.Message{
			Subject: rapid.SampledFrom(subjects).Draw(t, "subject"),
			Header:  eventlog.NewHeader(rapid.MapOf(key, rapid.String()).Draw(t, "header")),
			Data:    make([]byte, rapid.SampledFrom([]int{0, 0, 1, 127, 128, 20000, 200000}).Draw(t, "data")),
		}
	}), 1, 40).Draw(t, "messages")
}

// mayShare is the rule about subjects, told another way.
func mayShare(a, b string) bool {
	first, second := strings.Split(a, "."), strings.Split(b, ".")
	return len(first) == len(second) && first[0] == second[0] && first[len(first)-1] == second[len(second)-1]
}

// TestFrames: the frames of any messages have them all in order, as the generated code and as Decode read them. Each
// frame is as long as the bounds allow, and its subject differs from those of its records in whole tokens.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := drawMessages(t)
		var parts [][]eventlog.Message
		for part := range frame.Split(msgs, 1) {
			parts = append(parts, part)
		}
		for i, part := range slices.Concat(parts...) {
			if part.Subject != msgs[i].Subject {
				t.Fatalf("message %d of the frames is %s, want %s", i, part.Subject, msgs[i].Subject)
			}
		}
		for i, part := range parts {
			size := 0
			for _, m := range part {
				size += m.Size()
				if !mayShare(part[0].Subject, m.Subject) {
					t.Fatalf("%s shares a frame with %s", m.Subject, part[0].Subject)
				}
			}
			if len(part) > 1 && size > frame.MaxBytes {
				t.Fatalf("a frame has %d bytes", size)
			}
			if next := i + 1; next < len(parts) && mayShare(part[0].Subject, parts[next][0].Subject) &&
				size+parts[next][0].Size()+200*(len(part)+1) < frame.MaxBytes {
				t.Fatalf("a frame of %d bytes lacks the next message of %d", size, parts[next][0].Size())
			}
			checkFrame(t, part, uint64(rapid.IntRange(0, 1).Draw(t, "position")*(i+7)), uint64(i+7))
		}
	})
}

func checkFrame(t *rapid.T, part []eventlog.Message, position, sequence uint64) {
	data, subject := frame.Encode(part, position), frame.Subject(part)
	var generated eventspb.Frame
	err := proto.Unmarshal(data, &generated)
	if err != nil || generated.GetPosition() != position || len(generated.GetRecords()) != len(part) {
		t.Fatalf("the generated code reads %d records for %d, %v",
			len(generated.GetRecords()), generated.GetPosition(), err)
	}
	stored := eventlog.Record{
		Message: eventlog.Message{Subject: subject, Data: data}, Sequence: sequence, Time: time.Unix(9, 0),
	}
	records := frame.Decode(frame.Version, stored)
	if len(records) != len(part) || frame.SubjectOf(records) != subject {
		t.Fatalf("%d records with %s, want %d with %s", len(records), frame.SubjectOf(records), len(part), subject)
	}
	for i, r := range records {
		pb := generated.GetRecords()[i]
		if pb.GetUid() != part[i].Header.Get(eventlog.HeaderUID) || !bytes.Equal(pb.GetData(), part[i].Data) ||
			cmp.Or(pb.GetSubject(), subject) != part[i].Subject {
			t.Fatalf("the generated code reads %v, want %v", pb, part[i])
		}
		same := r.Subject == part[i].Subject && r.Header.Equal(part[i].Header) && bytes.Equal(r.Data, part[i].Data)
		if !same || r.Sequence != sequence || r.Index != i || !r.Time.Equal(stored.Time) {
			t.Fatalf("record %d is %v, want %v", i, r, part[i])
		}
		if uid := part[i].Header.Get(eventlog.HeaderUID); uid != "" && !strings.Contains(uid, "%") {
			plain, ok := eventlog.UnescapeHeader(uid)
			if ok && eventlog.EscapeHeader(plain) == uid && len(part) > 1 && strings.Count(subject, ".") > 1 &&
				!frame.MayHave(subject, plain) {
				t.Fatalf("a search does not find %q", uid)
			}
		}
	}
	// The data of a record is its own: what is changed in the message does not change it.
	before := slices.Clone(records[0].Data)
	clear(data)
	if !bytes.Equal(before, records[0].Data) {
		t.Fatal("a record shares the data of the frame")
	}
}

// TestSubjects are the subjects of some frames, and which filters find them.
func TestSubjects(t *testing.T) {
	for want, subjects := range map[string][]string{
		"facts.pod.1a.5":       {"facts.pod.1a.5"},
		"facts.pod.many.5":     {"facts.pod.1a.5", "facts.pod.2b.5", "facts.pod.1a.5"},
		"facts.pod.many.6":     {"facts.pod.2b.6", "facts.pod.2b.6"},
		"facts.many.many.5":    {"facts.pod.1a.5", "facts.node.2b.5"},
		"decisions.many.bound": {"decisions.1a.bound", "decisions.2b.bound"},
	} {
		var msgs []eventlog.Message
		for _, subject := range subjects {
			msgs = append(msgs, eventlog.Message{Subject: subject})
		}
		if got := frame.Subject(msgs); got != want {
			t.Errorf("%v: %s, want %s", subjects, got, want)
		}
		if framed := frame.Tail(1, 8, msgs); framed != (eventlog.Tail{Sequence: 8, Subject: want}) {
			t.Errorf("%v: the tail is %v", subjects, framed)
		}
		last := eventlog.Tail{Sequence: 8, Subject: subjects[len(subjects)-1]}
		if single := frame.Tail(0, 8, msgs); single != last {
			t.Errorf("%v: the tail without frames is %v", subjects, single)
		}
		for _, subject := range subjects {
			filters := slices.DeleteFunc(frame.Filters(subject),
				func(filter string) bool { return !eventlog.Matches(filter, want) })
			if len(subjects) > 1 && len(filters) != 1 {
				t.Errorf("the filters %v match %s, want one", filters, want)
			}
		}
	}
	for filter, want := range map[string]string{
		"facts.pod.1a.>":     "[facts.many.*.> facts.pod.*.>]",
		"decisions.1a.>":     "[decisions.*.>]",
		"decisions.*.placed": "[decisions.*.placed]",
		"facts.>":            "[facts.>]",
	} {
		if got := fmt.Sprint(frame.Filters(filter)); got != want {
			t.Errorf("filters for %s are %s, want %s", filter, got, want)
		}
	}
}

// TestObjectsInSubjects: a frame of several records shows which objects they are about, and hardly any others.
func TestObjectsInSubjects(t *testing.T) {
	pods := func(from, n int) (msgs []eventlog.Message) {
		for i := range n {
			msgs = append(msgs, events.EncodeFact(events.Fact{
				Kind: events.KindPod, Op: events.OpUpsert, UID: fmt.Sprint("uid-", from+i), Epoch: 5,
			}))
		}
		return msgs
	}
	subject := frame.Subject(pods(0, frame.MaxRecords))
	err := events.CheckSubject(subject)
	if err != nil || !eventlog.Matches("facts.pod.*.5", subject) || len(subject) > 220 {
		t.Fatalf("the subject %s: %v", subject, err)
	}
	for i := range frame.MaxRecords {
		if !frame.MayHave(subject, fmt.Sprint("uid-", i)) || !frame.MayHave(subject, "") {
			t.Errorf("%s does not show uid-%d", subject, i)
		}
	}
	others := 0
	for i := range 100_000 {
		if frame.MayHave(subject, fmt.Sprint("other-", i)) {
			others++
		}
	}
	if others > 60 {
		t.Errorf("%d of 100,000 others seem to be in a frame, want about 24", others)
	}
	for _, single := range []string{pods(0, 1)[0].Subject, frame.Subject(pods(0, 1)), "facts", "", "facts.many"} {
		if frame.MayHave(single, "uid-0") || frame.MayHave(single, "") {
			t.Errorf("%q seems to be a frame of several records", single)
		}
	}
}

// TestARecordDoesNotExtendWhatItsFrameMayHave: a member that may write decisions of one kind cannot write others in a
// frame of that kind.
func TestARecordDoesNotExtendWhatItsFrameMayHave(t *testing.T) {
	evict := events.EncodeDecision(events.Decision{Kind: events.DecisionEvict, Pod: events.PodRef{UID: "a"}})
	other := events.EncodeDecision(events.Decision{Kind: events.DecisionEvict, Pod: events.PodRef{UID: "b"}})
	for _, subject := range []string{
		"decisions.many.placed", strings.TrimSuffix(evict.Subject, "evict") + "placed", "facts.many.evict",
		"decisions.many.evict.placed",
	} {
		records := frame.Decode(frame.Version, eventlog.Record{
			Message: eventlog.Message{Subject: subject, Data: frame.Encode([]eventlog.Message{evict, other}, 0)}, Sequence: 1,
		})
		if len(records) != 2 {
			t.Fatalf("%d records", len(records))
		}
		for _, r := range records {
			if d, err := events.DecodeDecision(r); err == nil {
				t.Errorf("a frame with the subject %s has the decision %s", subject, d.Kind)
			}
		}
	}
}

// TestNoFrame: a payload that is no frame, or for another place, is one record that no reader accepts.
func TestNoFrame(t *testing.T) {
	m := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "a", Object: []byte("object")})
	many := slices.Repeat([]eventlog.Message{m}, eventlog.MaxBatch)
	for name, c := range map[string]struct {
		version string
		data    []byte
	}{
		"nothing":             {frame.Version, nil},
		"no protobuf":         {frame.Version, []byte("\xff\xff")},
		"cut off":             {frame.Version, frame.Encode(many[:3], 0)[:40]},
		"another version":     {"2", frame.Encode(many[:3], 0)},
		"another place":       {frame.Version, frame.Encode(many[:3], 8)},
		"too many records":    {frame.Version, slices.Concat(frame.Encode(many, 0), frame.Encode(many[:1], 0))},
		"a position, no more": {frame.Version, []byte{0x08, 0x07}},
	} {
		records := frame.Decode(c.version, eventlog.Record{
			Message: eventlog.Message{Subject: m.Subject, Data: c.data}, Sequence: 7,
		})
		if len(records) != 1 || records[0].Sequence != 7 || records[0].Subject != m.Subject {
			t.Fatalf("%s: %d records", name, len(records))
		}
		if _, err := events.DecodeFact(records[0]); err == nil {
			t.Errorf("%s: it is a fact", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	m := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "a", Object: []byte("object")})
	f.Add("facts.pod.many.0", frame.Encode([]eventlog.Message{m, m, {Subject: "facts.pod.x.0"}}, 0))
	f.Add("facts", []byte{0x12, 0x00, 0x08, 0x07})
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		records := frame.Decode(frame.Version, eventlog.Record{
			Message: eventlog.Message{Subject: subject, Data: data}, Sequence: 7,
		})
		if len(records) == 0 {
			t.Fatal("no record")
		}
		for i, r := range records {
			if r.Sequence != 7 || r.Index != i {
				t.Fatalf("record %d is %d.%d", i, r.Sequence, r.Index)
			}
		}
		frame.MayHave(subject, string(data))
	})
}

// BenchmarkDecode is the price of a fact in a frame, from the payload to the fact.
func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var msgs []eventlog.Message
			for i := range size {
				msgs = append(msgs, events.EncodeFact(events.Fact{
					Kind: events.KindPod, Op: events.OpUpsert, UID: fmt.Sprintf("0f1e2d3c-4b5a-6978-8796-%012d", i), Namespace: "ns",
					Name: fmt.Sprintf("pod-%d", i), ResourceVersion: 123456, Progress: 123456, Epoch: 98765432109876, Cause: "watch",
					Object: make([]byte, 600),
				}))
			}
			stored := eventlog.Record{
				Message: eventlog.Message{Subject: frame.Subject(msgs), Data: frame.Encode(msgs, 0)}, Sequence: 1,
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, r := range frame.Decode(frame.Version, stored) {
					if _, err := events.DecodeFact(r); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/fact")
		})
	}
}
