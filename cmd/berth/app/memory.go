package app

import (
	"os"

	"github.com/bytedance/gopkg/util/gctuner" // GOGC by the size of the heap, which the runtime has no setting for
)

const (
	// heapFloor is how far memory in use may grow, in bytes, before it is collected at all. By the runtime's
	// own rule a service that holds 20 MB collects every 20 MB: a fifth of its processor time under
	// load, for memory nobody needs back. It is what the chart asks for a service.
	heapFloor = 512 << 20
	// leastGCPercent is the runtime's default, which larger heaps keep to.
	leastGCPercent = 100
)

// tuneCollector lets small heaps grow to heapFloor. An operator's GOGC is left as it is; a memory limit
// (GOMEMLIMIT) holds in either case.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	gctuner.SetMinGCPercent(leastGCPercent)
	gctuner.Tuning(heapFloor)
}
