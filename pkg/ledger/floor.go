package ledger

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Floor is what the documents that were collected stood for. A document that does not exist has
// these high-waters; and because one may have come and gone since a member has looked, whoever
// relies on a document's absence compares the floor's revision (NodeDoc.Floor, BudgetDoc.Floor,
// ExclusiveDoc.Floor).
type Floor struct {
	HW map[string]uint64
	// Revision is the mod revision it was read at; 0 while nothing was ever collected.
	Revision int64
	Later    string
}

// of are the high-waters of some kinds that a document starts from; nil for none.
func (f Floor) of(kinds ...string) (hw map[string]uint64) {
	for _, kind := range kinds {
		hw = raised(hw, kind, f.HW[kind])
	}
	return hw
}

// EncodeFloor is the value of floor.
func EncodeFloor(f Floor) ([]byte, error) {
	m := &ledgerpb.Floor{Version: SchemaVersion, HighWater: highWaterToProto(f.HW)}
	keep(m, f.Later)
	return marshal(m)
}

// DecodeFloor reads floor as stored.
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

// absent compares the floor for documents that do not exist. All of them must have been read under
// one floor: *RefusedError if not.
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
