package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Limits are the core's times and bounds.
type Limits struct {
	// Binds is how many Bindings may be asked for at once; further ones wait in the core. It should be
	// more than there are workers who carry them out, so that none of these waits for the core.
	Binds int
	// BindDeadline is how long a Committed entry may stay unbound, unchanged in the
	// binder's own eyes, before it is fenced (T_bind of the protocol).
	BindDeadline time.Duration
	Waits
	// Idle is how long a document (or an entry in Fencing) must be unchanged before the
	// sweep touches it.
	Idle time.Duration
	// Losses is how many lost resourceVersions end in a fence instead of a refresh.
	Losses int
	// Retry paces the repetition of requests with an unknown outcome. Jitter must be 0:
	// the core is deterministic.
	Retry wait.Backoff
	// Ungate is how long the removal of a gate is begun after it was asked for.
	Ungate time.Duration
	// Call is how long a call may take that evicts a pod or removes a gate.
	Call time.Duration
	EvictionLimits
	// NominateAlone is how long a pod's nominatedNodeName waits for the condition that comes with
	// it, so that both are one write.
	NominateAlone time.Duration
	Leftovers
	Refusals RefusalLimits
	// Foreign bounds, each, the hints, conditions and evictions remembered for partitions
	// of other members; past it new ones are dropped, they are hints.
	Foreign int
}

// EvictionLimits are about evictions.
type EvictionLimits struct {
	// EvictionMemory is how long a decision to evict may wait for its claim, and how long its
	// outcome is remembered against redelivery.
	EvictionMemory time.Duration
	// EvictionTries is how many evictions (or dry runs) of a plan's victim are refused before
	// the plan is told so, PlanPause how long the plan then rests before it is tried again.
	EvictionTries int
	PlanPause     time.Duration
	// EvictionHang is how long an eviction that got no answer may still arrive. EvictWithin is how long
	// an eviction may be begun after this binder has last asked the ledger for its claim. That and Limits.Call are
	// part of EvictionHang, which another binder counts from when it has taken the claim over.
	EvictionHang, EvictWithin time.Duration
}

// RefusalLimits are about fences whose write the API server refuses.
type RefusalLimits struct {
	// Tell is how many refusals of one fence in a row are told of, Again how long after that they are told
	// of once more.
	Tell  int
	Again time.Duration
	// Failing is how long the API server must have answered with errors of its own until that is reported too: a change
	// of etcd's leader passes.
	Failing time.Duration
	// Pause paces the tries after refusals. Jitter must be 0, as in Limits.Retry.
	Pause wait.Backoff
}

const (
	// fenceRefusals may pass by themselves, as while a policy is being replaced.
	fenceRefusals = 3
	// fenceFailing is longer than etcd takes to elect a leader, and a webhook's pod to start again.
	fenceFailing = time.Minute
	// refusalsAgain is less than what readers of the log take for over (anomaly.Window), by more than a
	// pause between two tries.
	refusalsAgain = 5 * time.Minute
	// refusedPause is how long a pod waits at most after its owner has allowed the write, and bounds what
	// many refused fences ask of the API server.
	refusedPause = time.Minute
)

const (
	// evictionHang has room for ledger.EvictFor and for a request on its way: an API server answers within
	// --request-timeout, 60 s unless set otherwise, and a request may have waited in a connection before.
	evictionHang = 5 * time.Minute
	// changeCall is as long as any change of Kubernetes may take.
	changeCall = 10 * time.Second
	// evictWithin leaves changeCall to the call. A claim whose eviction is refused for longer than this, as by a
	// budget, is read from the ledger once in that time.
	evictWithin = ledger.EvictFor - changeCall
)

// DefaultKeepPlace and DefaultCollect are Leftovers.KeepPlace and Leftovers.Collect unless set otherwise.
const (
	DefaultKeepPlace = 2 * time.Minute
	DefaultCollect   = 10 * time.Minute
)

