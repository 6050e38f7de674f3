package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is one field of a protobuf message: Varint for numbers, Bytes for the other types, Raw including its tag.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	Varint uint64
	Bytes  []byte
	Raw    []byte
}

// EachField visits the fields of a message in message order, and stops at the first error of visit. For a value of
// a type that is neither varint nor bytes only Raw is set. The slices point into data. It does not look into the
// fields, so it accepts any message.
func EachField(data []byte, visit func(Field) error) error {
	for len(data) > 0 {
		f := Field{}
		var tag, n int
		f.Number, f.Type, tag = protowire.ConsumeTag(data)
		if tag < 0 {
			return fmt.Errorf("state: protobuf: %w", protowire.ParseError(tag))
		}
		switch f.Type {
		case protowire.VarintType:
			f.Varint, n = protowire.ConsumeVarint(data[tag:])
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(data[tag:])
		default:
			n = protowire.ConsumeFieldValue(f.Number, f.Type, data[tag:])
		}
		if n < 0 {
			return fmt.Errorf("state: protobuf: %w", protowire.ParseError(n))
		}
		f.Raw, data = data[:tag+n], data[tag+n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// AppendSized writes a part preceded by its length, so that parts cannot run together: different sequences of parts
// have different bytes. It is for keys and for packed data, both in memory only.
func AppendSized[T string | []byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}
