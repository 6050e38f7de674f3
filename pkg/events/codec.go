package events

import (
	"fmt"
	"strconv"
	"strings"
)

// SchemaVersion is the version of the encoding written now. Every version ever written stays readable; testdata
// contains one recorded message of each shape and version.
const SchemaVersion = 1

// Keys of Header. All lower case: NATS compares header keys byte by byte, and the trace
// propagators of other languages look for lower case.
const (
	// HeaderSchema is the SchemaVersion of the message. Always present.
	HeaderSchema = "schema"
	// HeaderKind is a Kind in facts and a DecisionKind in decisions.
	HeaderKind = "kind"
	// HeaderOp is the name of an Op (facts).
	HeaderOp = "op"
	// HeaderUID, HeaderNamespace and HeaderName identify the object or the pod.
	HeaderUID       = "uid"
	HeaderNamespace = "namespace"
	HeaderName      = "name"
	// HeaderResourceVersion, HeaderProgress and HeaderEpoch are decimal numbers (facts).
	HeaderResourceVersion = "resourceversion"
	HeaderProgress        = "progress"
	HeaderEpoch           = "epoch"
	// HeaderCause is the source of a fact.
	HeaderCause = "cause"
	// HeaderPosition is the sequence at which the writer of a fact had it stored (see Place). Facts of earlier
	// versions have none.
	HeaderPosition = "position"
	// HeaderTraceParent is a W3C traceparent.
	HeaderTraceParent = "traceparent"
)

// Prefixes of subjects, by stream.
const (
	subjectFacts     = "facts"
	subjectDecisions = "decisions"
	subjectLedger    = "ledger"
)

// Subjects of the ledger's history.
const (
	SubjectLedgerChanges = subjectLedger + ".changes"
	SubjectLedgerPicture = subjectLedger + ".picture"
)

// noToken is used in a subject where there is nothing to name (markers, epochs).
const noToken = "_"

// DecodeError reports a message that cannot be decoded, and its position.
type DecodeError struct {
	// Sequence of the record, 0 for a message of the bus.
	Sequence uint64
	// Subject of the record, or the name of the message for one of the bus.
	Subject string
	// Field is the header, or "payload".
	Field string
	// Value is the content found (for a payload its length), Want what is accepted.
	Value, Want string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("events: sequence %d (%s): %s is %q, want %s", e.Sequence, e.Subject, e.Field, e.Value, e.Want)
}

// EncodeFact returns the message that carries f: Object unchanged as the data, everything else in the header. The
// data is not copied. The subject names the kind and ends in the epoch, so that no two facts have the same subject
// and sequence (see Tail).
func EncodeFact(f Fact) Message {
	h := newHeader(string(f.Kind), f.UID, f.Namespace, f.Name, f.TraceParent)
	h.set(HeaderOp, f.Op.String())
	h.set(HeaderCause, f.Cause)
	h.setNumber(HeaderResourceVersion, f.ResourceVersion)
	h.setNumber(HeaderProgress, f.Progress)
	h.setNumber(HeaderEpoch, f.Epoch)
	return Message{
		Subject: strings.Join([]string{
			subjectFacts, subjectToken(string(f.Kind)), bucketOf(f.UID), strconv.FormatUint(f.Epoch, 10),
		}, "."),
		Header: h.fields,
		Data:   f.Object,
	}
}

// Place writes into a fact's message the sequence at which a fenced append is going to store it. DecodeFact refuses
// the record at any other sequence: NATS lets a client that may read a stream request delivery of a record to any
// subject, also to one of the stream, which then stores it again.
func Place(m *Message, sequence uint64) {
	m.Header.Set(HeaderPosition, strconv.FormatUint(sequence, 10))
}

// DecodeFact decodes what EncodeFact wrote, now, in an earlier version, or in a later one of the same schema; in
// the last case the kind may be one that is not Known. The error is a *DecodeError. A record whose subject is not
// that of its kind, or whose sequence is not the one from Place, is an error too: the queue has not written it.
// Object shares the record's data.
func DecodeFact(r Record) (SequencedFact, error) {
	d := decoder{record: r}
	d.schema()
	f := Fact{
		Kind:            Kind(d.text(HeaderKind)),
		UID:             d.text(HeaderUID),
		Namespace:       d.text(HeaderNamespace),
		Name:            d.text(HeaderName),
		ResourceVersion: d.number(HeaderResourceVersion),
		Progress:        d.number(HeaderProgress),
		Epoch:           d.number(HeaderEpoch),
		Cause:           d.text(HeaderCause),
		TraceParent:     d.text(HeaderTraceParent),
	}
	var known bool
	if f.Op, known = parseOp(r.Header.Get(HeaderOp)); !known {
		d.fail(HeaderOp, r.Header.Get(HeaderOp), "one of "+strings.Join(opNames[1:], ", "))
	}
	d.checkFact(&f)
	d.checkSubject(subjectFacts+"."+subjectToken(string(f.Kind))+".", "")
	if at := d.number(HeaderPosition); at != 0 && at != r.Sequence {
		d.fail(HeaderPosition, r.Header.Get(HeaderPosition), "the record's sequence")
	}
	if len(r.Data) > 0 {
		f.Object = r.Data
	}
	if d.err != nil {
		return SequencedFact{}, d.err
	}
	return SequencedFact{Sequence: r.Sequence, Fact: f}, nil
}

// checkFact checks that a fact satisfies what its op requires.
func (d *decoder) checkFact(f *Fact) {
	epochMarker := f.Op == OpEpochBegin || f.Op == OpEpochEnd
	if !isKind(string(f.Kind)) && !(epochMarker && f.Kind == "") {
		d.fail(HeaderKind, string(f.Kind), wantedKind)
	}
	if (f.Op == OpUpsert || f.Op == OpDelete) && f.UID == "" {
		d.fail(HeaderUID, "", "the object's uid with op "+f.Op.String())
	}
	if f.Op != OpUpsert && len(d.record.Data) > 0 {
		d.fail("payload", strconv.Itoa(len(d.record.Data))+" bytes", "none with op "+f.Op.String())
	}
}

// opNames are the words of the op header, by Op.
var opNames = [...]string{
	OpUpsert: "upsert", OpDelete: "delete", OpProgress: "progress",
	OpEpochBegin: "epoch-begin", OpEpochEnd: "epoch-end",
}

// String returns the word for o used in headers, or a number for one that is not known.
func (o Op) String() string {
	if o == 0 || int(o) >= len(opNames) {
		return "op-" + strconv.Itoa(int(o))
	}
	return opNames[o]
}

func parseOp(word string) (Op, bool) {
	for op, name := range opNames {
		if op > 0 && name == word {
			return Op(op), true
		}
	}
	return 0, false
}

// subjectToken makes s usable as one token of a subject. It loses information for names that Kubernetes does not
// allow; the header contains the exact value.
func subjectToken(s string) string {
	if s == "" {
		return noToken
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || r == '.' || r == '*' || r == '>' {
			return '_'
		}
		return r
	}, s)
}
