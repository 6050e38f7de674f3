package commit

import (
	"maps"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// waitKept is how long the end of a wait is remembered, so that further tries of the same attempt do not count again.
// It is longer than an attempt may take.
const waitKept = time.Hour

// conditionWaits measures how long pods wait for the binding conditions of their devices (KEP-5007), in
// kube-scheduler's metrics. It counts an attempt once. It is safe for concurrent use.
type conditionWaits struct {
	clock clock.PassiveClock
	mu    struct {
		sync.Mutex
		// of holds the waits by the pod's UID.
		of map[string]*conditionWait
	}
}

// conditionWait is the wait of one attempt.
type conditionWait struct {
	// profile is the scheduler's name, token that of the attempt.
	profile, token string
	// drivers are those of all allocated devices, a name for each device; conditioned are those of the devices with
	// binding conditions, nil if there is none.
	drivers, conditioned []string
	since                time.Time
	ended                bool
}

func newConditionWaits(c clock.PassiveClock) *conditionWaits {
	w := &conditionWaits{clock: c}
	w.mu.of = map[string]*conditionWait{}
	return w
}

// add adds the devices of a claim.
func (w *conditionWait) add(claim *resourcev1.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, device := range claim.Status.Allocation.Devices.Results {
		w.drivers = append(w.drivers, device.Driver)
		if len(device.BindingConditions) > 0 {
			w.conditioned = append(w.conditioned, device.Driver)
		}
	}
}

// began records that an attempt waits; only the first call for an attempt counts.
func (c *conditionWaits) began(e effect.Bind, w conditionWait) {
	if w.conditioned == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(e, w)
}

// begin returns the wait of an attempt, which begins now unless it has begun. The caller holds the lock.
func (c *conditionWaits) begin(e effect.Bind, w conditionWait) *conditionWait {
	now := c.clock.Now()
	known := c.mu.of[e.Pod.UID]
	if known != nil && known.token == e.Token.String() {
		return known
	}
	maps.DeleteFunc(c.mu.of, func(_ string, old *conditionWait) bool { return now.Sub(old.since) > waitKept })
	w.profile, w.token = e.SchedulerName, e.Token.String()
	w.since = now
	c.mu.of[e.Pod.UID] = &w
	return &w
}

// ended records the outcome of an attempt whose devices have binding conditions.
func (c *conditionWaits) ended(e effect.Bind, w conditionWait, outcome string) {
	if w.conditioned == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.begin(e, w)
	known.drivers, known.conditioned = w.drivers, w.conditioned
	c.end(known, outcome)
}

// timedOut ends the wait of a pod, if it waits: its place is being taken back.
func (c *conditionWaits) timedOut(podUID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.mu.of[podUID]; w != nil {
		c.end(w, alpha.ConditionsTimeout)
	}
}

// end reports an outcome once. The caller holds the lock.
func (c *conditionWaits) end(w *conditionWait, outcome string) {
	if w.ended {
		return
	}
	w.ended = true
	for _, driver := range w.drivers {
		alpha.DeviceConditionsWait(w.profile, driver, outcome, c.clock.Since(w.since))
	}
	for _, driver := range w.conditioned {
		alpha.DeviceConditions(w.profile, driver, outcome)
	}
}
