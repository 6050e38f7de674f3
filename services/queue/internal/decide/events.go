package decide

// These are the events that bring pods into a pool. They have upstream's names where upstream has the event
// (pkg/scheduler/framework/events.go), so that dashboards keep working. Changes of the cluster are named by
// placement.Change.Label.
const (
	eventPodAdd          = "UnschedulablePodAdd"
	eventGatesGone       = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
	eventAttemptFailure  = "ScheduleAttemptFailure"
	eventBackoffComplete = "BackoffComplete"
	eventPopFromBackoff  = "PopFromBackoffQ"
	eventTimeout         = "UnschedulableTimeout"
	eventTakeover        = "LeaderTakeover"
	eventLeaseExpired    = "OfferExpired"
	eventLeaseReturned   = "OfferReturned"
	eventReleased        = "ReservationReleased"
	eventWithdrawn       = "HoldWithdrawn"
	eventQuarantine      = "Quarantine"
	eventActivate        = "ForceActivate"
	eventOffer           = "Offer"
	eventPlaced          = "Placed"
	eventReserved        = "ReservationSeen"
	eventReset           = "FactsReset"
)
