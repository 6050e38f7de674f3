package harness

import (
	"os"
	"runtime"
	"syscall"
)

// peakOf is the most memory that an ended process has had, in bytes (getrusage(2)); on Linux it is
// no less than what the caller had when it started the process. 0 for one that never ran.
func peakOf(state *os.ProcessState) int64 {
	if state == nil {
		return 0
	}
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	const kilobyte = 1 << 10
	if runtime.GOOS == "darwin" {
		return usage.Maxrss // there it is bytes
	}
	return usage.Maxrss * kilobyte
}
