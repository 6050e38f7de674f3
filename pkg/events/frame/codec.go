package frame

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

const (
	// HeaderFrame is the header of a message that is a frame. Its value is the version of the format.
	HeaderFrame = "frame"
	// Version is the version that is written. Fields may be added to it; another meaning is another version.
	Version = "1"
)

// Numbers of the fields, as in eventspb/events.proto. The encoding is written by hand, because a reader decodes every
// record of the stream: generated code allocates each string by itself, and takes three times as long.
const (
	fieldPosition = 1
	fieldRecords  = 2

	fieldSubject = 1
	fieldData    = 2
	fieldOther   = 3

	fieldKey   = 1
	fieldValue = 2
)

// keys are the keys of a header with a field of their own, by the number of that field.
var keys = [...]string{
	4: eventlog.HeaderSchema, 5: eventlog.HeaderKind, 6: eventlog.HeaderOp, 7: eventlog.HeaderUID,
	8: eventlog.HeaderNamespace, 9: eventlog.HeaderName, 10: eventlog.HeaderResourceVersion,
	11: eventlog.HeaderProgress, 12: eventlog.HeaderEpoch, 13: eventlog.HeaderCause, 14: eventlog.HeaderTraceParent,
}

// usualFields is the number of fields that the header of a fact has.
const usualFields = 11

// numberOf returns the number of the field of a key, fieldOther if it has none of its own.
func numberOf(key string) protowire.Number {
	for number, known := range keys {
		if known == key && key != "" {
			return protowire.Number(number)
		}
	}
	return fieldOther
}

// Encode returns the payload of the frame of some messages, one of those that Split returns. position is the sequence
// at which a fenced append is going to store it, 0 for an append without a fence.
func Encode(msgs []eventlog.Message, position uint64) []byte {
	subject := Subject(msgs)
	sizes := make([]int, len(msgs))
	size := 1 + protowire.SizeVarint(position)
	for i := range msgs {
		sizes[i] = recordSize(&msgs[i], subject)
		size += 1 + protowire.SizeBytes(sizes[i])
	}
	b := make([]byte, 0, size)
	if position != 0 {
		b = protowire.AppendTag(b, fieldPosition, protowire.VarintType)
		b = protowire.AppendVarint(b, position)
	}
	for i := range msgs {
		b = protowire.AppendTag(b, fieldRecords, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizes[i]))
		b = appendRecord(b, &msgs[i], subject)
	}
	return b
}

// recordSize returns the size of what appendRecord appends.
func recordSize(m *eventlog.Message, frame string) (size int) {
	if m.Subject != frame {
		size += 1 + protowire.SizeBytes(len(m.Subject))
	}
	for i := range m.Header {
		field := &m.Header[i]
		if numberOf(field.Key) == fieldOther {
			size += 1 + protowire.SizeBytes(otherSize(field))
			continue
		}
		size += 1 + protowire.SizeBytes(len(field.Value))
	}
	if len(m.Data) > 0 {
		size += 1 + protowire.SizeBytes(len(m.Data))
	}
	return size
}

// otherSize returns the size of a field of the header without a number of its own.
func otherSize(f *eventlog.HeaderField) int {
	return 1 + protowire.SizeBytes(len(f.Key)) + 1 + protowire.SizeBytes(len(f.Value))
}

// appendRecord appends one record: the data last, so that a reader can copy what comes before it in one piece. The
// subject is left out if it is the frame's.
func appendRecord(b []byte, m *eventlog.Message, frame string) []byte {
	if m.Subject != frame {
		b = appendString(b, fieldSubject, m.Subject)
	}
	for i := range m.Header {
		field := &m.Header[i]
		number := numberOf(field.Key)
		if number != fieldOther {
			b = appendString(b, number, field.Value)
			continue
		}
		b = protowire.AppendTag(b, fieldOther, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(otherSize(field)))
		b = appendString(b, fieldKey, field.Key)
		b = appendString(b, fieldValue, field.Value)
	}
	if len(m.Data) > 0 {
		b = protowire.AppendTag(b, fieldData, protowire.BytesType)
		b = protowire.AppendBytes(b, m.Data)
	}
	return b
}

