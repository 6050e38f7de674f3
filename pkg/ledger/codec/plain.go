package codec

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Most values have the plain form: only fields that this version writes for pods without ports, volumes and devices, in
// ascending order, each with a value that fits. The readers below decode that form at a quarter of the cost of the
// generated code, which makes a message of each part first, and new strings for names that the caller has already. Of
// every other value they report that they cannot read it, and the generated code does. Where a reader accepts a value,
// its result is that of the generated code (TestPlainForm, FuzzDifference).

// fields iterates over the fields of a message. After the last field, valid reports whether the message was well-formed
// and its fields came in ascending order.
type fields struct {
	rest   []byte
	number protowire.Number
	wire   protowire.Type
	// varint is the value of a field of a number, bytes that of a field with a length.
	varint uint64
	bytes  []byte
	broken bool
}

// next moves to the next field; false after the last one, and at one that the plain form does not have.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.broken {
		return false
	}
	number, wire, n := protowire.ConsumeTag(f.rest)
	if n < 0 || number < f.number {
		f.broken = true
		return false
	}
	f.rest = f.rest[n:]
	switch wire {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(f.rest)
	case protowire.Fixed64Type:
		f.varint, n = protowire.ConsumeFixed64(f.rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	default:
		n = -1
	}
	if n < 0 {
		f.broken = true
		return false
	}
	f.rest, f.number = f.rest[n:], number
	f.wire = wire
	return true
}

// plainString returns raw as a string, without a new one if it is that of like. It is false if raw is no UTF-8, which
// the generated code refuses.
func plainString(raw []byte, like string) (string, bool) {
	if string(raw) == like {
		return like, true
	}
	return string(raw), utf8.Valid(raw)
}

// plainHeader decodes the fields of a document other than its entries: those before the entries and those behind. It
// takes the strings of like, an earlier revision or the zero document, where they are the same.
func plainHeader(head, tail []byte, like *ledger.NodeDoc) (d ledger.NodeDoc, ok bool) {
	var version uint64
	for _, part := range [][]byte{head, tail} {
		f := fields{rest: part}
		for last := protowire.Number(0); f.next(); last = f.number {
			if f.number == last && f.number != 4 {
				return d, false
			}
			switch {
			case f.number == 1 && f.wire == protowire.VarintType:
				version, ok = f.varint, true
			case f.number == 2 && f.wire == protowire.BytesType:
				d.NodeUID, ok = plainString(f.bytes, like.NodeUID)
			case f.number == 3 && f.wire == protowire.BytesType:
				d.NodeName, ok = plainString(f.bytes, like.NodeName)
			case f.number == 4 && f.wire == protowire.BytesType:
				ok = plainHighWater(&d, f.bytes)
			case f.number == 16 && f.wire == protowire.BytesType:
				d.SupersededBy, ok = plainString(f.bytes, like.SupersededBy)
			default:
				ok = false
			}
			if !ok {
				return d, false
			}
		}
		if f.broken {
			return d, false
		}
	}
	return d, version > 0 && version <= ledger.SchemaVersion
}

