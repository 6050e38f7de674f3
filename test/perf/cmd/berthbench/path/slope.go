package path

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// slope is by how much a number rises with each further shard: the slope of the line through the settings that are as
// full, by least squares. ok is false if they have only one number of shards.
func (r report) slope(full int, of func(setting) float64) (rise float64, ok bool) {
	var shards, values []float64
	for _, s := range r.settings() {
		if s.Full == full && s.Observed == r.settings()[0].Observed {
			shards, values = append(shards, float64(s.Shards)), append(values, of(s))
		}
	}
	if len(shards) < 2 || slices.Min(shards) == slices.Max(shards) {
		return 0, false
	}
	_, rise = stat.LinearRegression(shards, values, nil, false)
	return rise, true
}

// berths is the processor time per pod of all that is Berth's.
func (r report) berths(s setting) float64 { return r.median(s, result.all) }

// slopeValues sets what each further shard adds to the processor time of a pod, named after how full nodes are; that
// of the first setting also without.
func (r report) slopeValues(values map[string]float64) {
	for i, full := range r.full {
		rise, ok := r.slope(full, r.berths)
		if !ok {
			continue
		}
		values[fmt.Sprintf("f%d.shardMicros", full)] = rise
		if i == 0 {
			values["shardMicros"] = rise
		}
	}
}

// slopeTable divides it by service. It has no rows if all settings have as many shards.
func (r report) slopeTable() outcome.Table {
	services := slices.DeleteFunc(r.services(), func(service string) bool { return service == ownService })
	t := outcome.Table{Title: "Microseconds of processor time a pod that each further shard adds",
		Head:  append(append([]string{"nodes full"}, services...), "all that is Berth's"),
		Notes: []string{"Least squares over the numbers of shards."}}
	for _, full := range r.full {
		all, ok := r.slope(full, r.berths)
		if !ok {
			continue
		}
		row := []string{fmt.Sprintf("%d%%", full)}
		for _, service := range services {
			one, _ := r.slope(full, func(s setting) float64 { return r.micros(s, service) })
			row = append(row, outcome.Number(one))
		}
		t.Rows = append(t.Rows, append(row, outcome.Number(all)))
	}
	return t
}
