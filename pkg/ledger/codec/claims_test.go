package codec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

func TestGoldenClaims(t *testing.T) {
	checkGolden(t, []golden{
		{"claims", sampletest.Claims, func() ([]byte, error) { return codec.EncodeNodeDoc(sampletest.Claims) },
			func(b []byte) (any, error) { return codec.DecodeNodeDoc(sampletest.Stored(sampletest.Claims, b)) }},
		{"budget", sampletest.Budget, func() ([]byte, error) { return codec.EncodeBudget(sampletest.Budget) },
			func(b []byte) (any, error) {
				return codec.DecodeBudget(ledger.KV{Key: sampletest.Budget.DocKey(), Value: b,
					ModRevision: sampletest.Budget.Revision})
			}},
		{"exclusive", sampletest.Pool, func() ([]byte, error) { return codec.EncodeExclusive(sampletest.Pool) },
			func(b []byte) (any, error) {
				return codec.DecodeExclusive(ledger.KV{Key: sampletest.Pool.Key, Value: b, ModRevision: sampletest.Pool.Revision})
			}},
		{"plan", sampletest.Plan, func() ([]byte, error) { return codec.EncodePlan(sampletest.Plan) },
			func(b []byte) (any, error) {
				return codec.DecodePlan(ledger.KV{Key: sampletest.Plan.DocKey(), Value: b, ModRevision: sampletest.Plan.Revision})
			}},
	})
}

func TestClaimDocumentsAreBounded(t *testing.T) {
	b := ledger.BudgetDoc{UID: "u", Claims: make([]ledger.BudgetClaim, ledger.MaxEntries+1)}
	x := ledger.ExclusiveDoc{Key: ledger.KeyVolume("v")}
	x.Holders = []ledger.Holder{{PodUID: strings.Repeat("x", ledger.MaxDocBytes), Token: 1, NodeUID: "n"}}
	for key, encode := range map[string]func() ([]byte, error){
		"b/u":     func() ([]byte, error) { return codec.EncodeBudget(b) },
		"x/vol/v": func() ([]byte, error) { return codec.EncodeExclusive(x) },
	} {
		_, err := encode()
		var full *ledger.DocTooLargeError
		if !errors.As(err, &full) || full.Key != key || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want *DocTooLargeError that names it", key, err)
		}
	}
	pool := ledger.ExclusiveDoc{Key: ledger.KeyPool("d", "p")}
	var err error
	for i := 0; err == nil; i++ {
		pool, err = pool.AddHolder(ledger.Holder{PodUID: "p", Token: 1, NodeUID: "n", Items: []string{fmt.Sprint(i)}})
	}
	var full *ledger.DocTooLargeError
	if !errors.As(err, &full) || len(pool.Holders) != 0 {
		t.Errorf("%v, want *DocTooLargeError", err)
	}
}

func TestEncodeClaimsRefuses(t *testing.T) {
	for want, err := range map[string]error{
		"has no UID":       errorOf(codec.EncodeBudget(ledger.BudgetDoc{Namespace: "ns", Name: "pdb"})),
		`key "x/other/v"`:  errorOf(codec.EncodeExclusive(ledger.ExclusiveDoc{Key: "x/other/v"})),
		`key "x/vol/"`:     errorOf(codec.EncodeExclusive(ledger.ExclusiveDoc{Key: "x/vol/"})),
		`id "p"`:           errorOf(codec.EncodePlan(ledger.PlanRecord{ID: "p", State: ledger.PlanReady, NodeUID: "n"})),
		"unknown state 0":  errorOf(codec.EncodePlan(ledger.PlanRecord{ID: ledger.PlanID(1, true), NodeUID: "n"})),
		"without the node": errorOf(codec.EncodePlan(ledger.PlanRecord{ID: ledger.PlanID(1, true), State: ledger.PlanReady})),
		"has -1 victims": errorOf(codec.EncodePlan(ledger.PlanRecord{ID: ledger.PlanID(1, true), State: ledger.PlanReady,
			NodeUID: "n", Victims: -1})),
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
	large := ledger.PlanID(1, true)
	for _, c := range []struct {
		key   string
		value []byte
		want  string
	}{
		{"b/u", value(&ledgerpb.Budget{Uid: "u"}), "schema version 0"},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "w"}), `budget "w"`},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "u", HighWater: twice}), "given twice"},
		{"b/u", value(&ledgerpb.Budget{Version: 1, Uid: "u", Claims: []*ledgerpb.BudgetClaim{{}}}), "claim 0: want a pod"},
		{"b/u", make([]byte, ledger.MaxDocBytes+1), "value"},
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
		kv := ledger.KV{Key: c.key, Value: c.value, ModRevision: 12}
		switch {
		case strings.HasPrefix(c.key, ledger.PrefixPlan):
			_, err = codec.DecodePlan(kv)
		case strings.HasPrefix(c.key, "x/"):
			_, err = codec.DecodeExclusive(kv)
		default:
			_, err = codec.DecodeBudget(kv)
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
		sampletest.Again(t, ledger.KV{Key: sampletest.Budget.DocKey(), Value: value}, codec.DecodeBudget, codec.EncodeBudget)
		sampletest.Again(t, ledger.KV{Key: sampletest.Pool.Key, Value: value}, codec.DecodeExclusive, codec.EncodeExclusive)
		sampletest.Again(t, ledger.KV{Key: sampletest.Plan.DocKey(), Value: value}, codec.DecodePlan, codec.EncodePlan)
	})
}
