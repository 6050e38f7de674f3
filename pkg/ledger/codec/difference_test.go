package codec_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

// drawRaw draws an entry as stored: one of a pod as most are, or any other, or one with a field of a later version.
func drawRaw(t *rapid.T) []byte {
	e := ledger.Entry{
		PodUID: fmt.Sprintf("0f4f0b3e-6f0e-4f5c-9d8e-%012x", rapid.IntRange(0, 9).Draw(t, "pod")), Namespace: "shop",
		Name: "web-6c9f7d-x2x4k", Role: ledger.RoleReservation, State: ledger.Committed,
		Priority: rapid.Int32().Draw(t, "priority"), PodRV: rapid.Uint64().Draw(t, "rv"), Token: 0xfeedfacecafebeef,
		Shard: "scheduler-0-x7k2p", SchedulerName: "default-scheduler", PlacementHash: rapid.Uint64().Draw(t, "hash"),
		Requests:   map[string]int64{"cpu": 250, "memory": 1 << 28, "example.com/gpu": 1},
		NonZeroCPU: 250, NonZeroMemory: rapid.Int64().Draw(t, "memory"),
		Cause: ledger.FenceCause(rapid.Uint8().Draw(t, "cause")),
	}
	if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
		e = sampletest.DrawEntry(t)
	}
	raw, err := proto.Marshal(codec.EntryToProto(&e))
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 9).Draw(t, "later") == 0 {
		raw = protowire.AppendVarint(protowire.AppendTag(raw, 900, protowire.VarintType), rapid.Uint64().Draw(t, "field"))
	}
	return raw
}

// rawDoc is a document as stored, in parts.
type rawDoc struct {
	// between are fields of the header that stand between entries, as no version of Berth writes them.
	head, between, tail []byte
	entries             [][]byte
}

func (r *rawDoc) value() []byte {
	value := slices.Clone(r.head)
	for i, e := range r.entries {
		if i == 1 {
			value = append(value, r.between...)
		}
		value = protowire.AppendBytes(protowire.AppendTag(value, 5, protowire.BytesType), e)
	}
	return append(value, r.tail...)
}

// change draws one of the things that may happen to a document from one revision to the next.
func (r *rawDoc) change(t *rapid.T) {
	at := 0
	if len(r.entries) > 0 {
		at = rapid.IntRange(0, len(r.entries)-1).Draw(t, "at")
	}
	r.entries = slices.Clone(r.entries)
	switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
	case what < 3 || len(r.entries) == 0:
		r.entries = append(r.entries, drawRaw(t))
	case what < 5:
		r.entries = slices.Delete(r.entries, at, at+1)
	case what == 5:
		r.entries[at] = drawRaw(t)
	case what == 6:
		r.entries[0], r.entries[at] = r.entries[at], r.entries[0]
	case what == 7:
		r.entries = slices.Insert(r.entries, at, r.entries[at])
	case what == 8:
		r.drawHeader(t)
	default:
		r.entries = append(r.entries, drawRaw(t))
		slices.Reverse(r.entries)
	}
}

// drawHeader draws the fields that are not entries.
func (r *rawDoc) drawHeader(t *rapid.T) {
	*r = rawDoc{entries: r.entries}
	r.head = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	r.head = protowire.AppendString(protowire.AppendTag(r.head, 2, protowire.BytesType), "uid-of-node")
	r.head = protowire.AppendString(protowire.AppendTag(r.head, 3, protowire.BytesType), "node-1")
	for _, kind := range []string{"node", "pod", "volumeattachment"} {
		if rv := rapid.Uint64Range(0, 3).Draw(t, kind); rv > 0 {
			hw := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), kind)
			hw = protowire.AppendVarint(protowire.AppendTag(hw, 2, protowire.VarintType), rv)
			r.head = protowire.AppendBytes(protowire.AppendTag(r.head, 4, protowire.BytesType), hw)
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "header") {
	case 0:
		r.tail = protowire.AppendString(protowire.AppendTag(nil, 16, protowire.BytesType), "uid-of-successor")
	case 1:
		r.tail = protowire.AppendString(protowire.AppendTag(nil, 901, protowire.BytesType), "of a later version")
	case 2:
		r.between = protowire.AppendString(protowire.AppendTag(nil, 16, protowire.BytesType), "uid-of-successor")
	case 3: // an entry field of another type is no entry
		r.tail = protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.VarintType), 7)
	}
}

