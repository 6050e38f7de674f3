package path

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// jiffy is the unit of /proc/stat on every Linux that Go runs on (USER_HZ).
const jiffy = 10 * time.Millisecond

// idleTime is how long the machine's processors have had nothing to do since it started, summed up
// over all of them; waiting for disks counts. An error where there is no /proc.
func idleTime() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("idle time of the machine: %w", err)
	}
	return parseIdle(string(raw))
}

func parseIdle(stat string) (time.Duration, error) {
	var user, nice, system, idle, waiting int64
	line, _, _ := strings.Cut(stat, "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d", &user, &nice, &system, &idle, &waiting); err != nil {
		return 0, fmt.Errorf("/proc/stat begins with %q: %w: want cpu and five numbers", line, err)
	}
	return time.Duration(idle+waiting) * jiffy, nil
}
