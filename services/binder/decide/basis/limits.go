package basis

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// Limits are the core's durations and bounds.
type Limits struct {
	// Binds is how many Bindings may be requested at once; further ones wait in the core. It should exceed the number
	// of workers that carry them out, so that no worker waits for the core.
	Binds int
	// BindDeadline is how long a Committed entry may stay unbound, and unchanged as far as this binder sees, before
	// it is fenced (T_bind of the protocol).
	BindDeadline time.Duration
	Waits
	// Idle is how long a document (or an entry in Fencing) must be unchanged before the
	// sweep touches it.
	Idle time.Duration
	// Losses is the number of lost resourceVersions that ends in a fence instead of a refresh.
	Losses int
	// Retry paces the retries of requests with an unknown outcome. Jitter must be 0: the core is deterministic.
	Retry wait.Backoff
	// Ungate is how long after the request the removal of a gate may still be begun.
	Ungate time.Duration
	// Call is how long a call that evicts a pod or removes a gate may take.
	Call time.Duration
	EvictionLimits
	// NominateAlone is how long a pod's nominatedNodeName waits for the condition that belongs to it, so that one
	// write covers both.
	NominateAlone time.Duration
	Leftovers
	Refusals RefusalLimits
	Marks    MarkLimits
	// Foreign bounds all hints, and the conditions, evictions and removals of gates (each) that are remembered for
	// partitions of other members. Beyond it new ones are dropped, because they are only hints.
	Foreign int
}

// EvictionLimits are the limits for evictions.
type EvictionLimits struct {
	// EvictionMemory is how long a decision to evict may wait for its claim, and how long its outcome is remembered
	// to detect redelivery.
	EvictionMemory time.Duration
	// EvictionTries is how many evictions (or dry runs) of a plan's victim are refused before this is reported to the
	// plan's shard. PlanPause is how long the plan then rests before it is tried again.
	EvictionTries int
	PlanPause     time.Duration
	// EvictionHang is how long an eviction without an answer may still arrive. EvictWithin is how long an eviction
	// may be begun after this binder has last read its claim from the ledger. EvictWithin and Limits.Call are part of
	// EvictionHang, which another binder counts from when it has taken the claim over.
	EvictionHang, EvictWithin time.Duration
	// RequestFor is how long the binder waits for a controller to take on the eviction of a pod that can only be
	// requested (state.AnnotationRequestEvictOnly).
	RequestFor time.Duration
}

// RefusalLimits are the limits for fences whose write the API server refuses.
type RefusalLimits struct {
	// ReportAfter is the number of refusals of one fence in a row from which on they are reported, and ReportEvery how
	// long after a report they are reported once more.
	ReportAfter int
	ReportEvery time.Duration
	// Failing is how long the API server must have answered with errors of its own until that is reported too: a
	// change of etcd's leader is over sooner.
	Failing time.Duration
	// Pause paces the retries after refusals. Jitter must be 0, as in Limits.Retry.
	Pause wait.Backoff
}

// MarkMode is what a binder does about the marks on nodes for cluster autoscalers.
type MarkMode uint8

const (
	// MarksNone: it leaves nodes alone.
	MarksNone MarkMode = iota
	// MarksWrite: it writes marks, and removes those that are not wanted any more.
	MarksWrite
	// MarksRemove: it removes all marks.
	MarksRemove
)

// MarkLimits are the limits for marks on nodes (package nodemarks).
type MarkLimits struct {
	Mode MarkMode
	// Named is how long a node stays withheld after a decision last named it. It is longer than autoscalers take to
	// look at a pending pod (10 s by default), and than most backoffs. Least is how long it stays so at least.
	Named, Least time.Duration
	// Look is the interval between looks at all documents for places that the API server does not show. A place must
	// be there in two of them.
	Look time.Duration
	// Fresh is how long after its start a binder removes no mark: it knows only decisions that it has read since.
	Fresh time.Duration
	// Every is the interval between writes of one binder on average, and Burst how many may be sent at once.
	Every time.Duration
	Burst int
	// Refused is how long a node is left alone after the API server has refused a write.
	Refused time.Duration
	// Nodes is how many nodes may be withheld at once, and Pods how many pods that are held back are remembered.
	Nodes, Pods int
}

const (
	// fenceRefusals is more refusals than are transient, for instance while a policy is being replaced.
	fenceRefusals = 3
	// fenceFailing is longer than etcd takes to elect a leader, or a webhook's pod to restart.
	fenceFailing = time.Minute
	// refusalsAgain is shorter than the silence after which readers of the log consider a problem ended
	// (anomaly.Window), by more than the pause between two tries.
	refusalsAgain = 5 * time.Minute
	// refusedPause is the longest time that a pod waits after its owner has allowed the write. It also bounds the
	// load of many refused fences on the API server.
	refusedPause = time.Minute
)