// Leftovers are the times after which is dropped what is left over.
type Leftovers struct {
	// Overdue is how long a document with holds may be unchanged, on top of the grace period
	// of pods that are leaving for them and what plugins may take (ledger.PreparedFor), before the sweep
	// gives the holds up. Whoever works on a plan changes it much sooner.
	Overdue time.Duration
	// KeepPlace is how long the place of a pod that is moved is kept for its replacement after the
	// pod has left, and how long it is kept while nobody has asked for the eviction. Controllers
	// make the next pod within seconds, some only when the old one has gone.
	KeepPlace time.Duration
	// Collect is how long an empty document of an object that is gone is left before it is deleted, so
	// that members whose facts are late are not held up by the floor. CollectEvery spaces the looks at
	// all documents for such ones.
	Collect, CollectEvery time.Duration
	// ForgetEvery is how often the core goes through what it remembers of pods for what can no
	// longer matter: with many pods that wait, a pass over all of them costs more than it frees.
	ForgetEvery time.Duration
}

// Waits are about pods that cannot be bound at once.
type Waits struct {
	// Volumes is about pods whose volumes have to be bound or made first.
	Volumes WaitLimits
	// Devices is about pods whose devices have to get ready first. How often to look is that of
	// Volumes.
	Devices WaitLimits
	// Delegated is how long a bind is left to a plugin (ledger.Entry.Delegated): what the plugin has
	// (ledger.DelegatedFor), and half of it for its last request to be carried out or refused.
	Delegated time.Duration
}

// WaitLimits are the times for volumes or devices.
type WaitLimits struct {
	// Deadline is how much longer than BindDeadline an entry may stay unbound for them, and
	// Deadlines the same by scheduler name, where a profile says so.
	Deadline  time.Duration
	Deadlines map[string]time.Duration
	// Poll is the pause between looks whether they are there.
	Poll time.Duration
}

func (l WaitLimits) deadline(scheduler string) time.Duration {
	if d, ok := l.Deadlines[scheduler]; ok {
		return d
	}
	return l.Deadline
}

// DefaultLimits are the protocol's figures.
func DefaultLimits() Limits {
	return Limits{
		Binds:        32,
		BindDeadline: 30 * time.Second,
		Waits: Waits{
			// The default of VolumeBindingArgs.bindTimeoutSeconds, and how often kube-scheduler looks.
			Volumes: WaitLimits{Deadline: 600 * time.Second, Poll: time.Second},
			// The default of DynamicResourcesArgs.bindingTimeout.
			Devices:   WaitLimits{Deadline: 600 * time.Second},
			Delegated: ledger.DelegatedFor + ledger.DelegatedFor/2,
		},
		Idle:   5 * time.Second,
		Losses: 3,
		Retry:  wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 30, Cap: 5 * time.Second},
		Ungate: events.UngateFor,
		Call:   changeCall,
		// A decision gets here as fast as its transaction, in milliseconds.
		NominateAlone: 500 * time.Millisecond,
		EvictionLimits: EvictionLimits{
			EvictionMemory: 10 * time.Minute,
			EvictionTries:  8,
			PlanPause:      30 * time.Second,
			EvictionHang:   evictionHang,
			EvictWithin:    evictWithin,
		},
		Leftovers: Leftovers{
			Overdue:      10 * time.Minute,
			KeepPlace:    DefaultKeepPlace,
			Collect:      DefaultCollect,
			CollectEvery: time.Minute,
			ForgetEvery:  10 * time.Second,
		},
		Refusals: RefusalLimits{
			Tell: fenceRefusals, Again: refusalsAgain, Failing: fenceFailing,
			Pause: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 30, Cap: refusedPause},
		},
		Foreign: 1 << 16,
	}
}

// nextTry is the wait before the next try, and the backoff after it.
func nextTry(b wait.Backoff) (time.Duration, wait.Backoff) {
	d := b.Step()
	return d, b
}
