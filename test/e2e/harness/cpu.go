package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// ticksPerSecond is USER_HZ, the unit of /proc/<pid>/stat; the kernel's interface fixes it
	// at 100 on every architecture Go runs on but alpha.
	ticksPerSecond = 100
	// statUserTime and statSystemTime are positions behind the command name in /proc/<pid>/stat
	// (proc_pid_stat(5), fields 14 and 15).
	statUserTime, statSystemTime = 11, 12
)

// CPUTime is the processor time that running processes have used so far, all threads together.
func CPUTime(pids ...int) (time.Duration, error) {
	var ticks int64
	for _, pid := range pids {
		used, err := cpuTicks(pid)
		if err != nil {
			return 0, err
		}
		ticks += used
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

func cpuTicks(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The command name is in parentheses and may contain anything, so count from its end.
	_, after, ok := cutLast(string(content), ") ")
	fields := strings.Fields(after)
	if !ok || len(fields) <= statSystemTime {
		return 0, fmt.Errorf("%s: not of the form of proc_pid_stat(5): %q", path, content)
	}
	var sum int64
	for _, field := range []int{statUserTime, statSystemTime} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: field %d: %w", path, field, err)
		}
		sum += ticks
	}
	return sum, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// Resident is the memory that running processes have in RAM together, in bytes (VmRSS of
// proc_pid_status(5)).
func Resident(pids ...int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		path := fmt.Sprintf("/proc/%d/status", pid)
		content, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(content), "VmRSS:")
		var kilobytes int64
		if _, err := fmt.Sscanf(after, "%d kB", &kilobytes); err != nil {
			return 0, fmt.Errorf("%s: VmRSS: %w", path, err)
		}
		sum += kilobytes << 10
	}
	return sum, nil
}
