package codec_test

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// FuzzParseKeys: every key is either parsed as a key of the ledger or rejected.
func FuzzParseKeys(f *testing.F) {
	guard := registry.KeyGuard("0123456789abcdef", "zone-a", registry.Carriers)
	for _, key := range []string{roster.KeyOwn(255), roster.KeyWant(0), ledger.KeyNode("uid"), guard} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if p, ok := roster.ParseOwn(key); ok && roster.KeyOwn(p) != key {
			t.Errorf("%q is partition %d", key, p)
		}
		if p, ok := roster.ParseWant(key); ok && roster.KeyWant(p) != key {
			t.Errorf("%q is partition %d", key, p)
		}
		if token, err := ledger.ParseToken(key); err == nil && !strings.EqualFold(token.String(), key) {
			t.Errorf("%q is token %s", key, token)
		}
		if id, domain, part, ok := registry.ParseGuard(key); ok && registry.KeyGuard(id, domain, part) != key {
			t.Errorf("%q is part %s of term %s in %q", key, part, id, domain)
		}
	})
}
