package waiting

// These are the events that bring pods into a pool. They have upstream's names where upstream has the event
// (pkg/scheduler/framework/events.go), so that dashboards keep working. Changes of the cluster are named by
// rule.Change.Label.
const (
	EventPodAdd          = "UnschedulablePodAdd"
	EventGatesGone       = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
	EventAttemptFailure  = "ScheduleAttemptFailure"
	EventBackoffComplete = "BackoffComplete"
	EventPopFromBackoff  = "PopFromBackoffQ"
	EventTimeout         = "UnschedulableTimeout"
	EventTakeover        = "LeaderTakeover"
	EventLeaseExpired    = "OfferExpired"
	EventLeaseReturned   = "OfferReturned"
	EventReleased        = "ReservationReleased"
	EventWithdrawn       = "HoldWithdrawn"
	EventQuarantine      = "Quarantine"
	EventActivate        = "ForceActivate"
	EventOffer           = "Offer"
	eventPlaced          = "Placed"
	EventReserved        = "ReservationSeen"
	EventReset           = "FactsReset"
)
