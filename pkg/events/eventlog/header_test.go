package eventlog_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// TestHeaderIsAMap compares a Header with a map, whatever is set in which order.
func TestHeaderIsAMap(t *testing.T) {
	key := rapid.SampledFrom([]string{"", "a", "b", "kind", "name", "uid", "z"})
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.MapOf(key, rapid.String()).Draw(t, "begin")
		h := eventlog.NewHeader(model)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			k, v := key.Draw(t, "key"), rapid.String().Draw(t, "value")
			h.Set(k, v)
			model[k] = v
		}
		for k, v := range model {
			if got, ok := h.Lookup(k); !ok || got != v || h.Get(k) != v {
				t.Fatalf("%q is %q, %v, want %q", k, got, ok, v)
			}
		}
		if got, ok := h.Lookup("none"); ok || got != "" {
			t.Fatalf("a key that was not set has %q", got)
		}
		same := eventlog.NewHeader(model)
		if len(h) != len(model) || !h.Equal(same) || !same.Equal(h) {
			t.Fatalf("%v, want each key of %v once", h, model)
		}
		if k := key.Draw(t, "changed"); len(h) > 0 {
			same.Set(k, model[k]+"x")
			if same.Equal(h) || h.Equal(same) || same.SubsetOf(h) {
				t.Fatalf("%v equals %v", same, h)
			}
		}
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var again eventlog.Header
		if err := json.Unmarshal(data, &again); err != nil || !again.Equal(h) {
			t.Fatalf("%s was read as %v, %v, want %v", data, again, err, h)
		}
	})
}