// plainHighWater adds one high-water to a document; false if its kind has one already.
func plainHighWater(d *ledger.NodeDoc, raw []byte) bool {
	f := fields{rest: raw}
	var kind string
	var rv uint64
	for last := protowire.Number(0); f.next(); last = f.number {
		ok := f.number != last
		switch {
		case f.number == 1 && f.wire == protowire.BytesType:
			kind, ok = plainKind(f.bytes, ok)
		case f.number == 2 && f.wire == protowire.VarintType:
			rv = f.varint
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	if _, twice := d.HW[kind]; twice || f.broken {
		return false
	}
	if d.HW == nil {
		d.HW = map[string]uint64{}
	}
	d.HW[kind] = rv
	return true
}

// plainKind returns a kind of facts. ok is returned as it is, unless the kind is no UTF-8.
func plainKind(raw []byte, ok bool) (kind string, valid bool) {
	switch string(raw) {
	case ledger.KindPod:
		return ledger.KindPod, ok
	case ledger.KindNode:
		return ledger.KindNode, ok
	case ledger.KindClaim:
		return ledger.KindClaim, ok
	}
	return string(raw), ok && utf8.Valid(raw)
}

// plainEntry decodes an entry. It takes the strings of like, another entry or the zero one, where they are the same.
func plainEntry(raw []byte, like *ledger.Entry) (e ledger.Entry, ok bool) {
	f := fields{rest: raw}
	for last := protowire.Number(0); f.next(); last = f.number {
		if f.number == last && f.number != 11 {
			return e, false
		}
		switch f.wire {
		case protowire.BytesType:
			ok = plainText(&e, &f, like)
		case protowire.VarintType:
			ok = plainNumber(&e, &f)
		default:
			ok = plainFixed(&e, &f)
		}
		if !ok {
			return e, false
		}
	}
	return e, !f.broken && e.PodUID != "" && e.Role != 0
}

// plainText decodes a field of an entry that has a length.
func plainText(e *ledger.Entry, f *fields, like *ledger.Entry) (ok bool) {
	switch f.number {
	case 1:
		if ok = len(f.bytes) == 16; ok {
			e.PodUID = uuidString(f.bytes)
		}
	case 2:
		e.Namespace, ok = plainString(f.bytes, like.Namespace)
	case 3:
		e.Name, ok = plainString(f.bytes, "")
	case 9:
		e.Shard, ok = plainString(f.bytes, like.Shard)
	case 10:
		e.SchedulerName, ok = plainString(f.bytes, like.SchedulerName)
	case 11:
		ok = plainRequest(e, f.bytes)
	case 17:
		e.Plan, ok = plainString(f.bytes, like.Plan)
	}
	return ok
}

// plainNumber decodes a field of an entry that is a varint.
func plainNumber(e *ledger.Entry, f *fields) bool {
	switch f.number {
	case 4:
		e.Role = ledger.Role(f.varint)
		return f.varint >= uint64(ledger.RoleReservation) && f.varint <= uint64(ledger.RoleMove)
	case 5:
		e.State = ledger.State(f.varint)
		return f.varint <= uint64(ledger.Evicting)
	case 6:
		e.Priority = int32(protowire.DecodeZigZag(f.varint))
		return f.varint <= math.MaxUint32
	case 7:
		e.PodRV = f.varint
	case 12:
		e.NonZeroCPU = int64(f.varint)
	case 13:
		e.NonZeroMemory = int64(f.varint)
	case 30:
		e.GroupPartition = int32(f.varint)
		return f.varint <= ledger.Partitions
	case 34:
		e.Cause = ledger.FenceCause(f.varint)
		return f.varint <= math.MaxUint8
	default:
		return false
	}
	return true
}

// plainFixed decodes a field of an entry that has eight bytes.
func plainFixed(e *ledger.Entry, f *fields) bool {
	switch f.number {
	case 8:
		e.Token = ledger.Token(f.varint)
	case 31:
		e.PlacementHash = f.varint
	default:
		return false
	}
	return true
}

// plainRequest adds one request to an entry; false if its resource has one already.
func plainRequest(e *ledger.Entry, raw []byte) bool {
	f := fields{rest: raw}
	var name string
	var amount int64
	for last := protowire.Number(0); f.next(); last = f.number {
		ok := f.number != last
		switch {
		case f.number == 1 && f.wire == protowire.BytesType:
			name, ok = plainResource(f.bytes, ok)
		case f.number == 2 && f.wire == protowire.VarintType:
			amount = int64(f.varint)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	if _, twice := e.Requests[name]; twice || f.broken {
		return false
	}
	if e.Requests == nil {
		e.Requests = map[string]int64{}
	}
	e.Requests[name] = amount
	return true
}

// plainResource returns the name of a resource. ok is returned as it is, unless the name is no UTF-8.
func plainResource(raw []byte, ok bool) (name string, valid bool) {
	switch string(raw) {
	case "cpu":
		return "cpu", ok
	case "memory":
		return "memory", ok
	case "ephemeral-storage":
		return "ephemeral-storage", ok
	}
	return string(raw), ok && utf8.Valid(raw)
}
