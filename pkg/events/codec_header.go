package events

import (
	"strconv"
	"strings"
)

// headerWriter fills a Header. It leaves out empty texts and zero numbers; a reader treats a missing field as empty
// or zero.
type headerWriter struct{ fields Header }

// headerSizeHint is the number of headers a fact about an object has.
const headerSizeHint = 12

func newHeader(kind, uid, namespace, name, traceParent string) *headerWriter {
	h := &headerWriter{fields: make(Header, 0, headerSizeHint)}
	h.fields.Set(HeaderSchema, strconv.Itoa(SchemaVersion))
	h.set(HeaderKind, kind)
	h.set(HeaderUID, uid)
	h.set(HeaderNamespace, namespace)
	h.set(HeaderName, name)
	h.set(HeaderTraceParent, traceParent)
	return h
}

func (h *headerWriter) set(key, value string) {
	if value != "" {
		h.fields.Set(key, escapeHeader(value))
	}
}

func (h *headerWriter) setNumber(key string, value uint64) {
	if value != 0 {
		h.fields.Set(key, strconv.FormatUint(value, 10))
	}
}

// decoder reads one record and keeps the first error that it found.
type decoder struct {
	record Record
	err    error
}

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
	value := d.record.Header.Get(HeaderSchema)
	version, err := strconv.ParseUint(value, 10, 32)
	if err != nil || !schemaReadable(version) {
		d.fail(HeaderSchema, value, schemaWanted)
	}
}

// schemaWanted describes the versions that schemaReadable accepts.
var schemaWanted = "a version from 1 to " + strconv.Itoa(SchemaVersion) + " (newer ones need a newer reader)"

func schemaReadable(version uint64) bool {
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

func (d *decoder) text(key string) string {
	value := d.record.Header.Get(key)
	plain, ok := unescapeHeader(value)
	if !ok {
		d.fail(key, value, "text with % followed by two hexadecimal digits")
	}
	return plain
}

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

const hexDigits = "0123456789ABCDEF"

// escapeHeader writes every byte that a header line cannot carry unchanged as %XX: control characters, blanks
// (trimmed in transit), the percent sign and non-ASCII bytes. Names that Kubernetes allows remain unchanged.
func escapeHeader(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = headerSafe(s[i])
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; headerSafe(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

func headerSafe(c byte) bool {
	return c > ' ' && c < 0x7f && c != '%'
}

// unescapeHeader reverses escapeHeader; ok is false for a broken escape.
func unescapeHeader(s string) (plain string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}
