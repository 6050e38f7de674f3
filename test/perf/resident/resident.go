package resident

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Memory is what processes have in RAM together, in bytes.
type Memory struct {
	// Most is the sum of each process's largest resident set since its start, which may have been at different times
	// (VmHWM of proc_pid_status(5)).
	Most int64 `json:"most"`
	// Now is the sum of the next three, from proc_pid_smaps(5): Program is mapped from the executables, Files from
	// other files, such as an embedded etcd's database, and Anonymous is the rest.
	Now       int64 `json:"now"`
	Program   int64 `json:"program"`
	Files     int64 `json:"files"`
	Anonymous int64 `json:"anonymous"`
}

// Of returns the memory of running processes of the same user.
func Of(pids ...int) (Memory, error) {
	var sum Memory
	for _, pid := range pids {
		one, err := of(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			return sum, err
		}
		sum.Most += one.Most
		sum.Now += one.Now
		sum.Program += one.Program
		sum.Files += one.Files
		sum.Anonymous += one.Anonymous
	}
	return sum, nil
}

func of(dir string) (m Memory, err error) {
	program, err := os.Readlink(dir + "/exe")
	if err != nil {
		return m, err
	}
	maps, err := os.Open(dir + "/smaps")
	if err != nil {
		return m, err
	}
	defer func() { _ = maps.Close() }() // it was only read
	if m, err = parse(maps, program); err != nil {
		return m, fmt.Errorf("%s/smaps: %w", dir, err)
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return m, err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	m.Most, err = kilobytes(after)
	if err != nil {
		return m, fmt.Errorf("%s/status: VmHWM: %w", dir, err)
	}
	return m, nil
}

// mappingFields is how many fields the first line of a mapping without a path has.
const mappingFields = 5

// parse reads smaps of a process that runs this program.
func parse(smaps io.Reader, program string) (m Memory, err error) {
	kind := &m.Anonymous
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case strings.Contains(name, "-"): // 7f00-7f01 r--p 00000000 08:01 42  /path
			fields := strings.Fields(lines.Text())
			path := strings.Join(fields[min(mappingFields, len(fields)):], " ")
			switch {
			case path == program:
				kind = &m.Program
			case strings.HasPrefix(path, "/"):
				kind = &m.Files
			default:
				kind = &m.Anonymous
			}
		case name == "Rss":
			bytes, err := kilobytes(value)
			if err != nil {
				return m, err
			}
			*kind += bytes
			m.Now += bytes
		}
	}
	return m, lines.Err()
}

// kilobytes reads "  123 kB", and what may follow on other lines, as bytes.
func kilobytes(text string) (int64, error) {
	number, _, found := strings.Cut(strings.TrimSpace(text), " kB")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !found {
		return 0, fmt.Errorf("%q: want a number of kB", number)
	}
	return n << 10, nil
}
