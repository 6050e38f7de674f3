package registry_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

// FuzzDecodeTerms: terms and registries that can be decoded can be encoded again.
func FuzzDecodeTerms(f *testing.F) {
	for _, name := range []string{"term", "registry", "keeper"} {
		value, err := os.ReadFile(filepath.Join("..", "codec", "testdata", name+".v1.pb"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if term, err := registry.DecodeTermValue(value); err == nil {
			kv := ledger.KV{Key: registry.PrefixTerm + string(term.ID()), Value: value, ModRevision: 1}
			if _, _, err := registry.DecodeTerm(kv); err != nil {
				t.Errorf("read, but not under its own key: %v", err)
			}
			if kv.Value, err = registry.EncodeTerm(term); err != nil {
				t.Fatalf("decoded, but cannot be encoded: %v", err)
			}
			if id, _, err := registry.DecodeTerm(kv); err != nil || id != term.ID() {
				t.Errorf("term %s became %s (%v)", term.ID(), id, err)
			}
		}
		sampletest.Again(t, ledger.KV{Key: "t/reg", Value: value}, registry.DecodeRegistry, registry.EncodeRegistry)
		_, _ = pause.Decode(value)
	})
}
