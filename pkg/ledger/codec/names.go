package codec

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// EncodeFloor encodes the value of the key floor. The floor has no bound of its own: it has one high-water per kind.
func EncodeFloor(f ledger.Floor) ([]byte, error) {
	m := &ledgerpb.Floor{Version: ledger.SchemaVersion, HighWater: highWaterToProto(f.HW)}
	RestoreUnknown(m, f.Later)
	return Marshal(m)
}

// DecodeFloor decodes the key floor as stored. It refuses values of a later schema, and a kind that is given twice.
func DecodeFloor(kv ledger.KV) (ledger.Floor, error) {
	var m ledgerpb.Floor
	err := Unmarshal(kv.Value, &m, m.GetVersion)
	f := ledger.Floor{Revision: kv.ModRevision, Later: Unknown(&m)}
	if err == nil {
		f.HW, err = highWaterFromProto(m.GetHighWater())
	}
	if err != nil {
		return ledger.Floor{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return f, nil
}

// EncodeIncarnation encodes the value of incarnation/<node name>; the name and the revision are not part of it.
func EncodeIncarnation(i ledger.Incarnation) ([]byte, error) {
	if i.NodeUID == "" {
		return nil, fmt.Errorf("ledger: incarnation of node name %q has no node UID", i.NodeName)
	}
	return Marshal(&ledgerpb.Incarnation{Version: ledger.SchemaVersion, NodeUid: i.NodeUID, NodeResourceVersion: i.NodeRV})
}

// DecodeIncarnation decodes incarnation/<node name> as stored. It refuses values of a later schema or without a UID.
func DecodeIncarnation(kv ledger.KV) (ledger.Incarnation, error) {
	var m ledgerpb.Incarnation
	err := Unmarshal(kv.Value, &m, m.GetVersion)
	if err == nil && m.GetNodeUid() == "" {
		err = fmt.Errorf("no node UID")
	}
	if err != nil {
		return ledger.Incarnation{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return ledger.Incarnation{
		NodeName: strings.TrimPrefix(kv.Key, ledger.PrefixIncarnation), NodeUID: m.GetNodeUid(),
		NodeRV: m.GetNodeResourceVersion(), Revision: kv.ModRevision,
	}, nil
}
