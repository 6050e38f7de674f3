package state

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// podParts is the protobuf of one pod, split without decoding it: the pod's individual data, what it has in common
// with others of its template, and the skeleton of its status, which is everything except times and restart counts.
// Decoding would be the largest cost of reading a fact, and its result would nearly always be discarded in favour
// of an existing one.
//
// Slices point into the message, or into buffers that the next read reuses. Field numbers are those of
// generated.proto in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
type podParts struct {
	name, uid, resourceVersion, nodeName []byte
	generation                           int64
	created, deleted                     stamp
	deleting                             bool
	grace                                *int64
	// annotations are the entries of the map, each a message of its own.
	annotations [][]byte
	// changing is the part of the status that is not in the skeleton.
	changing changing
	// metadata and spec are messages without the pod's individual data; status is complete.
	metadata, spec, status, skeleton []byte
}

// changing is the part of a status that is individual to a pod, in the order of its fields: times, and restart
// counts.
type changing struct {
	times  []stamp
	counts []int32
}

// errUnusual reports that a message is not encoded as Kubernetes' generated code does it: with ascending fields,
// repeated only in lists.
var errUnusual = errors.New("state: message in a non-canonical form")

const (
	podMetadata = protowire.Number(1)
	podSpec     = protowire.Number(2)
	podStatus   = protowire.Number(3)
)

// read splits a pod. After an error the bytes must be decoded, which shows whether they are a pod, and encoded
// again.
func (p *podParts) read(data []byte) error {
	*p = podParts{
		annotations: p.annotations[:0], changing: changing{p.changing.times[:0], p.changing.counts[:0]},
		metadata: p.metadata[:0], spec: p.spec[:0], skeleton: p.skeleton[:0],
	}
	last := protowire.Number(0)
	return eachField(data, func(f field) error {
		if f.number <= last || f.kind != protowire.BytesType {
			return errUnusual
		}
		last = f.number
		switch f.number {
		case podMetadata:
			return p.readMetadata(f.bytes)
		case podSpec:
			return p.readSpec(f.bytes)
		case podStatus:
			p.status = f.bytes
			return p.hollow(f.bytes, &statusShape)
		default:
			return errUnusual
		}
	})
}

const (
	metaName            = protowire.Number(1)
	metaUID             = protowire.Number(5)
	metaResourceVersion = protowire.Number(6)
	metaGeneration      = protowire.Number(7)
	metaCreated         = protowire.Number(8)
	metaDeleted         = protowire.Number(9)
	metaGrace           = protowire.Number(10)
	metaAnnotations     = protowire.Number(12)
)

func (p *podParts) readMetadata(data []byte) error {
	last := protowire.Number(0)
	return eachField(data, func(f field) error {
		number := f.number == metaGeneration || f.number == metaGrace
		if f.number < last || f.number == last && f.number <= metaGrace || number != (f.kind == protowire.VarintType) {
			return errUnusual
		}
		last = f.number
		switch f.number {
		case metaName:
			p.name = f.bytes
		case metaUID:
			p.uid = f.bytes
		case metaResourceVersion:
			p.resourceVersion = f.bytes
		case metaGeneration:
			p.generation = int64(f.varint)
		case metaCreated:
			return p.created.read(f.bytes)
		case metaDeleted:
			p.deleting = true
			return p.deleted.read(f.bytes)
		case metaGrace:
			grace := int64(f.varint)
			p.grace = &grace
		case metaAnnotations:
			p.annotations = append(p.annotations, f.bytes)
			return checkEntry(f.bytes)
		default:
			p.metadata = append(p.metadata, f.raw...)
		}
		return nil
	})
}

func (p *podParts) readSpec(data []byte) error {
	last := protowire.Number(0)
	return eachField(data, func(f field) error {
		if f.number < last {
			return errUnusual
		}
		last = f.number
		if f.number != specNodeName {
			p.spec = append(p.spec, f.raw...)
			return nil
		}
		if p.nodeName != nil || f.kind != protowire.BytesType {
			return errUnusual
		}
		p.nodeName = f.bytes
		return nil
	})
}

