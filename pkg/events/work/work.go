package work

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Subjects of the Bus. All messages are hints: an offer that is lost is offered again when its lease expires; a
// request that is lost is repeated with the next heartbeat.
const (
	// SubjectWork carries Request, from shards to the leading queue.
	SubjectWork = "work.request"
	// SubjectOffers + shard id carries OfferBatch, from the queue to one shard.
	SubjectOffers = "work.offers."
	// SubjectAskQueue and SubjectAskShards carry operators' questions about pods and nodes (package explain) to
	// every queue and to every shard.
	SubjectAskQueue  = "ask.queue"
	SubjectAskShards = "ask.shards"
	// SubjectTurns carries Turn, from every shard to every shard.
	SubjectTurns = "shards.turns"
)

// Request is a shard's heartbeat and request for work.
type Request struct {
	// Shard is the member id.
	Shard string
	// Window is how many leased pods the shard is willing to hold at once; the queue offers Window minus those it
	// has leased to the shard. It is 0 while the shard drains.
	Window int32
	// Renew lists the tokens of offers that the shard is still working on; their deadlines restart.
	Renew []string
	// Return lists tokens the shard gives back untried (draining, partition lost).
	Return []string
	// Activate lists the UIDs of pods that plugins want tried at once, at most MaxActivate. It is sent once: if it
	// is lost, such a pod waits for another event that wakes it.
	Activate []string
}

// MaxActivate is how many pods one Request may ask for, so that the message stays far below a server's limit (1
// MiB); further pods are sent with the next request.
const MaxActivate = 1024

// Offer is a lease on one attempt at one pod. It grants nothing; only the ledger does.
type Offer struct {
	Pod events.PodRef
	// Partition the pod belongs to; the shard must hold it.
	Partition int32
	Token     string
	Attempt   int32
	// FactSequence is the sequence up to which the shard must have applied the facts before it decides.
	FactSequence uint64
	// LeaseMillis is how long the queue waits for an outcome or a renewal.
	LeaseMillis int32
	TraceParent string
	// Cause is the event that brought the pod back to the queue, in the terms of queue_incoming_pods_total, and
	// Waited how long ago that was, in whole microseconds. They are for the record of the attempt.
	Cause  string
	Waited time.Duration
}

// OfferBatch is the content of one message to a shard, in priority order.
type OfferBatch struct {
	// Queue is the member id of the leading queue replica, Term its election revision:
	// offers of an older term than one already seen are ignored.
	Queue  string
	Term   int64
	Offers []Offer
}

// Turn is how shards avoid each other at a node for which they contend. A shard that repeatedly loses there asks
// for a turn (not Granted); the node's home shard answers with a turn, and the others avoid the node for a moment.
// It grants nothing; only the ledger does. A lost Turn costs the time until the asking shard has waited long
// enough.
type Turn struct {
	// NodeUID is the node in question.
	NodeUID string
	// Shard is the member that asks, or that has the turn.
	Shard   string
	Granted bool
}
