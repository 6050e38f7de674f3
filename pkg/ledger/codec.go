package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// SchemaVersion is the version written into every value. Values of a later version are refused.
const SchemaVersion = 1

// DocTooLargeError reports a document beyond MaxEntries or MaxDocBytes: for the ledger the node (or budget, or
// pool) is full, whatever its capacity.
type DocTooLargeError struct {
	// NodeUID and NodeName are set for a node's document, Key for any other.
	NodeUID, NodeName, Key string
	Entries, Bytes         int
	// Growth is how many bytes later steps of its entries may still add: room for that is reserved.
	Growth int
}

func (e *DocTooLargeError) Error() string {
	what := "document " + e.Key
	if e.Key == "" {
		what = fmt.Sprintf("document of node %s (%s)", e.NodeName, e.NodeUID)
	}
	growth := ""
	if e.Growth > 0 {
		growth = fmt.Sprintf(", which may become %d", e.Bytes+e.Growth)
	}
	return fmt.Sprintf("ledger: %s has %d entries in %d bytes%s: want at most %d entries and %d bytes",
		what, e.Entries, e.Bytes, growth, MaxEntries, MaxDocBytes)
}

// EncodeNodeDoc encodes the value of a document; equal documents have equal bytes. The revision is not part of it.
// It returns a *DocTooLargeError when the document exceeds the limits.
func EncodeNodeDoc(d NodeDoc) ([]byte, error) {
	if d.NodeUID == "" {
		return nil, fmt.Errorf("ledger: document of node %q has no node UID", d.NodeName)
	}
	m := &ledgerpb.NodeDoc{
		Version: SchemaVersion, NodeUid: d.NodeUID, NodeName: d.NodeName, HighWater: highWaterToProto(d.HW),
		SupersededBy: d.SupersededBy,
	}
	keep(m, d.Later)
	for i := range d.Entries {
		m.Entries = append(m.Entries, entryToProto(&d.Entries[i]))
	}
	value, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("ledger: document of node %s (%s): %w", d.NodeName, d.NodeUID, err)
	}
	if tooLarge(len(d.Entries), len(value)) {
		return nil, &DocTooLargeError{
			NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries), Bytes: len(value),
		}
	}
	return value, nil
}

// tooLarge reports whether a document exceeds the bounds, which are the same for all kinds.
func tooLarge(entries, bytes int) bool { return entries > MaxEntries || bytes > MaxDocBytes }

// readable returns an error unless a stored value is within the bounds.
func readable(entries, bytes int) error {
	if tooLarge(entries, bytes) {
		return fmt.Errorf("value has %d entries in %d bytes, want at most %d entries and %d bytes",
			entries, bytes, MaxEntries, MaxDocBytes)
	}
	return nil
}

func highWaterToProto(hw map[string]uint64) []*ledgerpb.HighWater {
	var out []*ledgerpb.HighWater
	for _, kind := range slices.Sorted(maps.Keys(hw)) {
		out = append(out, &ledgerpb.HighWater{Kind: kind, ResourceVersion: hw[kind]})
	}
	return out
}

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
func DecodeNodeDoc(kv KV) (NodeDoc, error) {
	d, err := decodeNodeDoc(kv)
	if err != nil {
		return NodeDoc{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return d, nil
}

func decodeNodeDoc(kv KV) (NodeDoc, error) {
	uid, ok := strings.CutPrefix(kv.Key, PrefixNode)
	if !ok {
		return NodeDoc{}, fmt.Errorf("not a node document, want a key under %s", PrefixNode)
	}
	if err := readable(0, len(kv.Value)); err != nil {
		return NodeDoc{}, err
	}
	var m ledgerpb.NodeDoc
	if err := unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return NodeDoc{}, err
	}
	if m.GetNodeUid() != uid {
		return NodeDoc{}, fmt.Errorf("value is of node %q", m.GetNodeUid())
	}
	if err := readable(len(m.GetEntries()), len(kv.Value)); err != nil {
		return NodeDoc{}, err
	}
	d := NodeDoc{
		NodeUID: uid, NodeName: m.GetNodeName(), SupersededBy: m.GetSupersededBy(), Revision: kv.ModRevision,
		Later: later(&m),
	}
	var err error
	if d.HW, err = highWaterFromProto(m.GetHighWater()); err != nil {
		return NodeDoc{}, err
	}
	if n := len(m.GetEntries()); n > 0 {
		d.Entries = make([]Entry, 0, n)
	}
	for i, pe := range m.GetEntries() {
		e, err := entryFromProto(pe)
		if err != nil {
			return NodeDoc{}, fmt.Errorf("entry %d: %w", i, err)
		}
		d.Entries = append(d.Entries, e)
	}
	return d, nil
}

// EncodeOwner encodes the value of own/<partition>.
func EncodeOwner(o Owner) ([]byte, error) {
	return marshal(&ledgerpb.Owner{
		Version: SchemaVersion, Member: o.Member, Incarnation: o.Incarnation, Progress: o.Progress,
	})
}

// DecodeOwner decodes what EncodeOwner writes.
func DecodeOwner(value []byte) (Owner, error) {
	var m ledgerpb.Owner
	if err := unmarshal(value, &m, m.GetVersion); err != nil {
		return Owner{}, fmt.Errorf("ledger: partition owner: %w", err)
	}
	if m.GetMember() == "" {
		return Owner{}, errors.New("ledger: partition owner: no member")
	}
	return Owner{Member: m.GetMember(), Incarnation: m.GetIncarnation(), Progress: m.GetProgress()}, nil
}

// EncodeMember encodes the value of member/<role>/<id>.
func EncodeMember(m Member) ([]byte, error) {
	p := &ledgerpb.Member{
		Version: SchemaVersion, Id: m.ID, Role: m.Role, Address: m.Address, SoftwareVersion: m.Version,
	}
	if !m.Started.IsZero() {
		p.StartedUnixMilli = m.Started.UnixMilli()
	}
	return marshal(p)
}

// DecodeMember decodes what EncodeMember writes; Started comes back in UTC.
func DecodeMember(value []byte) (Member, error) {
	var m ledgerpb.Member
	if err := unmarshal(value, &m, m.GetVersion); err != nil {
		return Member{}, fmt.Errorf("ledger: member: %w", err)
	}
	if m.GetId() == "" || m.GetRole() == "" {
		return Member{}, fmt.Errorf("ledger: member: id %q and role %q must not be empty", m.GetId(), m.GetRole())
	}
	out := Member{ID: m.GetId(), Role: m.GetRole(), Address: m.GetAddress(), Version: m.GetSoftwareVersion()}
	if ms := m.GetStartedUnixMilli(); ms != 0 {
		out.Started = time.UnixMilli(ms).UTC()
	}
	return out, nil
}

// later returns the fields of a message that this version does not know.
func later(m proto.Message) string { return string(m.ProtoReflect().GetUnknown()) }

// keep restores fields of a later version.
func keep(m proto.Message, fields string) {
	if fields != "" {
		m.ProtoReflect().SetUnknown([]byte(fields))
	}
}

// marshal is deterministic for one version of the library, which is all that resubmission needs, as a transaction
// keeps its bytes.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func unmarshal(value []byte, into proto.Message, version func() uint32) error {
	if err := proto.Unmarshal(value, into); err != nil {
		return fmt.Errorf("value cannot be decoded: %w", err)
	}
	if v := version(); v == 0 || v > SchemaVersion {
		return fmt.Errorf("schema version %d, want 1 to %d", v, SchemaVersion)
	}
	return nil
}
