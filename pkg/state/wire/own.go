package wire

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// The data of a pod that is individual to it and not among its fields is seldom read, and there are many pods. So a
// Pod stores it in the few bytes that AppendOwn writes and ReadOwn reads:
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

// MaxUsual is the number of usual annotations for which the mask in a pod has room.
const MaxUsual = 64

// AppendOwn appends the individual data of a pod with this resourceVersion, whose form has these usual annotations.
// Times are written as distances from the creation, which are short; a resourceVersion is written only if the
// number rv does not stand for it.
func (p *Parts) AppendOwn(b []byte, usual []string, rv uint64) []byte {
	start := len(b)
	b = append(b, 0)
	var version [20]byte
	if !bytes.Equal(strconv.AppendUint(version[:0], rv, 10), p.ResourceVersion) {
		b[start] |= ownVersion
		b = AppendSized(b, p.ResourceVersion)
	}
	b = binary.AppendVarint(b, p.Generation)
	b = appendStamp(b, p.Created, epoch)
	if p.Deleting {
		b[start] |= ownDeleted
		b = appendStamp(b, p.Deleted, p.Created.seconds)
	}
	if p.Grace != nil {
		b[start] |= ownGrace
		b = binary.AppendVarint(b, *p.Grace)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Changing.times)))
	for _, t := range p.Changing.times {
		b = appendStamp(b, t, p.Created.seconds)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Changing.counts)))
	for _, n := range p.Changing.counts {
		b = binary.AppendVarint(b, int64(n))
	}
	return p.appendAnnotations(b, usual)
}

// appendAnnotations writes a mask of the usual annotations that the pod lacks, and its other ones whole. Pods of
// one form mostly have the same annotations, and then this is one byte.
func (p *Parts) appendAnnotations(b []byte, usual []string) []byte {
	absent := uint64(1)<<len(usual) - 1
	var room [MaxUsual][]byte
	others := room[:0]
	for _, entry := range p.Annotations {
		if i := indexOf(usual, entry); i >= 0 {
			absent &^= 1 << i
		} else {
			others = append(others, entry)
		}
	}
	b = binary.AppendUvarint(b, absent)
	for _, entry := range others {
		b = AppendSized(b, entry)
	}
	return b
}

// indexOf returns the position of an entry among the usual ones, -1 if it is none of them.
func indexOf(usual []string, entry []byte) int {
	for i, u := range usual {
		if u == string(entry) {
			return i
		}
	}
	return -1
}

// appendStamp writes a stamp as its distance from a time: 0 if it is not set, else one more than the zigzag
// encoding of the difference.
func appendStamp(b []byte, s Stamp, from int64) []byte {
	if !s.set {
		return append(b, 0)
	}
	diff := s.seconds - from
	return binary.AppendUvarint(b, uint64(diff<<1)^uint64(diff>>63)+1)
}

// Own holds the parts that AppendOwn wrote. The annotations are still encoded, in rest.
type Own struct {
	ResourceVersion  string
	Generation       int64
	Created, Deleted Stamp
	Deleting         bool
	Grace            *int64
	Changing         Changing
	rest             ownReader
}

// ReadOwn reads all of a pod's individual data, or stops after Created, which is the most frequently read part.
func ReadOwn(own string, rv uint64, all bool) Own {
	if own == "" {
		return Own{ResourceVersion: strconv.FormatUint(rv, 10)}
	}
	var o Own
	flags, r := own[0], ownReader{own[1:]}
	if flags&ownVersion != 0 {
		o.ResourceVersion = r.part()
	} else if all {
		o.ResourceVersion = strconv.FormatUint(rv, 10)
	}
	o.Generation, o.Created = r.varint(), r.stamp(epoch)
	if !all {
		return o
	}
	if flags&ownDeleted != 0 {
		o.Deleting, o.Deleted = true, r.stamp(o.Created.seconds)
	}
	if flags&ownGrace != 0 {
		grace := r.varint()
		o.Grace = &grace
	}
	o.Changing.times = make([]Stamp, r.uvarint())
	for i := range o.Changing.times {
		o.Changing.times[i] = r.stamp(o.Created.seconds)
	}
	o.Changing.counts = make([]int32, r.uvarint())
	for i := range o.Changing.counts {
		o.Changing.counts[i] = int32(r.varint())
	}
	o.rest = r
	return o
}

// ownReader reads the parts one after the other. They were written by this process, so there are no errors to
// report.
type ownReader struct{ rest string }

// uvarint reads what binary.AppendUvarint wrote. binary.Uvarint would need a slice, and so a copy of the string.
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

// unzigzag decodes a signed number as binary.AppendVarint encodes it: small in either direction, few bytes.
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// part reads what AppendSized wrote.
func (r *ownReader) part() string {
	n := min(r.uvarint(), uint64(len(r.rest)))
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

// stamp reads what appendStamp wrote for the same reference time.
func (r *ownReader) stamp(from int64) Stamp {
	v := r.uvarint()
	if v == 0 {
		return Stamp{}
	}
	return Stamp{seconds: unzigzag(v-1) + from, set: true}
}

// Annotations decodes the annotations and passes the name and value of each to visit, the usual ones first. usual
// must be the list with which they were written.
func (o *Own) Annotations(usual []string, visit func(name, value string)) {
	r := o.rest
	absent := r.uvarint()
	for i, entry := range usual {
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
