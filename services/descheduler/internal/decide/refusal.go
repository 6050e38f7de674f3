package decide

import "github.com/berth-scheduler/berth/pkg/descheduling"

// Why a pod that a strategy picked is not asked for although the policy would allow it.
const (
	UnderWay    descheduling.Refusal = "eviction under way"
	CoolingDown descheduling.Refusal = "cooling down"
)
