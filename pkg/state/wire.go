package state

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a protobuf message: varint for numbers, bytes for the other types, raw including its tag.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	bytes  []byte
	raw    []byte
}

// eachField visits the fields of a message in message order. For a value of a type that is neither varint nor bytes
// only raw is set.
func eachField(data []byte, visit func(field) error) error {
	for len(data) > 0 {
		f := field{}
		var tag, n int
		f.number, f.kind, tag = protowire.ConsumeTag(data)
		if tag < 0 {
			return fmt.Errorf("state: protobuf: %w", protowire.ParseError(tag))
		}
		switch f.kind {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(data[tag:])
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data[tag:])
		default:
			n = protowire.ConsumeFieldValue(f.number, f.kind, data[tag:])
		}
		if n < 0 {
			return fmt.Errorf("state: protobuf: %w", protowire.ParseError(n))
		}
		f.raw, data = data[:tag+n], data[tag+n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}
