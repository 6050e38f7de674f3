package decide

import "time"

// Core decides one cycle in each step. It has no state: everything that a cycle depends on is in its Input, so that a
// cycle can be repeated, shown without being carried out, or decided by another replica.
type Core struct{}

// Step decides the cycle at the time now. It implements driver.Core. It completes Input.Usage with the usage that the
// facts show at that time, and changes nothing else that the input refers to.
func (Core) Step(in Input, now time.Time) Outcome {
	in.Now = now
	Measure(&in.Usage, in.Policy, in.Cluster, in.Averages, now)
	return Cycle(in)
}
