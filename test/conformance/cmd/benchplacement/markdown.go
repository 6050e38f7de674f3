package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// page is docs/benchmarks-placement.md with holes for the numbers.
//
//go:embed page.md.tmpl
var page string

// markdown is the report for readers.
func (r *report) markdown() (string, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"grouped": grouped, "micros": micros, "millis": millis, "percent": percent, "ratio": ratio,
		"perPod": perPod, "megabytes": megabytes, "limit": limit,
	}).Parse(page)
	if err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, r); err != nil {
		return "", fmt.Errorf("page: %w", err)
	}
	return b.String(), nil
}

// Required describes the engine's target.
func (r row) Required() string {
	t, ok := targets[r.Name]
	if !ok {
		return "–"
	}
	return grouped(t.rate) + "/s, " + strconv.FormatFloat(t.ratio, 'f', -1, 64) + "x"
}

// Met reports whether it does, and what not.
func (r row) Met() string {
	t, ok := targets[r.Name]
	if !ok {
		return "–"
	}
	return verdictOn(r.Berth.Rate() >= t.rate, r.Berth.Rate()/r.Sampled.Rate() >= t.ratio)
}

func verdictOn(rate, ratio bool) string {
	switch {
	case rate && ratio:
		return "yes"
	case rate:
		return "**no** (ratio)"
	case ratio:
		return "**no** (rate)"
	default:
		return "**no**"
	}
}

// Checked is how many decisions were compared, in all.
func (r *report) Checked() int {
	n := 0
	for _, row := range r.Rows {
		n += row.Checked
	}
	return n
}

// Differences is how many of them differed.
func (r *report) Differences() int {
	n := 0
	for _, row := range r.Rows {
		n += len(row.Differences)
	}
	return n
}

// LowestShare is the part of the clock's time in which the process had its processor, in
// the run of ours that was disturbed most.
func (r *report) LowestShare() float64 {
	lowest := 1.0
	for _, row := range r.Rows {
		lowest = min(lowest, row.Berth.Share())
	}
	return lowest
}

// quietShare is the part of the time that a process has its processor on a quiet machine.
const quietShare = 0.95

// Busy reports that the machine had other work to do.
func (r *report) Busy() bool { return r.LowestShare() < quietShare }

// Required is the bound on resident memory, in words.
func (m memoryReport) Required() string {
	if bound, ok := memoryTargets[[2]int{m.Nodes, m.Pods}]; ok {
		return "at most " + megabytes(bound)
	}
	return "–"
}

// Met reports whether it is kept.
func (m memoryReport) Met() string {
	bound, ok := memoryTargets[[2]int{m.Nodes, m.Pods}]
	switch {
	case !ok:
		return "–"
	case max(m.Loaded.Resident, m.Decided.Resident) <= bound:
		return "yes"
	default:
		return "**no**"
	}
}

// grouped writes a number with a comma before each three digits: three significant digits
// below 100, whole from there on.
func grouped(v any) string {
	var f float64
	switch n := v.(type) {
	case int:
		f = float64(n)
	case float64:
		f = n
	}
	if f < 100 && f != float64(int(f)) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(f, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func micros(d time.Duration) string { return grouped(float64(d.Nanoseconds()) / 1e3) }

func millis(d time.Duration) string { return grouped(float64(d.Nanoseconds()) / 1e6) }

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + "%" }

func ratio(a, b figures) string { return grouped(a.Rate()/b.Rate()) + "x" }

// perPod is a share of a total time, in microseconds.
func perPod(total time.Duration, n int) string { return micros(total / time.Duration(n)) }

func megabytes(bytes int64) string { return grouped(float64(bytes/1e6)) + " MB" }

// limit formats GOMEMLIMIT: the largest number means none.
func limit(bytes int64) string {
	if bytes > 1<<60 {
		return "none"
	}
	return strconv.FormatInt(bytes>>20, 10) + "MiB"
}
