package history

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// version of HistoryPart that is written; later ones are refused.
const version = 1

// maxPartBytes bounds the content of one record after decompression, so that a record that is small on the wire
// cannot exhaust a reader's memory.
const maxPartBytes = 64 << 20

// part is one record of the history; see ledgerpb.HistoryPart.
//
// Of changes, after is the revision behind which they begin, and through the revision up to which they are complete. Of
// a snapshot, through is its revision, and after the revision up to which the changes before it are complete.
type part struct {
	after, through int64
	snapshot       bool
	// number counts the parts of one snapshot, from 0; last marks the one that completes it.
	number  int32
	last    bool
	changes []ledger.Event
}

// newPacker returns a compressor; at this level a megabyte takes some 5 ms, and documents shrink to a tenth of
// their size.
func newPacker() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
}

func newUnpacker() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPartBytes))
}

func encode(z *zstd.Encoder, p part) (eventlog.Message, error) {
	m := &ledgerpb.HistoryPart{
		Version: version, After: p.after, Through: p.through, Picture: p.snapshot, Part: p.number, Last: p.last,
		Changes: make([]*ledgerpb.HistoryChange, len(p.changes)),
	}
	for i, c := range p.changes {
		m.Changes[i] = &ledgerpb.HistoryChange{
			Key: c.Key, Value: c.Value, CreateRevision: c.CreateRevision, Revision: c.ModRevision, Deleted: c.Deleted,
		}
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return eventlog.Message{}, fmt.Errorf("ledger history: %w", err)
	}
	return eventlog.Message{Subject: subjectOf(p.snapshot), Data: z.EncodeAll(raw, nil)}, nil
}

// subjectOf returns the subject of a record; snapshots and changes have subjects of their own.
func subjectOf(snapshot bool) string {
	if snapshot {
		return eventlog.SubjectLedgerPicture
	}
	return eventlog.SubjectLedgerChanges
}

// decode returns the part in a record. It refuses records of a later version, and those whose subject contradicts the
// content.
func decode(z *zstd.Decoder, r eventlog.Record) (part, error) {
	bad := func(err error) (part, error) {
		return part{}, fmt.Errorf("ledger history: record %d (%s): %w", r.Sequence, r.Subject, err)
	}
	raw, err := z.DecodeAll(r.Data, nil)
	if err != nil {
		return bad(err)
	}
	m := &ledgerpb.HistoryPart{}
	if err := proto.Unmarshal(raw, m); err != nil {
		return bad(err)
	}
	if v := m.GetVersion(); v == 0 || v > version {
		return bad(fmt.Errorf("version %d, want 1 to %d", v, version))
	}
	if want := subjectOf(m.GetPicture()); r.Subject != want {
		return bad(fmt.Errorf("want subject %s", want))
	}
	p := part{
		after: m.GetAfter(), through: m.GetThrough(), snapshot: m.GetPicture(), number: m.GetPart(), last: m.GetLast(),
		changes: make([]ledger.Event, len(m.GetChanges())),
	}
	for i, c := range m.GetChanges() {
		p.changes[i] = ledger.Event{
			KV: ledger.KV{
				Key: c.GetKey(), Value: c.GetValue(), CreateRevision: c.GetCreateRevision(), ModRevision: c.GetRevision(),
			},
			Deleted: c.GetDeleted(),
		}
	}
	return p, nil
}
