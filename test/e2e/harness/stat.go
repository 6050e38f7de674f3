package harness

import (
	"os"
	"slices"
	"strings"
)

// LoadAverage is the machine's, in the kernel's format (proc_loadavg(5)); empty where it is not available. Reports
// include it, to tell a busy machine from a quiet one.
func LoadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// Median of a list, which it sorts; of an even number of values, the mean of the two in the
// middle, and 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
