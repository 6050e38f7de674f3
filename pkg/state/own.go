package state

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// The data of a pod that is individual to it and not among its fields is seldom read, and there are many pods. So a
// Pod stores it in the few bytes that appendOwn writes and ownReader reads:
//
//	flags, one byte
//	resourceVersion of the object, a string, if it is not the pod's
//	generation, varint
//	created, a stamp from epoch
//	deleted, a stamp from created, and grace, varint, if they are set
//	times of the status: their number, and stamps from created
//	restart counts: their number, and varints
//	annotations: a mask of the form's usual ones that the pod does not have, then the others
const (
	ownVersion = 1 << iota
	ownDeleted
	ownGrace
)

// epoch is the start of 2020 in seconds since 1970: a time near it is short.
const epoch = 1_577_836_800

// appendOwn writes the individual data of a pod of form f with this resourceVersion.
func (p *podParts) appendOwn(b []byte, f *form, rv uint64) []byte {
	start := len(b)
	b = append(b, 0)
	var version [20]byte
	if !bytes.Equal(strconv.AppendUint(version[:0], rv, 10), p.resourceVersion) {
		b[start] |= ownVersion
		b = appendBytes(b, p.resourceVersion)
	}
	b = binary.AppendVarint(b, p.generation)
	b = appendStamp(b, p.created, epoch)
	if p.deleting {
		b[start] |= ownDeleted
		b = appendStamp(b, p.deleted, p.created.seconds)
	}
	if p.grace != nil {
		b[start] |= ownGrace
		b = binary.AppendVarint(b, *p.grace)
	}
	b = binary.AppendUvarint(b, uint64(len(p.changing.times)))
	for _, t := range p.changing.times {
		b = appendStamp(b, t, p.created.seconds)
	}
	b = binary.AppendUvarint(b, uint64(len(p.changing.counts)))
	for _, n := range p.changing.counts {
		b = binary.AppendVarint(b, int64(n))
	}
	return p.appendAnnotations(b, f)
}

func (p *podParts) appendAnnotations(b []byte, f *form) []byte {
	absent := uint64(1)<<len(f.usual) - 1
	var room [maxUsual][]byte
	others := room[:0]
	for _, entry := range p.annotations {
		if i := f.usualIndex(entry); i >= 0 {
			absent &^= 1 << i
		} else {
			others = append(others, entry)
		}
	}
	b = binary.AppendUvarint(b, absent)
	for _, entry := range others {
		b = appendBytes(b, entry)
	}
	return b
}

func (f *form) usualIndex(entry []byte) int {
	for i, usual := range f.usual {
		if usual == string(entry) {
			return i
		}
	}
	return -1
}

// appendStamp writes a stamp as its distance from a time: 0 if it is not set, else one more than the zigzag
// encoding of the difference.
func appendStamp(b []byte, s stamp, from int64) []byte {
	if !s.set {
		return append(b, 0)
	}
	diff := s.seconds - from
	return binary.AppendUvarint(b, uint64(diff<<1)^uint64(diff>>63)+1)
}

// ownParts holds the parts that appendOwn wrote. The annotations are still encoded, in rest.
type ownParts struct {
	resourceVersion  string
	generation       int64
	created, deleted stamp
	deleting         bool
	grace            *int64
	changing         changing
	rest             ownReader
}

// readOwn reads all of the pod's individual data, or stops after created, which is the most frequently read part.
func (p *Pod) readOwn(all bool) ownParts {
	if p.own == "" {
		return ownParts{resourceVersion: strconv.FormatUint(p.ResourceVersion, 10)}
	}
	var o ownParts
	flags, r := p.own[0], ownReader{p.own[1:]}
	if flags&ownVersion != 0 {
		o.resourceVersion = r.part()
	} else if all {
		o.resourceVersion = strconv.FormatUint(p.ResourceVersion, 10)
	}
	o.generation, o.created = r.varint(), r.stamp(epoch)
	if !all {
		return o
	}
	if flags&ownDeleted != 0 {
		o.deleting, o.deleted = true, r.stamp(o.created.seconds)
	}
	if flags&ownGrace != 0 {
		grace := r.varint()
		o.grace = &grace
	}
	o.changing.times = make([]stamp, r.uvarint())
	for i := range o.changing.times {
		o.changing.times[i] = r.stamp(o.created.seconds)
	}
	o.changing.counts = make([]int32, r.uvarint())
	for i := range o.changing.counts {
		o.changing.counts[i] = int32(r.varint())
	}
	o.rest = r
	return o
}

// ownReader reads the parts one after the other. They were written by this process, so there are no errors to
// report.
type ownReader struct{ rest string }

func (r *ownReader) uvarint() uint64 {
	var v uint64
	for shift := 0; len(r.rest) > 0; shift += 7 {
		b := r.rest[0]
		r.rest = r.rest[1:]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v
}

func (r *ownReader) varint() int64 { return unzigzag(r.uvarint()) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (r *ownReader) part() string {
	n := min(r.uvarint(), uint64(len(r.rest)))
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *ownReader) stamp(from int64) stamp {
	v := r.uvarint()
	if v == 0 {
		return stamp{}
	}
	return stamp{seconds: unzigzag(v-1) + from, set: true}
}

// annotations decodes the entries and passes the name and value of each to visit.
func (r *ownReader) annotations(f *form, visit func(name, value string)) {
	absent := r.uvarint()
	for i, entry := range f.usual {
		if absent&(1<<i) == 0 {
			visit(readEntry(entry))
		}
	}
	for len(r.rest) > 0 {
		visit(readEntry(r.part()))
	}
}

// readEntry decodes an entry of a map of strings: name is field 1, value field 2.
func readEntry(entry string) (name, value string) {
	r := ownReader{entry}
	for len(r.rest) > 0 {
		switch tag := r.uvarint(); tag {
		case 1<<3 | 2:
			name = r.part()
		default:
			value = r.part()
		}
	}
	return name, value
}
