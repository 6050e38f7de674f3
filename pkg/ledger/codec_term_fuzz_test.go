package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzDecodeTerms: terms and registries that can be decoded can be encoded again.
func FuzzDecodeTerms(f *testing.F) {
	for _, name := range []string{"term", "registry", "keeper"} {
		value, err := os.ReadFile(filepath.Join("testdata", name+".v1.pb"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if term, err := decodeTerm(value); err == nil {
			kv := KV{Key: PrefixTerm + string(term.ID()), Value: value, ModRevision: 1}
			if _, _, err := DecodeTerm(kv); err != nil {
				t.Errorf("read, but not under its own key: %v", err)
			}
			if kv.Value, err = EncodeTerm(term); err != nil {
				t.Fatalf("decoded, but cannot be encoded: %v", err)
			}
			if id, _, err := DecodeTerm(kv); err != nil || id != term.ID() {
				t.Errorf("term %s became %s (%v)", term.ID(), id, err)
			}
		}
		again(t, KV{Key: "t/reg", Value: value}, DecodeRegistry, EncodeRegistry)
		_, _ = DecodePause(value)
	})
}

// FuzzParseKeys: every key is either parsed as a key of the ledger or rejected.
func FuzzParseKeys(f *testing.F) {
	guard := KeyGuard("0123456789abcdef", "zone-a", Carriers)
	for _, key := range []string{KeyOwn(255), KeyWant(0), KeyNode("uid"), guard} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if p, ok := ParseOwn(key); ok && KeyOwn(p) != key {
			t.Errorf("%q is partition %d", key, p)
		}
		if p, ok := ParseWant(key); ok && KeyWant(p) != key {
			t.Errorf("%q is partition %d", key, p)
		}
		if token, err := ParseToken(key); err == nil && !strings.EqualFold(token.String(), key) {
			t.Errorf("%q is token %s", key, token)
		}
		if id, domain, part, ok := ParseGuard(key); ok && KeyGuard(id, domain, part) != key {
			t.Errorf("%q is part %s of term %s in %q", key, part, id, domain)
		}
	})
}
