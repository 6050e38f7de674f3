package wire

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Parts is the protobuf of one pod, split without decoding it: the pod's individual data, what it has in common
// with others of its template, and the skeleton of its status, which is everything except times and restart counts.
// Decoding would be the largest cost of reading a fact, and its result would nearly always be discarded in favour
// of an existing one.
//
// Slices point into the message, or into buffers that the next read reuses. Field numbers are those of
// generated.proto in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
type Parts struct {
	// Name to NodeName are nil if the message does not have the field.
	Name, UID, ResourceVersion, NodeName []byte
	Generation                           int64
	// Created and Deleted are the creation and the deletion timestamp. Deleting distinguishes a deletion timestamp
	// that is the zero time from a missing one.
	Created, Deleted Stamp
	Deleting         bool
	Grace            *int64
	// Annotations are the entries of the map, each a message of its own.
	Annotations [][]byte
	// Changing is the part of the status that is not in the skeleton.
	Changing Changing
	// Metadata and Spec are messages without the pod's individual data; Status is complete.
	Metadata, Spec, Status, Skeleton []byte
}

// Changing is the part of a status that is individual to a pod, in the order of its fields: times, and restart
// counts.
type Changing struct {
	times  []Stamp
	counts []int32
}

// Times returns the times, and Counts the restart counts, in the order of the status's fields. The caller must not
// change them.
func (c *Changing) Times() []Stamp { return c.times }

// Counts is described at Times.
func (c *Changing) Counts() []int32 { return c.counts }

// errUnusual reports that a message is not encoded as Kubernetes' generated code does it: with ascending fields,
// repeated only in lists.
var errUnusual = errors.New("state: message in a non-canonical form")

const (
	// The numbers of the fields of a Pod.
	podMetadata = protowire.Number(1)
	podSpec     = protowire.Number(2)
	podStatus   = protowire.Number(3)
)

// Read splits a pod. After an error the bytes must be decoded, which shows whether they are a pod, and encoded
// again. The parts are valid until the next Read, and for as long as data is not changed.
func (p *Parts) Read(data []byte) error {
	*p = Parts{
		Annotations: p.Annotations[:0], Changing: Changing{p.Changing.times[:0], p.Changing.counts[:0]},
		Metadata: p.Metadata[:0], Spec: p.Spec[:0], Skeleton: p.Skeleton[:0],
	}
	last := protowire.Number(0)
	return EachField(data, func(f Field) error {
		if f.Number <= last || f.Type != protowire.BytesType {
			return errUnusual
		}
		last = f.Number
		switch f.Number {
		case podMetadata:
			return p.readMetadata(f.Bytes)
		case podSpec:
			return p.readSpec(f.Bytes)
		case podStatus:
			p.Status = f.Bytes
			return p.splitStatus(f.Bytes, &statusShape)
		default:
			return errUnusual
		}
	})
}

const (
	// The numbers of the fields of ObjectMeta that are individual to a pod. Fields up to metaGrace are scalar, and
	// must not be repeated; those above it are lists.
	metaName            = protowire.Number(1)
	metaUID             = protowire.Number(5)
	metaResourceVersion = protowire.Number(6)
	metaGeneration      = protowire.Number(7)
	metaCreated         = protowire.Number(8)
	metaDeleted         = protowire.Number(9)
	metaGrace           = protowire.Number(10)
	metaAnnotations     = protowire.Number(12)

	specNodeName = protowire.Number(10)
)

// readMetadata takes the individual fields out of the metadata and copies all others. A number that is not encoded
// as a varint, or the reverse, is not canonical.
func (p *Parts) readMetadata(data []byte) error {
	last := protowire.Number(0)
	return EachField(data, func(f Field) error {
		number := f.Number == metaGeneration || f.Number == metaGrace
		if f.Number < last || f.Number == last && f.Number <= metaGrace || number != (f.Type == protowire.VarintType) {
			return errUnusual
		}
		last = f.Number
		switch f.Number {
		case metaName:
			p.Name = f.Bytes
		case metaUID:
			p.UID = f.Bytes
		case metaResourceVersion:
			p.ResourceVersion = f.Bytes
		case metaGeneration:
			p.Generation = int64(f.Varint)
		case metaCreated:
			return p.Created.read(f.Bytes)
		case metaDeleted:
			p.Deleting = true
			return p.Deleted.read(f.Bytes)
		case metaGrace:
			grace := int64(f.Varint)
			p.Grace = &grace
		case metaAnnotations:
			p.Annotations = append(p.Annotations, f.Bytes)
			return checkEntry(f.Bytes)
		default:
			p.Metadata = append(p.Metadata, f.Raw...)
		}
		return nil
	})
}

