package step

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// PlanEvent is a kind of change of a plan.
type PlanEvent string

// The changes of a plan. PlanRefused: the plan was not made, because of the results of earlier plans.
const (
	PlanSearched  PlanEvent = "asked"
	PlanNominated PlanEvent = "nominated"
	PlanPromoted  PlanEvent = "promoted"
	PlanDisplaced PlanEvent = "displaced"
	PlanWithdrawn PlanEvent = "withdrawn"
	PlanRefused   PlanEvent = "refused"
)

// PlanReport is a report on a plan for people and for metrics.
type PlanReport struct {
	Event PlanEvent
	Pod   events.PodRef
	Node  string
	// Victims is how many pods must be evicted (nominated).
	Victims int
	// Held is how long the place was held (promoted, displaced, withdrawn), since this shard first saw it.
	Held time.Duration
	// Detail is a sentence (displaced, withdrawn, refused).
	Detail string
}
