package generation

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
)

const (
	// graceToNotice gives members time to notice that a generation is closed (5 s, ledger/etcd) and to receive the
	// answer to a slow request (10 s), with some time to spare.
	graceToNotice = 20 * time.Second
	// binderBind is how long a binder's bind may be in flight (the binder's bindTimeout). pluginBind is the same for
	// a plugin's bind: as long as binders wait before they take the place back.
	binderBind = 10 * time.Second
	pluginBind = txns.DelegatedFor + txns.DelegatedFor/2
)

// Grace returns how long a generation of the ledger stays closed after it was cleared: until the last bind sent
// before that has either arrived or can no longer arrive. It does not cover a member that is paused for longer
// between deciding on a bind and sending it.
func Grace(profiles []placement.ProfileConfig) time.Duration {
	longest := binderBind
	for _, p := range profiles {
		if p.Custom != nil && len(p.Custom.Binding()) > 0 {
			longest = max(longest, pluginBind)
		}
		for _, e := range p.Extenders {
			if e.BindVerb != "" {
				longest = max(longest, e.HTTPTimeout.Duration)
			}
		}
	}
	return graceToNotice + longest
}
