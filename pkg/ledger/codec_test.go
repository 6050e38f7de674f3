package ledger

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

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

var rewrite = flag.Bool("rewrite", false, "write testdata instead of comparing with it")

func stored(d NodeDoc, value []byte) KV {
	return KV{Key: KeyNode(d.NodeUID), Value: value, ModRevision: d.Revision}
}

func full() NodeDoc {
	return NodeDoc{
		NodeUID: "4d1c0a52-6f2c-4d0e-a7f7-2b9a3c1e0d5f", NodeName: "node-17", Revision: 4711,
		HW: map[string]uint64{KindPod: 987654321, "persistentvolumeclaim": 42},
		Entries: []Entry{
			{
				PodUID: "0f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "web-6c9f7d-x2x4k",
				Role: RoleReservation, State: Committed, Priority: -5, PodRV: 987654320, Token: 0xfeedfacecafebeef,
				Shard: "scheduler-0-x7k2p", SchedulerName: "default-scheduler",
				Requests:   map[string]int64{"cpu": 250, "memory": 1 << 28, "example.com/gpu": 1},
				NonZeroCPU: 250, NonZeroMemory: 1 << 28,
				Ports: []HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 8080}},
				Gang:  "gang-uid", Plan: "plan-1", Wanted: true,
			},
			{PodUID: "static-pod-of-node-17", Role: RoleVictim, Plan: "plan-1"},
		},
	}
}

func goldenTerm() RegisteredTerm {
	return RegisteredTerm{Retiring: true, Revision: 11, Term: Term{
		Kind: TermTogether, Parts: []TermPart{
			{Namespaces: []string{"cache", "shop"}, Selector: []Requirement{
				{Key: "app", Operator: "In", Values: []string{"a", "b"}}, {Key: "tier", Operator: "Exists"},
			}},
			{ByLabel: true, NamespaceSelector: []Requirement{{Key: "team", Operator: "NotIn", Values: []string{"x"}}}},
		},
	}}
}

func pinnedDoc() NodeDoc {
	return NodeDoc{NodeUID: "u", NodeName: "node-3", Revision: 4, Entries: []Entry{{
		PodUID: "0f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "cache-0", Role: RoleKeeper,
		Dependents: []Dependent{{PodUID: "1f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", PodRV: 9}, {PodUID: "text", PodRV: 10}},
	}}}
}

