package e2e

import (
	"fmt"

	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// outcome is the report for the summary of all measurements. Values are called
// mode.contender.name; a ratio is to kube-scheduler's in the same runs.
func (r report) outcome(runs int) outcome.Outcome {
	o := r.Outcome(runs)
	o.Versions["kube-scheduler"] = r.Peer
	for _, mode := range modesInOrder {
		if rows := r.rows(mode); len(rows) > 0 {
			r.values(o.Values, mode, rows)
			o.Tables = append(append(o.Tables, table(mode, rows)), memoryTables(mode, rows)...)
			o.Plots = append(o.Plots, plots(mode, rows)...)
		}
	}
	return o
}

// values adds what limits are about.
func (r report) values(to map[string]float64, mode string, rows []result) {
	peer, raw := peerOf(rows), bestRaw(rows)
	if mode != drain {
		raw = nil // the arrival of pods, not a client, limits binds per second
	}
	for _, row := range rows {
		set := func(name string, value float64) { to[mode+"."+row.Contender+"."+name] = value }
		set("podsPerSecond", row.PodsPerSecond)
		set("p50", row.Latency.P50)
		set("p99", row.Latency.P99)
		set("cpuMicrosPerPod", row.CPUSeconds/float64(row.Pods)*1e6)
		set("lastBindSeconds", row.WallSeconds)
		if row.Memory != nil {
			set("mostResidentMB", megabytes(row.Memory.Most))
		}
		if row.EventSeconds > 0 {
			set("eventSeconds", row.EventSeconds)
			set("lastEventSeconds", row.WallSeconds+row.EventSeconds)
		}
		if raw != nil && row.Contender != raw.Contender {
			set("rawShare", row.PodsPerSecond/raw.PodsPerSecond)
		}
		if row.Arrival != nil {
			set("sustained", row.PodsPerSecond/row.Arrival.Rate)
			set("behindSeconds", row.Arrival.BehindSeconds)
		}
		if row.Gap != nil {
			row.Gap.values(set, gapOf(peer))
		}
		if peer == nil || row.Contender == peer.Contender {
			continue
		}
		set("ratio", row.PodsPerSecond/peer.PodsPerSecond)
		if raw != nil {
			set("wallRatio", raw.PodsPerSecond/peer.PodsPerSecond)
		}
		set("p50Ratio", row.Latency.P50/peer.Latency.P50)
		set("p99Ratio", row.Latency.P99/peer.Latency.P99)
		if row.EventSeconds > 0 {
			set("lastEventRatio", (row.WallSeconds+row.EventSeconds)/(peer.WallSeconds+peer.EventSeconds))
		}
	}
}

// peerOf is kube-scheduler's row, nil without one.
func peerOf(rows []result) *result {
	for i := range rows {
		if rows[i].Contender == contend.Contenders[0].Name {
			return &rows[i]
		}
	}
	return nil
}

func gapOf(r *result) *gap {
	if r == nil {
		return nil
	}
	return r.Gap
}

// bestRaw is the fastest of the contenders that only bind, nil without one.
func bestRaw(rows []result) (best *result) {
	for i := range rows {
		if contend.IsRaw(rows[i].Contender) && (best == nil || rows[i].PodsPerSecond > best.PodsPerSecond) {
			best = &rows[i]
		}
	}
	return best
}

func table(mode string, rows []result) outcome.Table {
	if mode == failover {
		return gapTable(rows)
	}
	t := outcome.Table{
		Title: fmt.Sprintf("Mode %s, %s pods", mode, outcome.Number(float64(rows[0].Pods))),
		Head: []string{"contender", "pods/s", "last bind s", "last event s", "p50 ms", "p90 ms", "p99 ms", "max ms",
			"CPU ms a pod", "API server's CPU ms a pod"},
	}
	number := outcome.Number
	for _, row := range rows {
		lastEvent, each := "–", 1000/float64(row.Pods)
		if row.EventSeconds > 0 {
			lastEvent = number(row.WallSeconds + row.EventSeconds)
		}
		t.Rows = append(t.Rows, []string{row.Contender, number(row.PodsPerSecond), number(row.WallSeconds), lastEvent,
			number(row.Latency.P50), number(row.Latency.P90), number(row.Latency.P99), number(row.Latency.Max),
			number(row.CPUSeconds * each), number(row.Cluster.ServerSeconds * each)})
		if a := row.Arrival; a != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s of %s pods/s arrived, the last was bound %s s after it came; "+
				"from when they were due to their bind, p50 %s ms and p99 %s ms.", row.Contender, number(a.Arrived),
				number(a.Rate), number(a.BehindSeconds), number(a.SinceDue.P50), number(a.SinceDue.P99)))
		}
	}
	return t
}

// inWords describes each mode for readers.
var inWords = map[string]string{
	live:     "created as fast as clients can",
	drain:    "all waiting from the start",
	preempt:  "in the places of others",
	open:     "created at a steady rate",
	failover: "the replica that leads is killed",
}

// plots are the curves of each contender's median run; of the contenders that only bind, the fastest.
func plots(mode string, rows []result) []outcome.Plot {
	raw := bestRaw(rows)
	progress := outcome.Plot{
		Name: mode, Title: "Pods bound over time, " + inWords[mode],
		X: outcome.Axis{Label: "seconds"}, Y: outcome.Axis{Label: "pods bound"},
	}
	spread := outcome.Plot{
		Name: mode + "-latency", Title: "Share of pods bound within a time, " + inWords[mode],
		X: outcome.Axis{Label: "milliseconds", Log: true}, Y: outcome.Axis{Label: "% of pods"},
	}
	for _, row := range rows {
		if contend.IsRaw(row.Contender) && row.Contender != raw.Contender {
			continue
		}
		progress.Lines = append(progress.Lines, outcome.Line{Name: row.Contender, Points: row.Curve})
		if !contend.IsRaw(row.Contender) || mode == open {
			spread.Lines = append(spread.Lines, outcome.Line{Name: row.Contender, Points: row.Distribution})
		}
	}
	if mode == drain {
		return []outcome.Plot{progress}
	}
	return []outcome.Plot{progress, spread}
}