// checkEntry accepts an entry of a map of strings: name is field 1, value field 2.
func checkEntry(data []byte) error {
	next := protowire.Number(1)
	err := eachField(data, func(f field) error {
		if f.number != next || f.kind != protowire.BytesType {
			return errUnusual
		}
		next++
		return nil
	})
	if err == nil && next != 3 {
		err = errUnusual
	}
	return err
}

// shape describes where in a message there is individual data of a pod.
type shape struct {
	// fields by number; nil for those without such data.
	fields [shapeFields]*shape
	// lists are those of fields that may come several times.
	lists []protowire.Number
}

// shapeFields is one more than the largest field number in a shape.
const shapeFields = 17

// The shapes of a pod's status. timeShape marks a time, countShape a count, addressShape an address, which Strip
// removes.
var (
	timeShape, countShape, addressShape shape

	runningShape    = shape{fields: [shapeFields]*shape{1: &timeShape}}
	terminatedShape = shape{fields: [shapeFields]*shape{5: &timeShape, 6: &timeShape}}
	stateShape      = shape{fields: [shapeFields]*shape{2: &runningShape, 3: &terminatedShape}}
	containerShape  = shape{fields: [shapeFields]*shape{2: &stateShape, 3: &stateShape, 5: &countShape}}
	conditionShape  = shape{fields: [shapeFields]*shape{3: &timeShape, 4: &timeShape}}
	statusShape     = shape{
		fields: [shapeFields]*shape{
			2: &conditionShape, 7: &timeShape, 8: &containerShape, 10: &containerShape, 13: &containerShape,
			5: &addressShape, 6: &addressShape, 12: &addressShape, 16: &addressShape,
		},
		lists: []protowire.Number{2, 8, 10, 13},
	}
)

// hollow appends a message to the skeleton without the pod's individual data, and appends that data to changing, so
// that messages with the same skeleton differ at most in that data.
func (p *podParts) hollow(data []byte, s *shape) error {
	last := protowire.Number(0)
	return eachField(data, func(f field) error {
		var inner *shape
		if f.number < shapeFields {
			inner = s.fields[f.number]
		}
		twice := f.number == last && inner != nil && !slices.Contains(s.lists, f.number)
		if f.number < last || twice || inner != nil && (f.kind == protowire.VarintType) != (inner == &countShape) {
			return errUnusual
		}
		last = f.number
		switch inner {
		case nil:
			p.skeleton = append(p.skeleton, f.raw...)
			return nil
		case &addressShape:
			if len(f.bytes) > 0 {
				return errUnusual
			}
			return nil
		case &timeShape:
			p.leaveOut(f)
			var at stamp
			err := at.read(f.bytes)
			p.changing.times = append(p.changing.times, at)
			return err
		case &countShape:
			p.leaveOut(f)
			p.changing.counts = append(p.changing.counts, int32(f.varint))
			return nil
		default:
			p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.BytesType)
			err := p.hollow(f.bytes, inner)
			p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.EndGroupType)
			return err
		}
	})
}

// leaveOut marks in the skeleton where data was left out. Groups are not in use, so their tags are available for
// that.
func (p *podParts) leaveOut(f field) {
	p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.StartGroupType)
}

// stamp is a metav1.Time in its protobuf form, which has whole seconds.
type stamp struct {
	seconds int64 // since 1970
	set     bool  // false for the zero time
}

const (
	stampSeconds = protowire.Number(1)
	stampNanos   = protowire.Number(2) // written as 0, never read
)

func (s *stamp) read(data []byte) error {
	*s = stamp{set: len(data) > 0}
	return eachField(data, func(f field) error {
		if f.kind != protowire.VarintType || f.number != stampSeconds && f.number != stampNanos {
			return errUnusual
		}
		if f.number == stampSeconds {
			s.seconds = int64(f.varint)
		}
		return nil
	})
}
