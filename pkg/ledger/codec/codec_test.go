package codec_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

var rewrite = flag.Bool("rewrite", false, "write testdata instead of comparing with it")

// Every value as the first version wrote it must stay readable, and is still written in the same way.
func TestGolden(t *testing.T) {
	doc := sampletest.Full()
	owner := roster.Owner{Member: "scheduler-0-x7k2p", Incarnation: 3, Progress: 99}
	member := roster.Member{
		ID: "binder-1-abcde", Role: "binder", Address: "10.0.0.1:8080", Version: "v0.1.0",
		Started: time.UnixMilli(1_790_000_000_123).UTC(),
	}
	superseded := ledger.NodeDoc{NodeUID: "u", NodeName: "node-3", Revision: 4, SupersededBy: sampletest.Full().NodeUID}
	incarnation := ledger.Incarnation{NodeName: "node-17", NodeUID: sampletest.Full().NodeUID, NodeRV: 987654321,
		Revision: 5}
	floor := ledger.Floor{HW: map[string]uint64{ledger.KindPod: 987654321, ledger.KindNode: 42}, Revision: 6}
	term, reg, keeper := sampletest.Term(), registry.Registry{Revision: 12, PodRV: 987654321}, sampletest.Pinned()
	checkGolden(t, []golden{
		{"nodedoc", doc, func() ([]byte, error) { return codec.EncodeNodeDoc(doc) },
			func(b []byte) (any, error) { return codec.DecodeNodeDoc(sampletest.Stored(doc, b)) }},
		{"owner", owner, func() ([]byte, error) { return roster.EncodeOwner(owner) },
			func(b []byte) (any, error) { return roster.DecodeOwner(b) }},
		{"member", member, func() ([]byte, error) { return roster.EncodeMember(member) },
			func(b []byte) (any, error) { return roster.DecodeMember(b) }},
		{"term", term, func() ([]byte, error) { return registry.EncodeTerm(term) },
			func(b []byte) (any, error) {
				_, back, err := registry.DecodeTerm(ledger.KV{Key: registry.KeyTerm(term.ID()), Value: b,
					ModRevision: term.Revision})
				return back, err
			}},
		{"registry", reg, func() ([]byte, error) { return registry.EncodeRegistry(reg) },
			func(b []byte) (any, error) {
				return registry.DecodeRegistry(ledger.KV{Key: registry.KeyTermRegistry, Value: b, ModRevision: 12})
			}},
		{"keeper", keeper, func() ([]byte, error) { return codec.EncodeNodeDoc(keeper) },
			func(b []byte) (any, error) { return codec.DecodeNodeDoc(sampletest.Stored(keeper, b)) }},
		{"superseded", superseded, func() ([]byte, error) { return codec.EncodeNodeDoc(superseded) },
			func(b []byte) (any, error) { return codec.DecodeNodeDoc(sampletest.Stored(superseded, b)) }},
		{"incarnation", incarnation, func() ([]byte, error) { return codec.EncodeIncarnation(incarnation) },
			func(b []byte) (any, error) {
				return codec.DecodeIncarnation(ledger.KV{Key: ledger.KeyIncarnation("node-17"), Value: b,
					ModRevision: incarnation.Revision})
			}},
		{"floor", floor, func() ([]byte, error) { return codec.EncodeFloor(floor) },
			func(b []byte) (any, error) {
				return codec.DecodeFloor(ledger.KV{Key: ledger.KeyFloor, Value: b, ModRevision: 6})
			}},
		{"cluster", "uid-of-kube-system", func() ([]byte, error) {
			return codec.Marshal(&ledgerpb.Cluster{Version: ledger.SchemaVersion, Uid: "uid-of-kube-system"})
		}, func(b []byte) (any, error) { return identity.DecodeCluster(b) }},
	})
}

// golden is a value with every field, and its stored form.
type golden struct {
	name   string
	value  any
	encode func() ([]byte, error)
	decode func([]byte) (any, error)
}

func checkGolden(t *testing.T, all []golden) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.encode()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", fmt.Sprintf("%s.v1.pb", c.name))
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(golden, got) {
				t.Errorf("bytes:\n%x\nwant:\n%x", got, golden)
			}
			back, err := c.decode(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.value, back); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := ledger.NodeDoc{
			NodeUID: rapid.StringN(1, 20, 40).Draw(t, "node"), NodeName: rapid.StringN(0, 20, 40).Draw(t, "name"),
			Revision: rapid.Int64().Draw(t, "revision"),
		}
		if m := rapid.MapOfN(rapid.StringN(0, 9, 20), rapid.Uint64(), 0, 3).Draw(t, "hw"); len(m) > 0 {
			d.HW = m
		}
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			d.Entries = append(d.Entries, sampletest.DrawEntry(t))
		}
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.DecodeNodeDoc(sampletest.Stored(d, value))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, back); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
		again, err := codec.EncodeNodeDoc(back)
		if err != nil || !bytes.Equal(value, again) {
			t.Fatalf("equal documents have different bytes (%v)", err)
		}
	})
}

