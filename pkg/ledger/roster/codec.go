package roster

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// EncodeOwner encodes the value of own/<partition>.
func EncodeOwner(o Owner) ([]byte, error) {
	return codec.Marshal(&ledgerpb.Owner{
		Version: ledger.SchemaVersion, Member: o.Member, Incarnation: o.Incarnation, Progress: o.Progress,
	})
}

// DecodeOwner decodes what EncodeOwner writes.
func DecodeOwner(value []byte) (Owner, error) {
	var m ledgerpb.Owner
	if err := codec.Unmarshal(value, &m, m.GetVersion); err != nil {
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
		Version: ledger.SchemaVersion, Id: m.ID, Role: m.Role, Address: m.Address, SoftwareVersion: m.Version,
	}
	if !m.Started.IsZero() {
		p.StartedUnixMilli = m.Started.UnixMilli()
	}
	return codec.Marshal(p)
}

// DecodeMember decodes what EncodeMember writes; Started comes back in UTC.
func DecodeMember(value []byte) (Member, error) {
	var m ledgerpb.Member
	if err := codec.Unmarshal(value, &m, m.GetVersion); err != nil {
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
