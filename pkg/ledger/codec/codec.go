package codec

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// EncodeNodeDoc encodes the value of a document; equal documents have equal bytes. The revision is not part of it.
// It returns a *DocTooLargeError when the document exceeds the limits.
func EncodeNodeDoc(d ledger.NodeDoc) ([]byte, error) {
	if d.NodeUID == "" {
		return nil, fmt.Errorf("ledger: document of node %q has no node UID", d.NodeName)
	}
	m := &ledgerpb.NodeDoc{
		Version: ledger.SchemaVersion, NodeUid: d.NodeUID, NodeName: d.NodeName, HighWater: highWaterToProto(d.HW),
		SupersededBy: d.SupersededBy,
	}
	RestoreUnknown(m, d.Later)
	for i := range d.Entries {
		m.Entries = append(m.Entries, EntryToProto(&d.Entries[i]))
	}
	value, err := Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("ledger: document of node %s (%s): %w", d.NodeName, d.NodeUID, err)
	}
	if tooLarge(len(d.Entries), len(value)) {
		return nil, &ledger.DocTooLargeError{
			NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries), Bytes: len(value),
		}
	}
	return value, nil
}

// tooLarge reports whether a document exceeds the bounds, which are the same for all kinds.
func tooLarge(entries, bytes int) bool {
	return entries > ledger.MaxEntries || bytes > ledger.MaxDocBytes
}

// readable returns an error unless a stored value is within the bounds.
func readable(entries, bytes int) error {
	if tooLarge(entries, bytes) {
		return fmt.Errorf("value has %d entries in %d bytes, want at most %d entries and %d bytes",
			entries, bytes, ledger.MaxEntries, ledger.MaxDocBytes)
	}
	return nil
}

// sortedKeys returns a map's keys in one allocation: every entry and document that is written has some.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// highWaterToProto returns the high-waters in the order of kinds.
func highWaterToProto(hw map[string]uint64) []*ledgerpb.HighWater {
	out := make([]*ledgerpb.HighWater, 0, len(hw))
	for _, kind := range sortedKeys(hw) {
		out = append(out, &ledgerpb.HighWater{Kind: kind, ResourceVersion: hw[kind]})
	}
	return out
}

// highWaterFromProto returns nil for an empty list, so that a document that was written and read again equals the one
// before.
func highWaterFromProto(list []*ledgerpb.HighWater) (map[string]uint64, error) {
	var out map[string]uint64
	for _, hw := range list {
		if out == nil {
			out = make(map[string]uint64, len(list))
		}
		if _, twice := out[hw.GetKind()]; twice {
			return nil, fmt.Errorf("high-water of kind %q is given twice", hw.GetKind())
		}
		out[hw.GetKind()] = hw.GetResourceVersion()
	}
	return out, nil
}

// DecodeNodeDoc decodes n/<node uid> as stored; the document's Revision is the key's mod revision. It refuses
// values that exceed the limits, are of a later schema, have roles or states it does not know, or name another node
// than the key does.
func DecodeNodeDoc(kv ledger.KV) (ledger.NodeDoc, error) {
	d, err := decodeNodeDoc(kv)
	if err != nil {
		return ledger.NodeDoc{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return d, nil
}

func decodeNodeDoc(kv ledger.KV) (ledger.NodeDoc, error) {
	uid, ok := strings.CutPrefix(kv.Key, ledger.PrefixNode)
	if !ok {
		return ledger.NodeDoc{}, fmt.Errorf("not a node document, want a key under %s", ledger.PrefixNode)
	}
	// The size is checked before the value is parsed, the number of entries after it.
	if err := readable(0, len(kv.Value)); err != nil {
		return ledger.NodeDoc{}, err
	}
	var m ledgerpb.NodeDoc
	if err := Unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return ledger.NodeDoc{}, err
	}
	if m.GetNodeUid() != uid {
		return ledger.NodeDoc{}, fmt.Errorf("value is of node %q", m.GetNodeUid())
	}
	if err := readable(len(m.GetEntries()), len(kv.Value)); err != nil {
		return ledger.NodeDoc{}, err
	}
	d := ledger.NodeDoc{
		NodeUID: uid, NodeName: m.GetNodeName(), SupersededBy: m.GetSupersededBy(), Revision: kv.ModRevision,
		Later: Unknown(&m),
	}
	var err error
	if d.HW, err = highWaterFromProto(m.GetHighWater()); err != nil {
		return ledger.NodeDoc{}, err
	}
	if n := len(m.GetEntries()); n > 0 {
		d.Entries = make([]ledger.Entry, 0, n)
	}
	for i, pe := range m.GetEntries() {
		e, err := entryFromProto(pe)
		if err != nil {
			return ledger.NodeDoc{}, fmt.Errorf("entry %d: %w", i, err)
		}
		d.Entries = append(d.Entries, e)
	}
	return d, nil
}

// Unknown returns the fields of a message that this version does not know.
func Unknown(m proto.Message) string { return string(m.ProtoReflect().GetUnknown()) }

// RestoreUnknown gives a message the fields of a later version that Unknown has returned for an earlier form of it.
func RestoreUnknown(m proto.Message, fields string) {
	if fields != "" {
		m.ProtoReflect().SetUnknown([]byte(fields))
	}
}

// Marshal is deterministic for one version of the library, which is all that resubmission needs, as a transaction
// keeps its bytes.
func Marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal decodes a value. It refuses one that is of no schema version, or of a later one.
func Unmarshal(value []byte, into proto.Message, version func() uint32) error {
	if err := proto.Unmarshal(value, into); err != nil {
		return fmt.Errorf("value cannot be decoded: %w", err)
	}
	if v := version(); v == 0 || v > ledger.SchemaVersion {
		return fmt.Errorf("schema version %d, want 1 to %d", v, ledger.SchemaVersion)
	}
	return nil
}