// differences returns how often entries are in one list and not in the other, by their bytes.
func differences(was, now [][]byte) (removed, added int) {
	count := map[string]int{}
	for _, e := range was {
		count[string(e)]++
	}
	for _, e := range now {
		count[string(e)]--
	}
	for _, n := range count {
		removed += max(n, 0)
		added -= min(n, 0)
	}
	return removed, added
}

// A document that is decoded by difference from any earlier revision is the one that the generated code decodes, and
// the differences are exactly the entries whose bytes differ.
func TestDecodeByDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now rawDoc
		now.drawHeader(t)
		var before ledger.StoredDoc
		var was rawDoc
		for revision := range int64(rapid.IntRange(1, 8).Draw(t, "revisions")) {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				now.change(t)
			}
			kv := ledger.KV{Key: "n/uid-of-node", Value: now.value(), ModRevision: revision + 1}
			want, err := codec.DecodeNodeDoc(kv)
			got, difference, gotErr := codec.DecodeNodeDocAfter(kv, &before)
			if fmt.Sprint(gotErr) != fmt.Sprint(err) {
				t.Fatalf("error %v, want %v", gotErr, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("decoded by difference (-whole +by difference):\n%s", diff)
			}
			if err != nil {
				continue // the reader stops there
			}
			after := ledger.StoredDoc{Doc: got, Value: kv.Value}
			if diff := cmp.Diff(difference, codec.Compare(&before, &after)); diff != "" {
				t.Fatalf("the difference of decoded documents is another one:\n%s", diff)
			}
			checkDifference(t, difference, was.entries, now.entries)
			before, was = after, now
		}
	})
}

// checkDifference compares a difference with what distinguishes two lists of entries.
func checkDifference(t *rapid.T, d codec.Difference, was, now [][]byte) {
	removed, added := differences(was, now)
	if len(d.Removed) != removed || len(d.Added) != added || !slices.IsSorted(d.Removed) || !slices.IsSorted(d.Added) {
		t.Fatalf("difference %+v: want %d entries removed and %d added, ascending", d, removed, added)
	}
	// Without those in which they differ, the lists have the same entries.
	var stayed, kept [][]byte
	for i, e := range was {
		if !slices.Contains(d.Removed, i) {
			stayed = append(stayed, e)
		}
	}
	for i, e := range now {
		if !slices.Contains(d.Added, i) {
			kept = append(kept, e)
		}
	}
	if removed, added := differences(stayed, kept); removed+added > 0 {
		t.Fatalf("difference %+v: what it leaves out differs in %d entries", d, removed+added)
	}
}

// Where the reader of the plain form accepts an entry, it returns what the generated code does, also if bytes were
// damaged.
func TestPlainForm(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := drawRaw(t)
		for range rapid.IntRange(0, 2).Draw(t, "damages") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		got, ok := codec.PlainEntry(raw)
		if !ok {
			return
		}
		accepted++
		want, err := codec.GeneratedEntry(raw)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%x: error %v, (-generated +plain):\n%s", raw, err, diff)
		}
	})
	if accepted == 0 {
		t.Error("no entry has the plain form")
	}
}

// What is written for pods without ports, volumes and devices has the plain form: otherwise it is decoded slowly.
func TestPodsHaveThePlainForm(t *testing.T) {
	e := sampletest.Full().Entries[0]
	e.Ports, e.Gang, e.Wanted = nil, "", false
	e.GroupPartition, e.PlacementHash = 3, 1
	e.Cause = ledger.FenceByPod
	raw, err := proto.Marshal(codec.EntryToProto(&e))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := codec.PlainEntry(raw); !ok || !cmp.Equal(got, e) {
		t.Errorf("accepted %t: %s", ok, cmp.Diff(e, got))
	}
}