// Every value as the first version wrote it must stay readable, and is still written in the same way.
func TestGolden(t *testing.T) {
	doc := full()
	owner := Owner{Member: "scheduler-0-x7k2p", Incarnation: 3, Progress: 99}
	member := Member{
		ID: "binder-1-abcde", Role: "binder", Address: "10.0.0.1:8080", Version: "v0.1.0",
		Started: time.UnixMilli(1_790_000_000_123).UTC(),
	}
	superseded := NodeDoc{NodeUID: "u", NodeName: "node-3", Revision: 4, SupersededBy: full().NodeUID}
	incarnation := Incarnation{NodeName: "node-17", NodeUID: full().NodeUID, NodeRV: 987654321, Revision: 5}
	floor := Floor{HW: map[string]uint64{KindPod: 987654321, KindNode: 42}, Revision: 6}
	term, registry, keeper := goldenTerm(), Registry{Revision: 12, PodRV: 987654321}, pinnedDoc()
	checkGolden(t, []golden{
		{"nodedoc", doc, func() ([]byte, error) { return EncodeNodeDoc(doc) },
			func(b []byte) (any, error) { return DecodeNodeDoc(stored(doc, b)) }},
		{"owner", owner, func() ([]byte, error) { return EncodeOwner(owner) },
			func(b []byte) (any, error) { return DecodeOwner(b) }},
		{"member", member, func() ([]byte, error) { return EncodeMember(member) },
			func(b []byte) (any, error) { return DecodeMember(b) }},
		{"term", term, func() ([]byte, error) { return EncodeTerm(term) },
			func(b []byte) (any, error) {
				_, back, err := DecodeTerm(KV{Key: KeyTerm(term.ID()), Value: b, ModRevision: term.Revision})
				return back, err
			}},
		{"registry", registry, func() ([]byte, error) { return EncodeRegistry(registry) },
			func(b []byte) (any, error) {
				return DecodeRegistry(KV{Key: KeyTermRegistry, Value: b, ModRevision: 12})
			}},
		{"keeper", keeper, func() ([]byte, error) { return EncodeNodeDoc(keeper) },
			func(b []byte) (any, error) { return DecodeNodeDoc(stored(keeper, b)) }},
		{"superseded", superseded, func() ([]byte, error) { return EncodeNodeDoc(superseded) },
			func(b []byte) (any, error) { return DecodeNodeDoc(stored(superseded, b)) }},
		{"incarnation", incarnation, func() ([]byte, error) { return EncodeIncarnation(incarnation) },
			func(b []byte) (any, error) {
				return DecodeIncarnation(KV{Key: KeyIncarnation("node-17"), Value: b, ModRevision: incarnation.Revision})
			}},
		{"floor", floor, func() ([]byte, error) { return EncodeFloor(floor) },
			func(b []byte) (any, error) { return DecodeFloor(KV{Key: KeyFloor, Value: b, ModRevision: 6}) }},
		{"cluster", "uid-of-kube-system", func() ([]byte, error) {
			return marshal(&ledgerpb.Cluster{Version: SchemaVersion, Uid: "uid-of-kube-system"})
		}, func(b []byte) (any, error) { return decodeCluster(b) }},
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

func drawEntry(t *rapid.T) Entry {
	text := rapid.StringN(0, 20, 40)
	e := Entry{
		PodUID: rapid.OneOf(
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9A-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringN(1, 20, 40),
		).Draw(t, "uid"),
		Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"),
		Role:     Role(rapid.IntRange(int(RoleReservation), int(RoleMove)).Draw(t, "role")),
		State:    State(rapid.IntRange(0, int(Evicting)).Draw(t, "state")),
		Priority: rapid.Int32().Draw(t, "priority"), PodRV: rapid.Uint64().Draw(t, "rv"),
		Token: Token(rapid.Uint64().Draw(t, "token")), Shard: text.Draw(t, "shard"),
		SchedulerName: text.Draw(t, "scheduler"), NonZeroCPU: rapid.Int64().Draw(t, "cpu"),
		NonZeroMemory: rapid.Int64().Draw(t, "memory"), Gang: text.Draw(t, "gang"),
		Plan: text.Draw(t, "plan"), Wanted: rapid.Bool().Draw(t, "wanted"),
		GroupPartition: rapid.Int32Range(0, Partitions).Draw(t, "group partition"),
	}
	if m := rapid.MapOfN(text, rapid.Int64(), 0, 4).Draw(t, "requests"); len(m) > 0 {
		e.Requests = m
	}
	if rapid.Bool().Draw(t, "move") {
		e.Replacement = Replacement{Owner: text.Draw(t, "owner"), Template: text.Draw(t, "template")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "budgets") {
		e.Budgets = append(e.Budgets, text.Draw(t, "budget"))
	}
	e.NotAfter = timeOf(rapid.Int64Range(0, 1<<45).Draw(t, "not after"))
	for range rapid.IntRange(0, 2).Draw(t, "dependents") {
		e.Dependents = append(e.Dependents, Dependent{
			PodUID: rapid.StringN(1, 20, 40).Draw(t, "dependent"), PodRV: rapid.Uint64().Draw(t, "dependent rv"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "ports") {
		e.Ports = append(e.Ports, HostPort{
			IP: text.Draw(t, "ip"), Protocol: text.Draw(t, "protocol"), Port: rapid.Int32().Draw(t, "port"),
		})
	}
	return e
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NodeDoc{
			NodeUID: rapid.StringN(1, 20, 40).Draw(t, "node"), NodeName: rapid.StringN(0, 20, 40).Draw(t, "name"),
			Revision: rapid.Int64().Draw(t, "revision"),
		}
		if m := rapid.MapOfN(rapid.StringN(0, 9, 20), rapid.Uint64(), 0, 3).Draw(t, "hw"); len(m) > 0 {
			d.HW = m
		}
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			d.Entries = append(d.Entries, drawEntry(t))
		}
		value, err := EncodeNodeDoc(d)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeNodeDoc(stored(d, value))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, back); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
		again, err := EncodeNodeDoc(back)
		if err != nil || !bytes.Equal(value, again) {
			t.Fatalf("equal documents have different bytes (%v)", err)
		}
	})
}

func TestLimitsNameTheNode(t *testing.T) {
	many := NodeDoc{NodeUID: "u", NodeName: "node-x", Entries: make([]Entry, MaxEntries+1)}
	big := NodeDoc{NodeUID: "u", NodeName: "node-x"}
	for i := range MaxEntries {
		big.Entries = append(big.Entries, Entry{PodUID: fmt.Sprint(i), Role: RoleReservation, Name: strings.Repeat("x", 253)})
	}
	for name, d := range map[string]NodeDoc{"entries": many, "bytes": big} {
		_, err := EncodeNodeDoc(d)
		var full *DocTooLargeError
		if !errors.As(err, &full) || !strings.Contains(err.Error(), "node-x") {
			t.Errorf("%s: %v, want *DocTooLargeError naming node-x", name, err)
		}
	}
	if _, err := Place(NodeDoc{NodeUID: "u", NodeName: "node-x"}, make([]Entry, MaxEntries+1)...); err == nil {
		t.Error("placing over the limit: no error")
	}
	if _, err := EncodeNodeDoc(NodeDoc{NodeName: "node-x"}); err == nil || !strings.Contains(err.Error(), "node-x") {
		t.Errorf("document without UID: %v", err)
	}
	typical := NodeDoc{NodeUID: full().NodeUID, NodeName: "node-x"}
	for range MaxEntries {
		typical.Entries = append(typical.Entries, full().Entries[0])
	}
	value, err := EncodeNodeDoc(typical)
	if err != nil {
		t.Errorf("%d entries of ordinary size do not fit: %v", MaxEntries, err)
	}
	t.Logf("%d ordinary entries take %d bytes", MaxEntries, len(value))
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
		"partition 256 of":     entry(func(e *ledgerpb.Entry) { e.GroupPartition = Partitions + 1 }),
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
		_, err = DecodeNodeDoc(KV{Key: "n/u", Value: value, ModRevision: 12})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "n/u at revision 12") {
			t.Errorf("error %v, want one that names the key and says %q", err, want)
		}
	}
	for _, kv := range []KV{
		{Key: "own/001"}, {Key: "n/u", Value: []byte{0xff}}, {Key: "n/u", Value: make([]byte, MaxDocBytes+1)},
	} {
		if _, err := DecodeNodeDoc(kv); err == nil {
			t.Errorf("decode %s with %d bytes: no error", kv.Key, len(kv.Value))
		}
	}
	if _, err := DecodeOwner([]byte{8, 1}); err == nil {
		t.Error("owner without member: no error")
	}
	if _, err := DecodeMember([]byte{8, 1}); err == nil {
		t.Error("member without id: no error")
	}
}

func FuzzDecodeNodeDoc(f *testing.F) {
	value, err := EncodeNodeDoc(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Fuzz(func(t *testing.T, value []byte) {
		kv := KV{Key: KeyNode(full().NodeUID), Value: value, ModRevision: 1}
		d, err := DecodeNodeDoc(kv)
		if err != nil {
			return
		}
		kv.Value, err = EncodeNodeDoc(d)
		if err != nil {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		again, err := DecodeNodeDoc(kv)
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
		if o, err := DecodeOwner(value); err == nil {
			again, err := EncodeOwner(o)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := DecodeOwner(again); err != nil || back != o {
				t.Errorf("owner %+v became %+v (%v)", o, back, err)
			}
		}
		if m, err := DecodeMember(value); err == nil {
			if _, err := EncodeMember(m); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = decodeCluster(value)
		_, _ = DecodePause(value)
	})
}