// readSpec takes the node name out of the spec and copies everything else.
func (p *Parts) readSpec(data []byte) error {
	last := protowire.Number(0)
	return EachField(data, func(f Field) error {
		if f.Number < last {
			return errUnusual
		}
		last = f.Number
		if f.Number != specNodeName {
			p.Spec = append(p.Spec, f.Raw...)
			return nil
		}
		if p.NodeName != nil || f.Type != protowire.BytesType {
			return errUnusual
		}
		p.NodeName = f.Bytes
		return nil
	})
}

// checkEntry accepts an entry of a map of strings: name is field 1, value field 2.
func checkEntry(data []byte) error {
	next := protowire.Number(1)
	err := EachField(data, func(f Field) error {
		if f.Number != next || f.Type != protowire.BytesType {
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

// splitStatus appends a message to the skeleton without the pod's individual data, and appends that data to
// Changing, so that messages with the same skeleton differ at most in that data.
//
// It follows the shape: a field without one is copied whole; a time or a count is replaced by a mark; any other is
// entered, and its end marked, so that skeletons of different nesting differ. Addresses must be empty, because
// strip removes them: a pod that has some was not stripped, and is read the other way.
func (p *Parts) splitStatus(data []byte, s *shape) error {
	last := protowire.Number(0)
	return EachField(data, func(f Field) error {
		var inner *shape
		if f.Number < shapeFields {
			inner = s.fields[f.Number]
		}
		twice := f.Number == last && inner != nil && !slices.Contains(s.lists, f.Number)
		if f.Number < last || twice || inner != nil && (f.Type == protowire.VarintType) != (inner == &countShape) {
			return errUnusual
		}
		last = f.Number
		switch inner {
		case nil:
			p.Skeleton = append(p.Skeleton, f.Raw...)
			return nil
		case &addressShape:
			if len(f.Bytes) > 0 {
				return errUnusual
			}
			return nil
		case &timeShape:
			p.leaveOut(f)
			var at Stamp
			err := at.read(f.Bytes)
			p.Changing.times = append(p.Changing.times, at)
			return err
		case &countShape:
			p.leaveOut(f)
			p.Changing.counts = append(p.Changing.counts, int32(f.Varint))
			return nil
		default:
			p.Skeleton = protowire.AppendTag(p.Skeleton, f.Number, protowire.BytesType)
			err := p.splitStatus(f.Bytes, inner)
			p.Skeleton = protowire.AppendTag(p.Skeleton, f.Number, protowire.EndGroupType)
			return err
		}
	})
}

// leaveOut marks in the skeleton where data was left out. Groups are not in use, so their tags are available for
// that.
func (p *Parts) leaveOut(f Field) {
	p.Skeleton = protowire.AppendTag(p.Skeleton, f.Number, protowire.StartGroupType)
}

// Stamp is a metav1.Time in its protobuf form, which has whole seconds.
type Stamp struct {
	seconds int64 // since 1970
	set     bool  // false for the zero time
}

const (
	stampSeconds = protowire.Number(1)
	stampNanos   = protowire.Number(2) // written as 0, never read
)

// Time returns the metav1.Time from which the stamp was read, as Kubernetes decodes it.
func (s Stamp) Time() metav1.Time {
	if !s.set {
		return metav1.Time{}
	}
	return metav1.Time{Time: time.Unix(s.seconds, 0).Local()}
}

// read reads a time. The zero time is an empty message; nanoseconds are written as 0 by Kubernetes.
func (s *Stamp) read(data []byte) error {
	*s = Stamp{set: len(data) > 0}
	return EachField(data, func(f Field) error {
		if f.Type != protowire.VarintType || f.Number != stampSeconds && f.Number != stampNanos {
			return errUnusual
		}
		if f.Number == stampSeconds {
			s.seconds = int64(f.Varint)
		}
		return nil
	})
}
