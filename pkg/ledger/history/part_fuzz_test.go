package history

import (
	"bytes"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// A record that is small on the wire cannot exhaust a reader's memory.
func TestPartsAreBounded(t *testing.T) {
	packer, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	unpacker, err := newUnpacker()
	if err != nil {
		t.Fatal(err)
	}
	defer unpacker.Close()
	bomb := packer.EncodeAll(bytes.Repeat([]byte{0}, maxPartBytes+1), nil)
	_, err = decode(unpacker, eventlog.Record{Message: eventlog.Message{Data: bomb}})
	if err == nil || !strings.Contains(err.Error(), "size") {
		t.Errorf("%d bytes that hold %d: %v", len(bomb), maxPartBytes+1, err)
	}
}

// FuzzDecodePart: whatever a record of the ledger's history contains, decoding it returns a part or an error.
// Records are tried packed and unpacked, because the fuzzer does not discover the packing.
func FuzzDecodePart(f *testing.F) {
	packer, err := newPacker()
	if err != nil {
		f.Fatal(err)
	}
	unpacker, err := newUnpacker()
	if err != nil {
		f.Fatal(err)
	}
	changes := []ledger.Event{{KV: ledger.KV{Key: "n/a", ModRevision: 2}}}
	m, err := encode(packer, part{after: 1, through: 2, changes: changes})
	if err != nil {
		f.Fatal(err)
	}
	raw, err := unpacker.DecodeAll(m.Data, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Data)
	f.Add(raw)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = decode(unpacker, eventlog.Record{Message: eventlog.Message{Data: data}})
		_, _ = decode(unpacker, eventlog.Record{Message: eventlog.Message{Data: packer.EncodeAll(data, nil)}})
	})
}