const (
	// evictionHang leaves room for txns.EvictFor and for a request in flight: an API server answers within
	// --request-timeout, 60 s by default, and a request may have waited in a connection before.
	evictionHang = 5 * time.Minute
	// changeCall is the longest time that any change of Kubernetes may take.
	changeCall = 10 * time.Second
	// evictWithin leaves changeCall for the call. A claim whose eviction is refused for longer than this, for
	// instance by a budget, is read from the ledger once in that time.
	evictWithin = txns.EvictFor - changeCall
	// requestFor is upstream's assumedEvictionRequestTimeoutSeconds (sigs.k8s.io/descheduler evictions.go).
	requestFor = 10 * time.Minute
)

// DefaultKeepPlace and DefaultCollect are the defaults of Leftovers.KeepPlace and Leftovers.Collect.
const (
	DefaultKeepPlace = 2 * time.Minute
	DefaultCollect   = 10 * time.Minute
)

// Leftovers are the times after which leftovers are dropped.
type Leftovers struct {
	// Overdue is how long a document with holds may be unchanged before the sweep gives the holds up, in addition to
	// the grace period of pods that are leaving for them and to what plugins may take (txns.PreparedFor). A process
	// that works on a plan changes the document much sooner.
	Overdue time.Duration
	// KeepPlace is how long the place of a pod that is moved is kept for its replacement after the pod has left, and
	// how long it is kept while its eviction has not been requested. Controllers create the next pod within seconds,
	// some only after the old one is gone.
	KeepPlace time.Duration
	// ReportWithin is how long it may take to report the outcome of an eviction, if a binder dies and another one takes
	// over its partition.
	ReportWithin time.Duration
	// Collect is how long an empty document of an object that is gone is left before it is deleted, so that the floor
	// does not delay members whose facts lag. CollectEvery is the interval between searches of all documents for such
	// ones.
	Collect, CollectEvery time.Duration
	// ForgetEvery is how often the core searches its memory of pods for entries that can no longer matter: with many
	// waiting pods, a pass over all of them costs more than it frees.
	ForgetEvery time.Duration
}

// Waits are the limits for pods that cannot be bound at once.
type Waits struct {
	// Volumes are the limits for pods whose volumes have to be bound or created first.
	Volumes WaitLimits
	// Devices are the limits for pods whose devices have to become ready first. Volumes.Poll applies to them as well.
	Devices WaitLimits
	// Delegated is how long a bind is left to a plugin (ledger.Entry.Delegated): the plugin's own time
	// (txns.DelegatedFor), and half of that for its last request to be carried out or refused.
	Delegated time.Duration
}

// WaitLimits are the times for volumes or devices.
type WaitLimits struct {
	// Deadline is how much longer than BindDeadline an entry may stay unbound for them. Deadlines are the same by
	// scheduler name, for profiles that set it.
	Deadline  time.Duration
	Deadlines map[string]time.Duration
	// Poll is the interval between checks whether they are ready.
	Poll time.Duration
}

// For returns the deadline of a scheduler name.
func (l WaitLimits) For(scheduler string) time.Duration {
	if d, ok := l.Deadlines[scheduler]; ok {
		return d
	}
	return l.Deadline
}

// DefaultLimits returns the protocol's limits.
func DefaultLimits() Limits {
	return Limits{
		Binds:        32,
		BindDeadline: 30 * time.Second,
		Waits: Waits{
			// These are the default of VolumeBindingArgs.bindTimeoutSeconds, and kube-scheduler's polling interval.
			Volumes: WaitLimits{Deadline: 600 * time.Second, Poll: time.Second},
			// This is the default of DynamicResourcesArgs.bindingTimeout.
			Devices:   WaitLimits{Deadline: 600 * time.Second},
			Delegated: txns.DelegatedFor + txns.DelegatedFor/2,
		},
		Idle:   5 * time.Second,
		Losses: 3,
		Retry:  wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 30, Cap: 5 * time.Second},
		Ungate: events.UngateFor,
		Call:   changeCall,
		// A decision arrives as fast as its transaction, within milliseconds.
		NominateAlone: 500 * time.Millisecond,
		EvictionLimits: EvictionLimits{
			EvictionMemory: 10 * time.Minute,
			EvictionTries:  8,
			PlanPause:      30 * time.Second,
			EvictionHang:   evictionHang,
			EvictWithin:    evictWithin,
			RequestFor:     requestFor,
		},
		Leftovers: Leftovers{
			Overdue:      10 * time.Minute,
			ReportWithin: 30 * time.Second,
			KeepPlace:    DefaultKeepPlace,
			Collect:      DefaultCollect,
			CollectEvery: time.Minute,
			ForgetEvery:  10 * time.Second,
		},
		Refusals: RefusalLimits{
			ReportAfter: fenceRefusals, ReportEvery: refusalsAgain, Failing: fenceFailing,
			Pause: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 30, Cap: refusedPause},
		},
		Marks: MarkLimits{
			Named: time.Minute, Least: 15 * time.Second, Look: 5 * time.Second, Fresh: 30 * time.Second,
			Every: 2 * time.Second, Burst: 10, Refused: time.Minute, Nodes: 32, Pods: 1024,
		},
		Foreign: 1 << 16,
	}
}
