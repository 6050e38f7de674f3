package frame

import (
	"cmp"
	"iter"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

const (
	// Many is the token in the subject of a frame for a token that is not the same in all of its records. No kind and
	// no bucket is called like that.
	Many = "many"
	// MaxRecords is the maximum number of records in a frame. More make it no cheaper, and its subject longer.
	MaxRecords = 64
	// MinRecords is the number of records from which a log on servers stores a frame of several; fewer are frames of
	// one. The subject of a frame of several takes some 400 bytes of the server's memory for as long as the log keeps
	// the frame. With many small frames that would be more than such frames save: few records are appended one by one
	// in a millisecond or two, and while they are, the next ones accumulate.
	MinRecords = 8
	// MaxBytes is the size of a frame, data and header, from which on no record is added to it. It bounds what a reader
	// holds of a stream of large frames. A record that is larger has a frame of its own.
	MaxBytes = 256 << 10
	// overhead is an upper bound for what a record adds to a frame besides the content of its subject, header and data:
	// the tags and lengths of its parts, and its hash in the header Objects.
	overhead = 96
)

// Split divides messages, in their order, into frames: consecutive messages with the same first and last token in
// their subjects, at most MaxRecords of them and at most MaxBytes, unless a single message is larger. Where there are
// fewer than least of them, each is a frame by itself; least is eventlog.Log.Frames of the stream, and positive.
func Split(msgs []eventlog.Message, least int) iter.Seq[[]eventlog.Message] {
	return func(yieldFrame func([]eventlog.Message) bool) {
		yield := func(part []eventlog.Message) bool {
			if len(part) >= least {
				return yieldFrame(part)
			}
			for i := range part {
				if !yieldFrame(part[i : i+1 : i+1]) {
					return false
				}
			}
			return true
		}
		from, size := 0, 0
		for i := range msgs {
			bytes := sizeOf(msgs[i])
			full := i-from == MaxRecords || size+bytes > MaxBytes
			if i > from && (full || !together(msgs[from].Subject, msgs[i].Subject)) {
				if !yield(msgs[from:i:i]) {
					return
				}
				from, size = i, 0
			}
			size += bytes
		}
		if from < len(msgs) {
			yield(msgs[from:])
		}
	}
}

// sizeOf returns an upper bound for the bytes of a message in a frame.
func sizeOf(m eventlog.Message) int { return m.Size() + len(m.Subject) + overhead }

// together reports whether records with these subjects may share a frame.
func together(a, b string) bool {
	return strings.Count(a, ".") == strings.Count(b, ".") && firstToken(a) == firstToken(b) && lastToken(a) == lastToken(b)
}

func firstToken(subject string) string {
	first, _, _ := strings.Cut(subject, ".")
	return first
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// Subject returns the subject of the frame of some messages, one of those that Split returns.
func Subject(msgs []eventlog.Message) string {
	subject := msgs[0].Subject
	for i := 1; i < len(msgs); i++ {
		if msgs[i].Subject != subject {
			subject = common(subject, msgs[i].Subject)
		}
	}
	if len(msgs) == 1 {
		return subject
	}
	end := strings.LastIndexByte(subject, '.')
	before := strings.LastIndexByte(subject[:max(end, 0)], '.')
	if before < 0 {
		return subject // two tokens, of which none may change
	}
	return subject[:before+1] + Many + objects(msgs) + subject[end:]
}

// SubjectOf returns the subject of the message that has some records, which are all that it has.
func SubjectOf(records []eventlog.Record) string { return cmp.Or(records[0].Frame, records[0].Subject) }

// Tail returns the tail that the append of some messages leaves. least is eventlog.Log.Frames of the stream, and last
// what Append has returned.
func Tail(least int, last uint64, msgs []eventlog.Message) eventlog.Tail {
	end := msgs[len(msgs)-1:]
	if least > 0 {
		for some := range Split(msgs, least) {
			end = some
		}
	}
	return eventlog.Tail{Sequence: last, Subject: Subject(end)}
}

// common replaces the tokens in which a subject differs from another one of as many tokens.
func common(subject, other string) string {
	tokens, others := strings.Split(subject, "."), strings.Split(other, ".")
	for i := range tokens {
		if tokens[i] != others[i] {
			tokens[i] = Many
		}
	}
	return strings.Join(tokens, ".")
}

// covers reports whether a record with a subject may be in a frame with a subject. It is called for every record that
// is read, and allocates nothing.
func covers(frame, record string) bool {
	for first := true; frame != record; first = false {
		wide, frames, more := strings.Cut(frame, ".")
		token, records, others := strings.Cut(record, ".")
		if more != others || wide != token && (first || !more || !strings.HasPrefix(wide, Many)) {
			return false
		}
		frame, record = frames, records
	}
	return true
}

// Filters returns the filters that match the frames of several records in which a record may be that a filter matches,
// among them frames that MayHave excludes. The filter itself is not one of them, unless it matches all of these frames.
func Filters(filter string) []string {
	tokens := strings.Split(filter, ".")
	var filters []string
	var add func(i int, chosen []string)
	add = func(i int, chosen []string) {
		switch {
		case i == len(tokens):
			filters = append(filters, strings.Join(chosen, "."))
			return
		case i == 0 || i == len(tokens)-1 || tokens[i] == "*":
		case i == len(tokens)-2:
			add(i+1, append(chosen[:i:i], "*"))
			return
		default:
			add(i+1, append(chosen[:i:i], Many))
		}
		add(i+1, append(chosen[:i:i], tokens[i]))
	}
	add(0, nil)
	return filters
}
