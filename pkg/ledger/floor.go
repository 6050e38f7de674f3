package ledger

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Floor stands in for the documents that were collected. A document that does not exist has these high-waters. A
// document may have come and gone since a member last looked, so every transaction that relies on a document's
// absence compares the floor's revision (NodeDoc.Floor, BudgetDoc.Floor, ExclusiveDoc.Floor).
type Floor struct {
	HW map[string]uint64
	// Revision is the mod revision it was read at; 0 while nothing was ever collected.
	Revision int64
	Later    string
}

// of returns the high-waters of some kinds that a new document starts from; nil if there are none.
func (f Floor) of(kinds ...string) (hw map[string]uint64) {
	for _, kind := range kinds {
		hw = raised(hw, kind, f.HW[kind])
	}
	return hw
}

// EncodeFloor encodes the value of the key floor.
func EncodeFloor(f Floor) ([]byte, error) {
	m := &ledgerpb.Floor{Version: SchemaVersion, HighWater: highWaterToProto(f.HW)}
	keep(m, f.Later)
	return marshal(m)
}

// DecodeFloor decodes the key floor as stored.
func DecodeFloor(kv KV) (Floor, error) {
	var m ledgerpb.Floor
	err := unmarshal(kv.Value, &m, m.GetVersion)
	f := Floor{Revision: kv.ModRevision, Later: later(&m)}
	if err == nil {
		f.HW, err = highWaterFromProto(m.GetHighWater())
	}
	if err != nil {
		return Floor{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return f, nil
}

// absent compares the floor for documents that do not exist. All of them must have been read under one floor;
// otherwise it returns a *RefusedError.
func (t *Txn) absent(revision, floor int64) error {
	if revision != 0 {
		return nil
	}
	for _, c := range t.Compares {
		if c.Key != KeyFloor {
			continue
		}
		if c.Revision != floor {
			return &RefusedError{Step: "compare of the floor", Reason: fmt.Sprintf(
				"documents that do not exist were read under its revisions %d and %d", c.Revision, floor)}
		}
		return nil
	}
	t.Compares = append(t.Compares, Compare{Key: KeyFloor, Target: ModRevision, Revision: floor})
	return nil
}
