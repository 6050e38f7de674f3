package perf

import (
	"cmp"

	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// outcome is the report for the summary of all measurements. Values are called contender.name; with several
// workloads, a limit is about the worst one. A contender's wallRatio is its ratio if its own processes had taken no
// time, everything else being equal.
func (r report) outcome(runs int) outcome.Outcome {
	o := r.Outcome(runs)
	o.Versions["kube-scheduler"] = contend.PeerVersion
	t := outcome.Table{
		Title: "Upstream's workloads",
		Head:  []string{"workload", "contender", "pods", "pods/s", "ratio", "p50 ms", "p99 ms", "CPU ms a pod"},
	}
	number := outcome.Number
	for _, rows := range r.rows() {
		for _, row := range rows {
			ratio, name := "–", row.Contender+".ratio"
			if peer := rows[0]; peer.Contender == contend.Contenders[0].Name && row.Contender != peer.Contender {
				times := row.PodsPerSecond / peer.PodsPerSecond
				ratio = number(times)
				o.Values[name] = min(cmp.Or(o.Values[name], times), times)
				wall, name := row.free(r.Processors)/peer.PodsPerSecond, row.Contender+".wallRatio"
				o.Values[name] = min(cmp.Or(o.Values[name], wall), wall)
			}
			t.Rows = append(t.Rows, []string{row.Workload, row.Contender, number(float64(row.Pods)), number(row.PodsPerSecond),
				ratio, number(row.P50Millis), number(row.P99Millis), number(row.CPUSeconds * 1000 / float64(row.Pods))})
		}
	}
	o.Tables = []outcome.Table{t}
	return o
}

// free is the pods per second without the processor time that the contender took.
func (r result) free(processors int) float64 {
	return float64(r.Pods) / (r.WallSeconds - r.CPUSeconds/float64(processors))
}
