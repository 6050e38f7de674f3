package step

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// PlanEvent says what has become of a plan.
type PlanEvent string

// What can become of a plan. Refused is one that was not made, because of what came of others.
const (
	PlanAsked     PlanEvent = "asked"
	PlanNominated PlanEvent = "nominated"
	PlanPromoted  PlanEvent = "promoted"
	PlanDisplaced PlanEvent = "displaced"
	PlanWithdrawn PlanEvent = "withdrawn"
	PlanRefused   PlanEvent = "refused"
)

// PlanReport is something about a plan for people and for metrics.
type PlanReport struct {
	What PlanEvent
	Pod  events.PodRef
	Node string
	// Victims is how many pods have to go (nominated).
	Victims int
	// Held is how long the place was held (promoted, displaced, withdrawn), as far as this
	// shard knows.
	Held time.Duration
	// Detail is a sentence (displaced, withdrawn, refused).
	Detail string
}
