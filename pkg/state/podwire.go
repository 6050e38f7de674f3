package state

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// podParts is the protobuf of one pod, taken apart without decoding it: what is the pod's
// own, what it has in common with others of its template, and the skeleton of its status,
// which is all but times and counts of restarts. Slices point into the message, or into buffers that the next
// read uses again. Field numbers are those of generated.proto in k8s.io/api/core/v1 and
// k8s.io/apimachinery/pkg/apis/meta/v1.
type podParts struct {
	name, uid, resourceVersion, nodeName []byte
	generation                           int64
	created, deleted                     stamp
	deleting                             bool
	grace                                *int64
	// annotations are the entries of the map, each a message of its own.
	annotations [][]byte
	// times and counts of restarts in the status, in the order of their fields.
	times  []stamp
	counts []int32
	// metadata and spec are messages without what is the pod's own; status is the whole.
	metadata, spec, status, skeleton []byte
}

// errUnusual says that a message is not written as the generated code of Kubernetes writes
// it: fields ascend, and come twice only in lists.
var errUnusual = errors.New("state: message in an unusual form")

const (
	podMetadata = protowire.Number(1)
	podSpec     = protowire.Number(2)
	podStatus   = protowire.Number(3)
)

// read takes a pod apart. After an error the bytes must be decoded, which tells whether
// they are a pod, and written again.
func (p *podParts) read(data []byte) error {
	*p = podParts{
		annotations: p.annotations[:0], times: p.times[:0], counts: p.counts[:0],
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
		default:
			p.metadata = append(p.metadata, f.raw...)
		}
		return nil
	})
}

func (p *podParts) readSpec(data []byte) error {
	return eachField(data, func(f field) error {
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

// shape says where in a message there is what is a pod's own.
type shape struct {
	// fields by number; nil for those with nothing of the sort in them.
	fields [shapeFields]*shape
	// lists are those of fields that may come several times.
	lists []protowire.Number
}

// shapeFields is one more than the largest number that stands in a shape.
const shapeFields = 17

// The shapes of a pod's status. timeShape marks a time, countShape a count, dropShape what is
// not kept.
var (
	timeShape, countShape, dropShape shape

	runningShape    = shape{fields: [shapeFields]*shape{1: &timeShape}}
	terminatedShape = shape{fields: [shapeFields]*shape{5: &timeShape, 6: &timeShape}}
	stateShape      = shape{fields: [shapeFields]*shape{2: &runningShape, 3: &terminatedShape}}
	containerShape  = shape{fields: [shapeFields]*shape{2: &stateShape, 3: &stateShape, 5: &countShape}}
	conditionShape  = shape{fields: [shapeFields]*shape{3: &timeShape, 4: &timeShape}}
	statusShape     = shape{
		fields: [shapeFields]*shape{
			2: &conditionShape, 7: &timeShape, 8: &containerShape, 10: &containerShape, 13: &containerShape,
			// The addresses, which Strip removes too.
			5: &dropShape, 6: &dropShape, 12: &dropShape, 16: &dropShape,
		},
		lists: []protowire.Number{2, 8, 10, 12, 13, 16},
	}
)

// hollow appends a message to the skeleton without what is the pod's own, and that to times
// and counts, so that messages with the same skeleton differ in those at most.
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
		case &dropShape:
			return nil
		case &timeShape:
			p.leaveOut(f)
			p.times = append(p.times, stamp{})
			return p.times[len(p.times)-1].read(f.bytes)
		case &countShape:
			p.leaveOut(f)
			p.counts = append(p.counts, int32(f.varint))
			return nil
		default:
			p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.BytesType)
			err := p.hollow(f.bytes, inner)
			p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.EndGroupType)
			return err
		}
	})
}

// leaveOut marks in the skeleton where something was. Groups are not in use, so that their
// tags can mean that.
func (p *podParts) leaveOut(f field) {
	p.skeleton = protowire.AppendTag(p.skeleton, f.number, protowire.StartGroupType)
}

// stamp is a metav1.Time as its protobuf has it, which knows whole seconds.
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
