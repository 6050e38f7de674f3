package steady

import (
	"fmt"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

const (
	// warmShare is the part of the time that memory may grow in: ten minutes of an hour.
	warmShare = 1.0 / 6
	// endShare is the part at the beginning and at the end of the rest that is compared.
	endShare = 1.0 / 5
	megabyte = 1 << 20
)

// outcome returns the values that limits are about: growth is from the first part after the warm-up to the last,
// medians of both.
func (w *watch) outcome(s steady, head bench.Head) outcome.Outcome {
	o := head.Outcome(1)
	last := s.samples[len(s.samples)-1]
	growth, settled := s.growth()
	cpu := 100 * last.CPU.Seconds() / last.At.Seconds()
	most := int64(0)
	memory := outcome.Line{Name: "resident memory"}
	for _, x := range s.samples {
		most = max(most, x.Resident)
		memory.Points = append(memory.Points, [2]float64{x.At.Minutes(), float64(x.Resident) / megabyte})
	}
	o.Values = map[string]float64{
		"cpuPercent": cpu, "residentMB": float64(most) / megabyte, "growthPercent": growth,
		"minutes": last.At.Minutes(),
	}
	number := outcome.Number
	t := outcome.Table{Title: "`berth up`",
		Head: []string{"minutes", "processor, % of one core",
			"most resident MB", "resident MB after the warm-up", "growth from there to the end, %"},
		Rows: [][]string{{number(last.At.Minutes()), number(cpu), number(float64(most) / megabyte),
			number(settled / megabyte), number(growth)}}}
	if s.load.Created > 0 {
		rate := float64(s.load.Bound) / s.load.Took.Seconds()
		o.Values["boundPerSecond"] = rate
		t.Notes = append(t.Notes, fmt.Sprintf("%s pods were created (%s/s), %s bound, %s deleted; %s stood at one time.",
			number(float64(s.load.Created)), number(float64(s.load.Created)/s.load.Took.Seconds()),
			number(float64(s.load.Bound)), number(float64(s.load.Deleted)), number(float64(w.standing))))
	}
	o.Tables = []outcome.Table{t}
	o.Plots = []outcome.Plot{{Name: "memory", Title: "Resident memory of berth up", X: outcome.Axis{Label: "minutes"},
		Y: outcome.Axis{Label: "MB"}, Lines: []outcome.Line{memory}}}
	return o
}

// growth is the growth of memory after the warm-up in percent, and its value then.
func (s steady) growth() (percent, settled float64) {
	rest := s.samples[int(float64(len(s.samples))*warmShare):]
	part := max(1, int(float64(len(rest))*endShare))
	settled, end := middle(rest[:part]), middle(rest[len(rest)-part:])
	return 100 * (end - settled) / settled, settled
}

func middle(samples []sample) float64 {
	list := make([]float64, 0, len(samples))
	for _, x := range samples {
		list = append(list, float64(x.Resident))
	}
	return harness.Median(list)
}
