package events

import (
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// headerWriter fills a Header. It leaves out empty texts and zero numbers; a reader treats a missing field as empty
// or zero.
type headerWriter struct{ fields eventlog.Header }

// headerSizeHint is the number of headers a fact about an object has.
const headerSizeHint = 12

// newHeader returns a header with the fields that facts and decisions have in common.
func newHeader(kind, uid, namespace, name, traceParent string) *headerWriter {
	h := &headerWriter{fields: make(eventlog.Header, 0, headerSizeHint)}
	h.fields.Set(eventlog.HeaderSchema, strconv.Itoa(SchemaVersion))
	h.set(eventlog.HeaderKind, kind)
	h.set(eventlog.HeaderUID, uid)
	h.set(eventlog.HeaderNamespace, namespace)
	h.set(eventlog.HeaderName, name)
	h.set(eventlog.HeaderTraceParent, traceParent)
	return h
}

// set adds a text, escaped, unless it is empty.
func (h *headerWriter) set(key, value string) {
	if value != "" {
		h.fields.Set(key, eventlog.EscapeHeader(value))
	}
}

// setNumber adds a number unless it is 0.
func (h *headerWriter) setNumber(key string, value uint64) {
	if value != 0 {
		h.fields.Set(key, strconv.FormatUint(value, 10))
	}
}

// decoder reads one record and keeps the first error that it found.
type decoder struct {
	record eventlog.Record
	err    error
}

// fail records an error; later ones are consequences of the first, and are dropped.
func (d *decoder) fail(field, value, want string) {
	if d.err == nil {
		d.err = &DecodeError{
			Sequence: d.record.Sequence, Subject: d.record.Subject, Field: field, Value: value, Want: want,
		}
	}
}

// schema checks that the record's version is one this code can read. All versions so far share one shape; a version
// with another shape gets its own branch in the decoders.
func (d *decoder) schema() {
	value := d.record.Header.Get(eventlog.HeaderSchema)
	version, err := strconv.ParseUint(value, 10, 32)
	if err != nil || !SchemaReadable(version) {
		d.fail(eventlog.HeaderSchema, value, SchemaWanted)
	}
}

// SchemaWanted describes the versions that SchemaReadable accepts.
var SchemaWanted = "a version from 1 to " + strconv.Itoa(SchemaVersion) + " (newer ones need a newer reader)"

// SchemaReadable reports whether this version reads messages of a schema version.
func SchemaReadable(version uint64) bool {
	return version >= 1 && version <= SchemaVersion
}

// checkSubject checks that the record's subject has this beginning and this end. The log permits each service to
// write only certain subjects, so the content of a record must match its subject.
func (d *decoder) checkSubject(begin, end string) {
	subject := d.record.Subject
	if !strings.HasPrefix(subject, begin) || !strings.HasSuffix(subject, end) {
		d.fail("subject", subject, begin+"…"+end+", as for the kind in the header")
	}
}

// text returns the unescaped value of a header field, empty if there is none.
func (d *decoder) text(key string) string {
	value := d.record.Header.Get(key)
	plain, ok := eventlog.UnescapeHeader(value)
	if !ok {
		d.fail(key, value, "text with % followed by two hexadecimal digits")
	}
	return plain
}

// number returns the value of a header field, 0 if there is none.
func (d *decoder) number(key string) uint64 {
	value := d.record.Header.Get(key)
	if value == "" {
		return 0
	}
	number, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		d.fail(key, value, "a decimal number from 0 to 18446744073709551615")
	}
	return number
}
