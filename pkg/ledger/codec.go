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

// SchemaVersion is the version written into every value. Values of a later one are refused.
const SchemaVersion = 1

// DocTooLargeError reports a document beyond MaxEntries or MaxDocBytes: the node is full
// as far as the ledger is concerned, whatever its capacity.
type DocTooLargeError struct {
	NodeUID, NodeName string
	Entries, Bytes    int
}

func (e *DocTooLargeError) Error() string {
	return fmt.Sprintf(
		"ledger: document of node %s (%s) has %d entries in %d bytes, at most %d entries and %d bytes are accepted",
		e.NodeName, e.NodeUID, e.Entries, e.Bytes, MaxEntries, MaxDocBytes)
}

// EncodeNodeDoc is the value of a document; equal documents have equal bytes. The revision
// is not part of it. *DocTooLargeError when it is over the limits.
func EncodeNodeDoc(d NodeDoc) ([]byte, error) {
	if d.NodeUID == "" {
		return nil, fmt.Errorf("ledger: document of node %q has no node UID", d.NodeName)
	}
	if len(d.Entries) > MaxEntries {
		return nil, &DocTooLargeError{NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries)}
	}
	m := &ledgerpb.NodeDoc{Version: SchemaVersion, NodeUid: d.NodeUID, NodeName: d.NodeName}
	for _, kind := range slices.Sorted(maps.Keys(d.HW)) {
		m.HighWater = append(m.HighWater, &ledgerpb.HighWater{Kind: kind, ResourceVersion: d.HW[kind]})
	}
	for i := range d.Entries {
		m.Entries = append(m.Entries, entryToProto(&d.Entries[i]))
	}
	value, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("ledger: document of node %s (%s): %w", d.NodeName, d.NodeUID, err)
	}
	if len(value) > MaxDocBytes {
		return nil, &DocTooLargeError{
			NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries), Bytes: len(value),
		}
	}
	return value, nil
}

// DecodeNodeDoc reads n/<node uid> as stored; the document's Revision is the key's mod
// revision. It refuses values over the limits, of a later schema, with roles or states it
// does not know, or that name another node than the key does.
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
	if len(kv.Value) > MaxDocBytes {
		return NodeDoc{}, fmt.Errorf("value has %d bytes, at most %d are accepted", len(kv.Value), MaxDocBytes)
	}
	var m ledgerpb.NodeDoc
	if err := unmarshal(kv.Value, &m, m.GetVersion); err != nil {
		return NodeDoc{}, err
	}
	if m.GetNodeUid() != uid {
		return NodeDoc{}, fmt.Errorf("value is of node %q", m.GetNodeUid())
	}
	if n := len(m.GetEntries()); n > MaxEntries {
		return NodeDoc{}, fmt.Errorf("value has %d entries, at most %d are accepted", n, MaxEntries)
	}
	d := NodeDoc{NodeUID: uid, NodeName: m.GetNodeName(), Revision: kv.ModRevision}
	for _, hw := range m.GetHighWater() {
		if d.HW == nil {
			d.HW = make(map[string]uint64, len(m.GetHighWater()))
		}
		if _, twice := d.HW[hw.GetKind()]; twice {
			return NodeDoc{}, fmt.Errorf("high-water of kind %q is given twice", hw.GetKind())
		}
		d.HW[hw.GetKind()] = hw.GetResourceVersion()
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

// EncodeOwner is the value of own/<partition>.
func EncodeOwner(o Owner) ([]byte, error) {
	return marshal(&ledgerpb.Owner{
		Version: SchemaVersion, Member: o.Member, Incarnation: o.Incarnation, Progress: o.Progress,
	})
}

// DecodeOwner reads what EncodeOwner writes.
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

// EncodeMember is the value of member/<role>/<id>.
func EncodeMember(m Member) ([]byte, error) {
	p := &ledgerpb.Member{
		Version: SchemaVersion, Id: m.ID, Role: m.Role, Address: m.Address, SoftwareVersion: m.Version,
	}
	if !m.Started.IsZero() {
		p.StartedUnixMilli = m.Started.UnixMilli()
	}
	return marshal(p)
}

// DecodeMember reads what EncodeMember writes; Started comes back in UTC.
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

// marshal is deterministic for one version of the library, which is all that resubmission
// needs: a transaction keeps its bytes.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func unmarshal(value []byte, into proto.Message, version func() uint32) error {
	if err := proto.Unmarshal(value, into); err != nil {
		return fmt.Errorf("value is not what it should be: %w", err)
	}
	if v := version(); v == 0 || v > SchemaVersion {
		return fmt.Errorf("schema version %d, versions 1 to %d are accepted", v, SchemaVersion)
	}
	return nil
}
