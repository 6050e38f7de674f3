package sim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// laterFields are the fields of a later version that the ledger holds, by location: a document, or an entry of it. No
// other member knows their meaning. A member that writes the document again has to preserve them as long as the value
// that they belong to exists.
type laterFields map[string][]byte

// laterNumber is a field number that this version of the ledger does not use.
const laterNumber = 1000

func laterField(value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, laterNumber, protowire.VarintType), value)
}

// isRewritten are the values that members write again and again.
func isRewritten(key string) bool {
	return isDoc(key) || strings.HasPrefix(key, ledger.PrefixBudget) || isExclusive(key) || key == ledger.KeyFloor
}

// valueOf is an empty value of a key's kind.
func valueOf(key string) proto.Message {
	switch {
	case isDoc(key):
		return &ledgerpb.NodeDoc{}
	case strings.HasPrefix(key, ledger.PrefixBudget):
		return &ledgerpb.Budget{}
	case isExclusive(key):
		return &ledgerpb.Exclusive{}
	}
	return &ledgerpb.Floor{}
}

// part is a message within a value, with a name that identifies it as long as it exists.
type part struct {
	name    string
	message proto.Message
}

func parts(key string, m proto.Message) []part {
	out := []part{{key, m}}
	switch m := m.(type) {
	case *ledgerpb.NodeDoc:
		for _, e := range m.GetEntries() {
			name := fmt.Sprintf("%s %d %s %016x", key, e.GetRole(), uidOf(e), e.GetToken())
			out = append(out, part{name, e})
			for _, d := range e.GetDevices() {
				// One that gets other devices is another one.
				out = append(out, part{fmt.Sprintf("%s %s %x", name, d.GetClaim(), sha256.Sum256(d.GetAllocation())), d})
			}
		}
	case *ledgerpb.Budget:
		for _, c := range m.GetClaims() {
			out = append(out, part{fmt.Sprintf("%s %x%s %s", key, c.GetPodUid(), c.GetPodUidText(), c.GetPlan()), c})
		}
	case *ledgerpb.Exclusive:
		for _, h := range m.GetHolders() {
			out = append(out, part{fmt.Sprintf("%s %x%s %016x", key, h.GetPodUid(), h.GetPodUidText(), h.GetToken()), h})
		}
	}
	return out
}

// addLater is a value with a field of a later version in each of its parts.
func addLater(kv ledger.KV, field []byte) ([]byte, error) {
	m := valueOf(kv.Key)
	if err := proto.Unmarshal(kv.Value, m); err != nil {
		return nil, err
	}
	for _, p := range parts(kv.Key, m) {
		p.message.ProtoReflect().SetUnknown(field)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// checkLater is S18: fields of a later version are preserved as long as the value that they belong to exists, unless
// a later version writes them again.
func (o *oracle) checkLater(events []ledger.Event) {
	for _, ev := range events {
		if !isRewritten(ev.Key) {
			continue
		}
		known := laterFields{}
		for name, field := range o.promised.later {
			if name == ev.Key || strings.HasPrefix(name, ev.Key+" ") {
				known[name] = field
				delete(o.promised.later, name)
			}
		}
		if ev.Deleted {
			continue
		}
		m := valueOf(ev.Key)
		if err := proto.Unmarshal(ev.Value, m); err != nil {
			o.w.note("form", "ledger: key %s: %v", ev.Key, err)
			continue
		}
		o.checkParts(parts(ev.Key, m), known)
	}
}

func (o *oracle) checkParts(all []part, known laterFields) {
	kept := 0
	for _, p := range all {
		field := p.message.ProtoReflect().GetUnknown()
		was, had := known[p.name]
		switch {
		case len(field) > 0:
			o.promised.later[p.name] = slices.Clone(field)
			if had && bytes.Equal(field, was) {
				kept++
			} else if _, isEntry := p.message.(*ledgerpb.Entry); isEntry {
				o.w.hit("entry of a later version")
			}
		case had:
			o.w.note("S18", "%s has lost fields of a later version; before were %v", p.name, slices.Sorted(maps.Keys(known)))
		}
	}
	if kept > 0 {
		o.w.hit("fields of a later version written again")
	}
}

// plainly is a document without the fields of a later version, which a later version may write as it likes.
func plainly(d ledger.NodeDoc) ledger.NodeDoc {
	d.Later, d.Entries = "", slices.Clone(d.Entries)
	for i := range d.Entries {
		d.Entries[i].Later = ""
		d.Entries[i].Devices = slices.Clone(d.Entries[i].Devices)
		for j := range d.Entries[i].Devices {
			d.Entries[i].Devices[j].Later = ""
		}
	}
	return d
}
