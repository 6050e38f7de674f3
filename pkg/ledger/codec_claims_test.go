package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

var (
	goldenClaims = NodeDoc{NodeUID: "u", NodeName: "node-4", Revision: 5, Entries: []Entry{
		{
			PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "batch-1", Role: RoleVictim,
			State: Evicting, PodRV: 12, Plan: "00000000000000aa", Budgets: []string{"pdb-1", "pdb-2"},
		},
		{
			PodUID: "3f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Role: RoleMove, Token: 0xab, Plan: "00000000000000ab",
			Replacement: Replacement{Owner: "replicaset-uid", Template: "6c9f7d"}, Requests: map[string]int64{"cpu": 1},
		},
	}}
	goldenBudget = BudgetDoc{
		UID: "pdb-uid", Namespace: "shop", Name: "web", Revision: 6, HW: map[string]uint64{KindBudget: 7},
		Claims: []BudgetClaim{
			{PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", PodRV: 12, Plan: "00000000000000aa"}, {PodUID: "text", PodRV: 13},
		},
	}
	goldenPool = ExclusiveDoc{
		Key: KeyPool("gpu.example.com", "rack-7"), Revision: 8, HW: map[string]uint64{KindPod: 9},
		Holders: []Holder{
			{PodUID: "2f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Token: 0xaa, NodeUID: "n", Items: []string{"d0", "d1"}},
			{PodUID: "text", Token: 0xab, NodeUID: "m", Items: []string{"d2"}},
		},
	}
	goldenPlan = PlanRecord{
		ID: PlanID(0xaa, true), State: PlanReady, NodeUID: "n", PodUID: "p", Shard: "s", Victims: 300, Revision: 10,
	}
)

func TestGoldenClaims(t *testing.T) {
	checkGolden(t, []golden{
		{"claims", goldenClaims, func() ([]byte, error) { return EncodeNodeDoc(goldenClaims) },
			func(b []byte) (any, error) { return DecodeNodeDoc(stored(goldenClaims, b)) }},
		{"budget", goldenBudget, func() ([]byte, error) { return EncodeBudget(goldenBudget) },
			func(b []byte) (any, error) {
				return DecodeBudget(KV{Key: goldenBudget.key(), Value: b, ModRevision: goldenBudget.Revision})
			}},
		{"exclusive", goldenPool, func() ([]byte, error) { return EncodeExclusive(goldenPool) },
			func(b []byte) (any, error) {
				return DecodeExclusive(KV{Key: goldenPool.Key, Value: b, ModRevision: goldenPool.Revision})
			}},
		{"plan", goldenPlan, func() ([]byte, error) { return EncodePlan(goldenPlan) },
			func(b []byte) (any, error) {
				return DecodePlan(KV{Key: goldenPlan.key(), Value: b, ModRevision: goldenPlan.Revision})
			}},
	})
}

func TestClaimDocumentsAreBounded(t *testing.T) {
	b := BudgetDoc{UID: "u", Claims: make([]BudgetClaim, MaxEntries+1)}
	x := ExclusiveDoc{Key: KeyVolume("v")}
	x.Holders = []Holder{{PodUID: strings.Repeat("x", MaxDocBytes), Token: 1, NodeUID: "n"}}
	for key, encode := range map[string]func() ([]byte, error){
		"b/u":     func() ([]byte, error) { return EncodeBudget(b) },
		"x/vol/v": func() ([]byte, error) { return EncodeExclusive(x) },
	} {
		_, err := encode()
		var full *DocTooLargeError
		if !errors.As(err, &full) || full.Key != key || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want *DocTooLargeError that names it", key, err)
		}
	}
	pool := ExclusiveDoc{Key: KeyPool("d", "p")}
	var err error
	for i := 0; err == nil; i++ {
		pool, err = Hold(pool, Holder{PodUID: "p", Token: 1, NodeUID: "n", Items: []string{fmt.Sprint(i)}})
	}
	var full *DocTooLargeError
	if !errors.As(err, &full) || len(pool.Holders) != 0 {
		t.Errorf("%v, want *DocTooLargeError", err)
	}
}

func TestEncodeClaimsRefuses(t *testing.T) {
	for want, err := range map[string]error{
		"has no UID":       errorOf(EncodeBudget(BudgetDoc{Namespace: "ns", Name: "pdb"})),
		`key "x/other/v"`:  errorOf(EncodeExclusive(ExclusiveDoc{Key: "x/other/v"})),
		`key "x/vol/"`:     errorOf(EncodeExclusive(ExclusiveDoc{Key: "x/vol/"})),
		`id "p"`:           errorOf(EncodePlan(PlanRecord{ID: "p", State: PlanReady, NodeUID: "n"})),
		"unknown state 0":  errorOf(EncodePlan(PlanRecord{ID: PlanID(1, true), NodeUID: "n"})),
		"without the node": errorOf(EncodePlan(PlanRecord{ID: PlanID(1, true), State: PlanReady})),
		"has -1 victims":   errorOf(EncodePlan(PlanRecord{ID: PlanID(1, true), State: PlanReady, NodeUID: "n", Victims: -1})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that says %q", err, want)
		}
	}
}

func errorOf(_ []byte, err error) error { return err }

func TestDecodeClaimsRefuses(t *testing.T) {
	value := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	twice := []*ledgerpb.HighWater{{Kind: "pod"}, {Kind: "pod"}}
	large := PlanID(1, true)
	for _, c := range []struct {
		key   string
		value []byte
		want  string
	}{
		{"b/u", value(&ledgerpb.Budget{Uid: "u"}), "schema version 0"},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "w"}), `budget "w"`},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "u", HighWater: twice}), "given twice"},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "u", Claims: []*ledgerpb.BudgetClaim{{}}}), "claim 0: want a pod"},
		{"b/u", make([]byte, MaxDocBytes+1), "value"},
		{"n/u", nil, "want a key under b/"},
		{"x/vol/v", value(&ledgerpb.Exclusive{Version: 2}), "schema version 2"},
		{"x/vol/v", value(&ledgerpb.Exclusive{Version: 1, HighWater: twice}), "given twice"},
		{"x/pool/d/p", value(&ledgerpb.Exclusive{Version: 1, Holders: []*ledgerpb.Holder{{}}}), "holder 0: want a pod"},
		{"x/vol/", nil, "want a key under x/vol/"},
		{"plan/" + large, value(&ledgerpb.Plan{Version: 1, State: 9, NodeUid: "n"}), "unknown state 9"},
		{"plan/" + large, value(&ledgerpb.Plan{Version: 1, State: -1, NodeUid: "n"}), "unknown state 0"},
		{"plan/p", value(&ledgerpb.Plan{Version: 1, State: 1, NodeUid: "n"}), `id "p"`},
	} {
		var err error
		kv := KV{Key: c.key, Value: c.value, ModRevision: 12}
		switch {
		case strings.HasPrefix(c.key, PrefixPlan):
			_, err = DecodePlan(kv)
		case strings.HasPrefix(c.key, "x/"):
			_, err = DecodeExclusive(kv)
		default:
			_, err = DecodeBudget(kv)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.key+" at revision 12") {
			t.Errorf("%s: %v, want an error that names the key and says %q", c.key, err, c.want)
		}
	}
}

func FuzzDecodeClaims(f *testing.F) {
	for _, name := range []string{"budget", "exclusive", "plan"} {
		value, err := os.ReadFile(filepath.Join("testdata", name+".v1.pb"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		again(t, KV{Key: goldenBudget.key(), Value: value}, DecodeBudget, EncodeBudget)
		again(t, KV{Key: goldenPool.Key, Value: value}, DecodeExclusive, EncodeExclusive)
		again(t, KV{Key: goldenPlan.key(), Value: value}, DecodePlan, EncodePlan)
	})
}

// again requires that what can be decoded can be encoded, and decodes to the same.
func again[T any](t *testing.T, kv KV, decode func(KV) (T, error), encode func(T) ([]byte, error)) {
	t.Helper()
	first, err := decode(kv)
	if err != nil {
		return
	}
	if kv.Value, err = encode(first); err != nil {
		var full *DocTooLargeError
		if !errors.As(err, &full) {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		return
	}
	back, err := decode(kv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, back); diff != "" {
		t.Errorf("decoded twice (-first +second):\n%s", diff)
	}
}
