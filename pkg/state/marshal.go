package state

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// SnapshotVersion is the version that Marshal writes. Restore reads it and all earlier versions.
const SnapshotVersion = 1

// A marshalled store is one protobuf message:
//
//	message Store {
//	  uint64 version = 1;   // first, so that a reader can refuse before it trusts the rest
//	  uint64 sequence = 2;
//	  uint64 epoch = 3;
//	  bool repairing = 4;
//	  repeated Progress progress = 5;
//	  repeated Item items = 6;
//	}
//	message Progress { string kind = 1; uint64 resource_version = 2; }
//	message Item { string kind = 1; uint64 resource_version = 2; bytes object = 3; }
//
// Items are sorted by kind, namespace and name, and objects are written as their own
// protobuf, whose maps are sorted too: equal states give equal bytes.
const (
	fieldVersion   = protowire.Number(1)
	fieldSequence  = protowire.Number(2)
	fieldEpoch     = protowire.Number(3)
	fieldRepairing = protowire.Number(4)
	fieldProgress  = protowire.Number(5)
	fieldItem      = protowire.Number(6)

	fieldKind            = protowire.Number(1)
	fieldResourceVersion = protowire.Number(2)
	fieldObject          = protowire.Number(3)
)

// Marshal encodes the store for eventlog.Snapshots, and returns the sequence it stands for. The barrier belongs to
// the reader and is not part of it.
func (s *Store) Marshal() ([]byte, uint64, error) { return s.Snapshot().Marshal() }

// Marshal encodes the state for eventlog.Snapshots; any goroutine may call it. It assembles every object, so its
// cost is that of the whole state. On an error the bytes are incomplete.
func (s *Snapshot) Marshal() ([]byte, uint64, error) {
	p := s.position
	b := p.appendTo(nil)
	var failed error
	item := func(k events.Kind, rv uint64, obj APIObject) bool {
		data, err := obj.Marshal()
		if err != nil {
			failed = fmt.Errorf("state: marshal %s %s/%s: %w", k, obj.GetNamespace(), obj.GetName(), err)
			return false
		}
		b = appendItem(b, fieldItem, k, rv, data)
		return true
	}
	s.eachObject(item)
	return b, p.Sequence, failed
}

// eachObject visits every object in the order of kinds, sorted within each.
func (s *Snapshot) eachObject(visit func(events.Kind, uint64, APIObject) bool) {
	for pod := range s.Pods() {
		if !visit(events.KindPod, pod.ResourceVersion, pod.Object()) {
			return
		}
	}
	for node := range s.Nodes() {
		if !visit(events.KindNode, node.ResourceVersion, node.api()) {
			return
		}
	}
	for _, k := range kinds[2:] {
		for o := range s.Objects(k) {
			if !visit(k, o.ResourceVersion, o.API) {
				return
			}
		}
	}
}

// appendUint writes a varint field, and appendItem a Progress or an Item.
func appendUint(b []byte, field protowire.Number, v uint64) []byte {
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

func appendItem(b []byte, field protowire.Number, k events.Kind, rv uint64, object []byte) []byte {
	inner := protowire.AppendTag(nil, fieldKind, protowire.BytesType)
	inner = protowire.AppendString(inner, string(k))
	inner = appendUint(inner, fieldResourceVersion, rv)
	if object != nil {
		inner = protowire.AppendTag(inner, fieldObject, protowire.BytesType)
		inner = protowire.AppendBytes(inner, object)
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, inner)
}

// Restore decodes what Marshal wrote; nil or empty data gives an empty store. The result equals the store that was
// marshalled and continues after its sequence (I4), except for objects of kinds that only a later version knows:
// see Snapshot.Partial.
//
// It writes restoreBatch objects at a time, so that drafts stay small. On an error the half-built store is
// discarded. Pods are read without decoding, as facts are; objects of other kinds are decoded.
func Restore(data []byte) (*Store, error) {
	s := New()
	if len(data) == 0 {
		return s, nil
	}
	a := newApplication(s, Position{})
	count, partial := 0, false
	p, err := parseStore(data, func(it item) error {
		if !it.kind.Known() {
			partial = true
			return nil
		}
		if count++; count%restoreBatch == 0 {
			if err := a.write(s); err != nil {
				return err
			}
			a = newApplication(s, Position{})
		}
		return a.restore(it)
	})
	if err != nil {
		return nil, err
	}
	if err := a.write(s); err != nil {
		return nil, err
	}
	s.publish(p, &application{partial: partial})
	return s, nil
}

// restore adds the object of an Item.
func (a *application) restore(it item) error {
	obj, err := newAPIObject(it.kind)
	if err != nil {
		return err
	}
	failed := func(err error) error { return fmt.Errorf("state: restore %s: %w", it.kind, err) }
	if it.kind == events.KindPod {
		pod, err := a.reader.read(it.object, it.resourceVersion)
		if err != nil {
			return failed(err)
		}
		before, slot := a.pods.find(pod.UID)
		return a.putPod(pod, before, slot, it.resourceVersion)
	}
	if err := obj.Unmarshal(it.object); err != nil {
		return failed(err)
	}
	if node, ok := obj.(*corev1.Node); ok {
		a.replaceNode(nil, newNode(node, it.resourceVersion))
	} else {
		a.replaceObject(it.kind, nil, newObject(it.kind, obj, it.resourceVersion))
	}
	return nil
}

// restoreBatch is how many objects Restore writes at a time: enough for tree paths to be shared, and few enough for
// drafts to stay small compared with the store.
const restoreBatch = 4096

// SnapshotPosition reads the position of marshalled data without building the store.
func SnapshotPosition(data []byte) (Position, error) {
	if len(data) == 0 {
		return Position{}, nil
	}
	return parseStore(data, func(item) error { return nil })
}

// item is a Progress or an Item as read; object is part of the message and must not be kept.
type item struct {
	kind            events.Kind
	resourceVersion uint64
	object          []byte
}

// parseStore decodes the message and passes each Item to visit. It skips unknown fields and refuses an unknown
// version. The position is complete only when all of the message has been read, since fields may come in any order.
func parseStore(data []byte, visit func(item) error) (Position, error) {
	var p Position
	var version uint64
	err := wire.EachField(data, func(f wire.Field) error {
		switch f.Number {
		case fieldVersion:
			version = f.Varint
			if version == 0 || version > SnapshotVersion {
				return fmt.Errorf("state: snapshot version %d, want 1 to %d", version, SnapshotVersion)
			}
		case fieldSequence:
			p.Sequence = f.Varint
		case fieldEpoch:
			p.Epoch = f.Varint
		case fieldRepairing:
			p.repairing = protowire.DecodeBool(f.Varint)
		case fieldProgress, fieldItem:
			it, err := parseItem(f.Bytes)
			if err != nil {
				return err
			}
			if f.Number == fieldItem {
				return visit(it)
			}
			if i, err := kindIndex(it.kind); err == nil { // other kinds are those of a later version
				p.progress[i] = it.resourceVersion
			}
		}
		return nil
	})
	if err == nil && version == 0 {
		err = errors.New("state: snapshot without a version")
	}
	return p, err
}

// parseItem decodes a Progress or an Item, and ignores unknown fields.
func parseItem(data []byte) (item, error) {
	var it item
	err := wire.EachField(data, func(f wire.Field) error {
		switch f.Number {
		case fieldKind:
			it.kind = events.Kind(f.Bytes)
		case fieldResourceVersion:
			it.resourceVersion = f.Varint
		case fieldObject:
			it.object = f.Bytes
		}
		return nil
	})
	return it, err
}