func TestLimitsNameTheNode(t *testing.T) {
	many := ledger.NodeDoc{NodeUID: "u", NodeName: "node-x", Entries: make([]ledger.Entry, ledger.MaxEntries+1)}
	big := ledger.NodeDoc{NodeUID: "u", NodeName: "node-x"}
	for i := range ledger.MaxEntries {
		big.Entries = append(big.Entries, ledger.Entry{PodUID: fmt.Sprint(i), Role: ledger.RoleReservation,
			Name: strings.Repeat("x", 253)})
	}
	for name, d := range map[string]ledger.NodeDoc{"entries": many, "bytes": big} {
		_, err := codec.EncodeNodeDoc(d)
		var full *ledger.DocTooLargeError
		if !errors.As(err, &full) || !strings.Contains(err.Error(), "node-x") {
			t.Errorf("%s: %v, want *DocTooLargeError naming node-x", name, err)
		}
	}
	if _, err := txns.Place(ledger.NodeDoc{NodeUID: "u", NodeName: "node-x"},
		make([]ledger.Entry, ledger.MaxEntries+1)...); err == nil {
		t.Error("placing over the limit: no error")
	}
	if _, err := codec.EncodeNodeDoc(ledger.NodeDoc{NodeName: "node-x"}); err == nil ||
		!strings.Contains(err.Error(), "node-x") {
		t.Errorf("document without UID: %v", err)
	}
	typical := ledger.NodeDoc{NodeUID: sampletest.Full().NodeUID, NodeName: "node-x"}
	for range ledger.MaxEntries {
		typical.Entries = append(typical.Entries, sampletest.Full().Entries[0])
	}
	value, err := codec.EncodeNodeDoc(typical)
	if err != nil {
		t.Errorf("%d entries of ordinary size do not fit: %v", ledger.MaxEntries, err)
	}
	t.Logf("%d ordinary entries take %d bytes", ledger.MaxEntries, len(value))
}

func TestDecodeRefuses(t *testing.T) {
	entry := func(change func(*ledgerpb.Entry)) *ledgerpb.NodeDoc {
		e := &ledgerpb.Entry{PodUidText: "p", Role: ledgerpb.Role_ROLE_RESERVATION}
		change(e)
		return &ledgerpb.NodeDoc{Version: 1, NodeUid: "u", Entries: []*ledgerpb.Entry{e}}
	}
	twice := []*ledgerpb.HighWater{{Kind: "pod"}, {Kind: "pod"}}
	for want, m := range map[string]*ledgerpb.NodeDoc{
		"schema version 0":     {NodeUid: "u"},
		"schema version 2":     {Version: 2, NodeUid: "u"},
		`node "other"`:         {Version: 1, NodeUid: "other"},
		"257 entries":          {Version: 1, NodeUid: "u", Entries: make([]*ledgerpb.Entry, 257)},
		`"pod" is given twice`: {Version: 1, NodeUid: "u", HighWater: twice},
		"unknown role 9":       entry(func(e *ledgerpb.Entry) { e.Role = 9 }),
		"unknown state 7":      entry(func(e *ledgerpb.Entry) { e.State = 7 }),
		"partition 256 of":     entry(func(e *ledgerpb.Entry) { e.GroupPartition = ledger.Partitions + 1 }),
		"want a pod UID":       entry(func(e *ledgerpb.Entry) { e.PodUidText = "" }),
		`"cpu" is given twice`: entry(func(e *ledgerpb.Entry) {
			e.Requests = []*ledgerpb.Quantity{{Name: "cpu"}, {Name: "cpu"}}
		}),
	} {
		for i, e := range m.Entries {
			if e == nil {
				m.Entries[i] = &ledgerpb.Entry{}
			}
		}
		value, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = codec.DecodeNodeDoc(ledger.KV{Key: "n/u", Value: value, ModRevision: 12})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "n/u at revision 12") {
			t.Errorf("error %v, want one that names the key and says %q", err, want)
		}
	}
	for _, kv := range []ledger.KV{
		{Key: "own/001"}, {Key: "n/u", Value: []byte{0xff}}, {Key: "n/u", Value: make([]byte, ledger.MaxDocBytes+1)},
	} {
		if _, err := codec.DecodeNodeDoc(kv); err == nil {
			t.Errorf("decode %s with %d bytes: no error", kv.Key, len(kv.Value))
		}
	}
	if _, err := roster.DecodeOwner([]byte{8, 1}); err == nil {
		t.Error("owner without member: no error")
	}
	if _, err := roster.DecodeMember([]byte{8, 1}); err == nil {
		t.Error("member without id: no error")
	}
}

func FuzzDecodeNodeDoc(f *testing.F) {
	value, err := codec.EncodeNodeDoc(sampletest.Full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Fuzz(func(t *testing.T, value []byte) {
		kv := ledger.KV{Key: ledger.KeyNode(sampletest.Full().NodeUID), Value: value, ModRevision: 1}
		d, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			return
		}
		kv.Value, err = codec.EncodeNodeDoc(d)
		if err != nil {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		again, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("decoded twice (-first +second):\n%s", diff)
		}
	})
}

func FuzzDecodeRecords(f *testing.F) {
	for _, name := range []string{"owner", "member", "cluster"} {
		value, err := os.ReadFile(filepath.Join("testdata", name+".v1.pb"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if o, err := roster.DecodeOwner(value); err == nil {
			again, err := roster.EncodeOwner(o)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := roster.DecodeOwner(again); err != nil || back != o {
				t.Errorf("owner %+v became %+v (%v)", o, back, err)
			}
		}
		if m, err := roster.DecodeMember(value); err == nil {
			if _, err := roster.EncodeMember(m); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = identity.DecodeCluster(value)
		_, _ = pause.Decode(value)
	})
}