// FuzzDifference: of any two values, the second is decoded by difference as it is decoded as a whole.
func FuzzDifference(f *testing.F) {
	doc := sampletest.Full()
	first, err := codec.EncodeNodeDoc(doc)
	if err != nil {
		f.Fatal(err)
	}
	doc.Entries = append(doc.Entries[1:], ledger.Entry{PodUID: "p", Role: ledger.RoleReservation})
	second, err := codec.EncodeNodeDoc(doc)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first, second)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		kv := ledger.KV{Key: ledger.KeyNode(sampletest.Full().NodeUID), Value: first, ModRevision: 1}
		before := ledger.StoredDoc{Value: first}
		var err error
		if before.Doc, err = codec.DecodeNodeDoc(kv); err != nil {
			before = ledger.StoredDoc{}
		}
		kv.Value, kv.ModRevision = second, 2
		want, wantErr := codec.DecodeNodeDoc(kv)
		got, _, err := codec.DecodeNodeDocAfter(kv, &before)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("errors %v and %v, (-whole +by difference):\n%s", wantErr, err, diff)
		}
	})
}

// A document that a member has built itself is the one that it would decode, or is decoded.
func TestBuiltDocuments(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		d := ledger.NodeDoc{NodeUID: "u", NodeName: "node-1", Revision: 4, Floor: 2, Older: &ledger.NodeDoc{NodeUID: "o"}}
		if rapid.Bool().Draw(t, "marks") {
			d.HW = rapid.MapOfN(rapid.StringN(0, 9, 20), rapid.Uint64(), 0, 2).Draw(t, "hw")
		}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			d.Entries = append(d.Entries, drawBuilt(t))
		}
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			t.Fatal(err)
		}
		kv := ledger.KV{Key: "n/u", Value: value, ModRevision: 9, Doc: &ledger.StoredDoc{Doc: d, Value: value}}
		got, ok := codec.Built(kv)
		if !ok {
			return
		}
		taken++
		want, err := codec.DecodeNodeDoc(kv)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("error %v, (-decoded +built):\n%s", err, diff)
		}
	})
	if taken == 0 {
		t.Error("every document had to be decoded")
	}
	value, err := codec.EncodeNodeDoc(sampletest.Full())
	if err != nil {
		t.Fatal(err)
	}
	kv := sampletest.Stored(sampletest.Full(), value)
	kv.Doc = &ledger.StoredDoc{Doc: sampletest.Full(), Value: value}
	if _, ok := codec.Built(kv); !ok {
		t.Error("a document with every field was not taken as it was built")
	}
	kv.Value = bytes.Replace(value, []byte("shop"), []byte("pops"), 1)
	if _, ok := codec.Built(kv); ok {
		t.Error("a document was taken that does not belong to the value")
	}
}

// drawBuilt draws an entry as careless code may build it: with empty lists that are not nil, and with values that the
// decoder refuses.
func drawBuilt(t *rapid.T) ledger.Entry {
	e := sampletest.DrawEntry(t)
	damages := []func(){
		func() {}, func() {}, func() {}, func() {},
		func() { e.Requests = map[string]int64{} },
		func() { e.Ports = []ledger.HostPort{} },
		func() { e.Budgets = []string{} },
		func() { e.Dependents = []ledger.Dependent{} },
		func() { e.Dependents = []ledger.Dependent{{}} },
		func() { e.Devices = []ledger.DevicePick{{ConfigHashes: [][]byte{nil}}} },
		func() { e.Volumes = []ledger.VolumePick{} },
		func() { e.NotAfter = e.NotAfter.Add(1) },
		func() { e.NotAfter = e.NotAfter.Local() },
		func() { e.PodUID = "" },
		func() { e.Role = 0 },
		func() { e.Role = 9 },
		func() { e.State = 9 },
		func() { e.GroupPartition = ledger.Partitions + 1 },
	}
	rapid.SampledFrom(damages).Draw(t, "damage")()
	return e
}
