package events

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// SchemaVersion is the version of the encoding written now. Every version ever written stays readable; testdata
// contains one recorded message of each shape and version.
const SchemaVersion = 1

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
func EncodeFact(f Fact) eventlog.Message {
	h := newHeader(string(f.Kind), f.UID, f.Namespace, f.Name, f.TraceParent)
	h.set(eventlog.HeaderOp, f.Op.String())
	h.set(eventlog.HeaderCause, f.Cause)
	h.setNumber(eventlog.HeaderResourceVersion, f.ResourceVersion)
	h.setNumber(eventlog.HeaderProgress, f.Progress)
	h.setNumber(eventlog.HeaderEpoch, f.Epoch)
	return eventlog.Message{
		Subject: strings.Join([]string{
			eventlog.SubjectFacts, subjectToken(string(f.Kind)), bucketOf(f.UID), strconv.FormatUint(f.Epoch, 10),
		}, "."),
		Header: h.fields,
		Data:   f.Object,
	}
}

// DecodeFact decodes what EncodeFact wrote, now, in an earlier version, or in a later one of the same schema; in
// the last case the kind may be one that is not Known. The error is a *DecodeError. A record whose subject is not
// that of its kind, or whose sequence is not the one for which the log has written it (eventlog.HeaderPosition), is an
// error too: the queue has not written it.
// Object shares the record's data.
func DecodeFact(r eventlog.Record) (SequencedFact, error) {
	d := decoder{record: r}
	d.schema()
	f := Fact{
		Kind:            Kind(d.text(eventlog.HeaderKind)),
		UID:             d.text(eventlog.HeaderUID),
		Namespace:       d.text(eventlog.HeaderNamespace),
		Name:            d.text(eventlog.HeaderName),
		ResourceVersion: d.number(eventlog.HeaderResourceVersion),
		Progress:        d.number(eventlog.HeaderProgress),
		Epoch:           d.number(eventlog.HeaderEpoch),
		Cause:           d.text(eventlog.HeaderCause),
		TraceParent:     d.text(eventlog.HeaderTraceParent),
	}
	var known bool
	if f.Op, known = parseOp(r.Header.Get(eventlog.HeaderOp)); !known {
		d.fail(eventlog.HeaderOp, r.Header.Get(eventlog.HeaderOp), "one of "+strings.Join(opNames[1:], ", "))
	}
	d.checkFact(&f)
	d.checkSubject(eventlog.SubjectFacts+"."+subjectToken(string(f.Kind))+".", "")
	if at := d.number(eventlog.HeaderPosition); at != 0 && at != r.Sequence {
		d.fail(eventlog.HeaderPosition, r.Header.Get(eventlog.HeaderPosition), "the record's sequence")
	}
	if len(r.Data) > 0 {
		f.Object = r.Data
	}
	if d.err != nil {
		return SequencedFact{}, d.err
	}
	return SequencedFact{Sequence: r.Sequence, Index: r.Index, Fact: f}, nil
}

// checkFact checks that a fact satisfies what its op requires.
func (d *decoder) checkFact(f *Fact) {
	epochMarker := f.Op == OpEpochBegin || f.Op == OpEpochEnd
	if !isKind(string(f.Kind)) && !(epochMarker && f.Kind == "") {
		d.fail(eventlog.HeaderKind, string(f.Kind), wantedKind)
	}
	if (f.Op == OpUpsert || f.Op == OpDelete) && f.UID == "" {
		d.fail(eventlog.HeaderUID, "", "the object's uid with op "+f.Op.String())
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

// parseOp returns the Op of a word; false for one that this version does not know.
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
