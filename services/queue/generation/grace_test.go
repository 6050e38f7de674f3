package generation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// A generation stays closed for longer than any bind that was sent before can take.
func TestGraceIsLongerThanAnyBind(t *testing.T) {
	binds := func(d time.Duration) placement.ProfileConfig {
		return placement.ProfileConfig{Extenders: []configv1.Extender{{
			BindVerb: "bind", HTTPTimeout: metav1.Duration{Duration: d},
		}}}
	}
	filters := placement.ProfileConfig{Extenders: []configv1.Extender{{
		FilterVerb: "filter", HTTPTimeout: metav1.Duration{Duration: time.Hour},
	}}}
	plugin := placement.ProfileConfig{Custom: &placement.Custom{
		Points: map[string][]placement.CustomPlugin{placement.AtBind: {{}}}, Binder: 1,
	}}
	for name, c := range map[string]struct {
		profiles []placement.ProfileConfig
		want     time.Duration
	}{
		"binders alone":       {[]placement.ProfileConfig{filters}, 30 * time.Second},
		"a quick extender":    {[]placement.ProfileConfig{binds(5 * time.Second)}, 30 * time.Second},
		"a slow extender":     {[]placement.ProfileConfig{filters, binds(time.Minute)}, 80 * time.Second},
		"a plugin":            {[]placement.ProfileConfig{filters, plugin}, 65 * time.Second},
		"plugin and extender": {[]placement.ProfileConfig{plugin, binds(time.Minute)}, 80 * time.Second},
	} {
		if got := Grace(c.profiles); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A generation stays closed for longer than a binder that is cut off from the ledger evicts for an earlier mark.
func TestGraceIsLongerThanAnyEviction(t *testing.T) {
	const carriedOut = 5 * time.Second // by the API server, which may still work on it when the call has ended
	if got := Grace(nil); got < txns.EvictFor+carriedOut {
		t.Errorf("%s, want %s at least", got, txns.EvictFor+carriedOut)
	}
}