func appendString(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// Decode returns the records of a frame of a version. stored is the message as the log has it, with the frame as its
// data: its sequence and time are those of all records.
//
// What cannot be read is a record without header and data, which no reader of facts or decisions accepts: the only one
// if the frame as a whole cannot be read or is not at the position for which it was meant, otherwise one in place of
// each record that cannot be, so that its neighbours are not lost. A record whose subject the frame's does not cover
// gets the frame's, which its content does not match: the log permits a writer only certain subjects, and a frame does
// not extend that.
func Decode(version string, stored eventlog.Record) []eventlog.Record {
	raw, err := split(stored.Sequence, stored.Data)
	if err != nil || version != Version {
		return []eventlog.Record{blank(stored)}
	}
	records := make([]eventlog.Record, len(raw))
	fields := make([]eventlog.HeaderField, 0, len(raw)*usualFields)
	for i, content := range raw {
		r := &records[i]
		*r = blank(stored)
		r.Index = i
		from := len(fields)
		fields, err = decodeRecord(content, r, fields)
		switch {
		case err != nil:
			fields = fields[:from]
			*r = blank(stored)
			r.Index = i
			continue
		case !covers(stored.Subject, r.Subject):
			r.Subject = stored.Subject
		}
		r.Header = eventlog.Header(fields[from:len(fields):len(fields)])
	}
	return records
}

// blank returns a record at the place of a message, without content.
func blank(stored eventlog.Record) eventlog.Record {
	return eventlog.Record{
		Message: eventlog.Message{Subject: stored.Subject}, Sequence: stored.Sequence, Time: stored.Time,
		Frame: stored.Subject,
	}
}

// split returns the encoded records of a frame that is stored at a sequence.
func split(sequence uint64, data []byte) (records [][]byte, err error) {
	var position uint64
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
		var content []byte
		switch {
		case number == fieldPosition && kind == protowire.VarintType:
			position, n = protowire.ConsumeVarint(data)
		case number == fieldRecords && kind == protowire.BytesType:
			content, n = protowire.ConsumeBytes(data)
			records = append(records, content)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
	}
	switch {
	case position != 0 && position != sequence:
		return nil, fmt.Errorf("frame for sequence %d at %d", position, sequence)
	case len(records) == 0 || len(records) > eventlog.MaxBatch:
		return nil, fmt.Errorf("frame of %d records, want 1 to %d", len(records), eventlog.MaxBatch)
	}
	return records, nil
}

// decodeRecord sets the subject and the data of r, and appends the fields of its header to fields. All strings share
// one allocation, and the data has its own: what is kept of a record does not keep the rest of the frame.
func decodeRecord(
	content []byte, r *eventlog.Record, fields []eventlog.HeaderField,
) ([]eventlog.HeaderField, error) {
	text := string(content[:dataAt(content)])
	for at := 0; at < len(content); {
		number, kind, n := protowire.ConsumeTag(content[at:])
		if n < 0 {
			return fields, protowire.ParseError(n)
		}
		at += n
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, content[at:]); n < 0 {
				return fields, protowire.ParseError(n)
			}
			at += n
			continue
		}
		value, n := protowire.ConsumeBytes(content[at:])
		if n < 0 {
			return fields, protowire.ParseError(n)
		}
		at += n
		switch {
		case number == fieldData:
			r.Data = append([]byte(nil), value...)
		case number == fieldSubject:
			r.Subject = part(text, value, at)
		case number == fieldOther:
			other, err := decodeOther(value)
			if err != nil {
				return fields, err
			}
			fields = append(fields, other)
		case int(number) < len(keys) && keys[number] != "":
			fields = append(fields, eventlog.HeaderField{Key: keys[number], Value: part(text, value, at)})
		}
	}
	return fields, nil
}

// dataAt returns where the data of a record begins, or the length of the record: what comes before is its text.
func dataAt(content []byte) int {
	for at := 0; at < len(content); {
		number, kind, n := protowire.ConsumeTag(content[at:])
		if n < 0 || number == fieldData {
			return at
		}
		m := protowire.ConsumeFieldValue(number, kind, content[at+n:])
		if m < 0 {
			return at
		}
		at += n + m
	}
	return len(content)
}

// part returns a value that ends at an offset of the record as a part of its text. A value behind the data, where
// Encode writes none, is not in the text.
func part(text string, value []byte, end int) string {
	if end > len(text) {
		return string(value)
	}
	return text[end-len(value) : end]
}

// decodeOther decodes a field of the header with its key.
func decodeOther(content []byte) (f eventlog.HeaderField, err error) {
	for len(content) > 0 {
		number, kind, n := protowire.ConsumeTag(content)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		content = content[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, content); n < 0 {
				return f, protowire.ParseError(n)
			}
			content = content[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(content)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		content = content[n:]
		switch number {
		case fieldKey:
			f.Key = string(value)
		case fieldValue:
			f.Value = string(value)
		}
	}
	return f, nil
}
