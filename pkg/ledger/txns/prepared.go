package txns

import (
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// planPrepared is the prefix of the ids of plans without victims.
const planPrepared = "prepare-"

// PreparedPlan returns the id of a plan that consists of the hold of this token alone. No pod has to leave, but
// plugins of the pod's shard have work to do before the pod may be bound. A shard that owns the pod's partition
// without having the plugins' state gives the place up.
func PreparedPlan(owner ledger.Token) string { return planPrepared + owner.String() }

// IsPrepared reports whether a plan is one of PreparedPlan.
func IsPrepared(plan string) bool { return strings.HasPrefix(plan, planPrepared) }

// PreparedFor is how long plugins may take with such a hold: as long as upstream lets a pod wait for Permit
// (maxTimeout in pkg/scheduler/framework/runtime, 15 min), plus some time for the steps before the bind.
const PreparedFor = 20 * time.Minute

// DelegatedFor is how long plugins may take for a bind (Entry.Delegated): as long as binders try before they take a
// place back.
const DelegatedFor = 30 * time.Second
