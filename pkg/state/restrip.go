package state

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// StripFact returns the object of a fact without what Strip removes. An object that is stripped already is returned
// byte for byte. The error explains why the object cannot be decoded. It is for facts that leave the cluster: the
// queue keeps more of pods and nodes where extenders or custom plugins are configured (strip.KeepSpec).
func StripFact(f events.Fact) ([]byte, error) {
	obj, err := decodeObject(f)
	if err != nil {
		return nil, err
	}
	return strippedBytes(obj)
}

// strippedBytes strips an object that the caller owns, and encodes it.
func strippedBytes(obj APIObject) ([]byte, error) {
	strip.Strip(obj)
	return obj.Marshal()
}

// StripSnapshot strips every object of what Marshal wrote. It refuses a snapshot that it cannot read completely:
// one of a later version, or one that holds objects of a kind that this version does not know.
func StripSnapshot(data []byte) ([]byte, error) {
	p, err := SnapshotPosition(data)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	b := p.appendTo(make([]byte, 0, len(data)))
	_, err = parseStore(data, func(it item) error {
		obj, err := newAPIObject(it.kind)
		if err != nil {
			return err
		}
		if err := obj.Unmarshal(it.object); err != nil {
			return fmt.Errorf("state: snapshot: %s: object: %w", it.kind, err)
		}
		object, err := strippedBytes(obj)
		b = appendItem(b, fieldItem, it.kind, it.resourceVersion, object)
		return err
	})
	return b, err
}

// appendTo writes the beginning of a snapshot.
func (p *Position) appendTo(b []byte) []byte {
	b = appendUint(b, fieldVersion, SnapshotVersion)
	b = appendUint(b, fieldSequence, p.Sequence)
	b = appendUint(b, fieldEpoch, p.Epoch)
	b = appendUint(b, fieldRepairing, protowire.EncodeBool(p.repairing))
	for i, k := range kinds {
		if p.progress[i] != 0 {
			b = appendItem(b, fieldProgress, k, p.progress[i], nil)
		}
	}
	return b
}
