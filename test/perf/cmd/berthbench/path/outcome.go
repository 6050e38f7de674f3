package path

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// outcome is the report for the summary of all measurements. Values of a setting are called
// s<shards>.f<full>.name, in the first of the ways to be observed; those without are about the first
// setting, or compare settings.
func (r report) outcome() outcome.Outcome {
	o := r.Outcome(r.runs)
	o.Tables = r.tables()
	first := r.settings()[0]
	for i, s := range r.settings() {
		if s.Observed != first.Observed {
			continue
		}
		set := func(name string, value float64) {
			o.Values[fmt.Sprintf("s%d.f%d.%s", s.Shards, s.Full, name)] = value
			if i == 0 {
				o.Values[name] = value
			}
		}
		r.values(s, set)
		alone := setting{1, s.Full, s.Observed}
		if s.Shards == 1 || !slices.Contains(r.settings(), alone) {
			continue
		}
		set("speedup", r.rate(s)/r.rate(alone))
		set("cpuRatio", r.median(s, result.all)/r.median(alone, result.all))
		set("cpuRatioWithoutFacts", (r.median(s, result.all)-r.facts(s))/(r.median(alone, result.all)-r.facts(alone)))
		set("decisionsRatio", r.decisions(s)/r.decisions(alone))
	}
	r.slopeValues(o.Values)
	if r.budget != nil {
		for service, most := range r.budget {
			o.Values["budgetShare"] = max(o.Values["budgetShare"], r.micros(first, service)/most)
		}
	}
	if len(r.shards)*len(r.full) > 1 {
		o.Plots = []outcome.Plot{r.conflictPlot(), r.ratePlot()}
	}
	return o
}

// values sets the values that limits are about, for one setting.
func (r report) values(s setting, set func(string, float64)) {
	set("podsPerSecond", r.rate(s))
	for _, service := range r.services() {
		set("micros."+service, r.micros(s, service))
	}
	set("microsPerPod", r.median(s, result.all))
	set("conflictPercent", r.conflicts(s))
	set("leastShare", 100-r.worst(s, func(x result) float64 { least, _ := x.shares(); return 100 - least }))
	set("mostShare", r.worst(s, func(x result) float64 { _, most := x.shares(); return most }))
	if each := r.factMicros(s); each > 0 {
		set("factsPerSecond", 1e6/each)
	}
	if r.withNull(s) {
		set("nullMicros", r.median(s, func(x result) float64 { return x.Null.all() }))
		set("nullRatio", r.median(s, result.nullRatio))
	}
}

func (r report) rate(s setting) float64 {
	return r.median(s, func(x result) float64 { return x.PodsPerSecond })
}

func (r report) conflicts(s setting) float64 {
	return r.median(s, func(x result) float64 { return x.percent() })
}

func (r report) factMicros(s setting) float64 {
	return r.median(s, func(x result) float64 { return x.FactMicros })
}

// facts is the shards' processor time for applying the facts about a pod, which each of them does.
func (r report) facts(s setting) float64 {
	return float64(factsPerPod*s.Shards) * r.factMicros(s)
}

// decisions is the rest of the shards' processor time per pod.
func (r report) decisions(s setting) float64 { return r.micros(s, "scheduler") - r.facts(s) }

// tables are pods per second and contention, and processor time.
func (r report) tables() []outcome.Table {
	number := outcome.Number
	rates := outcome.Table{
		Title: fmt.Sprintf("%s %s pods on %s nodes", number(float64(r.Pods)), r.Workload, number(float64(r.Nodes))),
		Head: []string{"shards", "nodes full", "observed", "pods/s", "transactions", "refused", "lost races about",
			"of a shard's pods, least", "most", "most attempts"},
	}
	spent := outcome.Table{
		Title: "Microseconds of processor time a pod", Head: []string{"shards", "nodes full", "observed"}}
	spent.Head = append(append(spent.Head, r.services()...), "all that is Berth's", "a fact, one shard", "decisions")
	for _, s := range r.settings() {
		setting := []string{fmt.Sprint(s.Shards), fmt.Sprintf("%d%%", s.Full), s.Observed}
		least := 100 - r.worst(s, func(x result) float64 { least, _ := x.shares(); return 100 - least })
		rates.Rows = append(rates.Rows, append(slices.Clone(setting), number(r.rate(s)),
			number(r.median(s, func(x result) float64 { return float64(x.Txns) })), number(r.conflicts(s))+"%", r.losses(s),
			number(least)+"%", number(r.worst(s, func(x result) float64 { _, most := x.shares(); return most }))+"%",
			r.attempts(s)))
		row := setting
		for _, service := range r.services() {
			row = append(row, number(r.micros(s, service)))
		}
		row = append(row, number(r.median(s, result.all)))
		if each := r.factMicros(s); each > 0 {
			row = append(row, number(each), number(r.decisions(s)))
		} else {
			row = append(row, "–", "–")
		}
		spent.Rows = append(spent.Rows, row)
	}
	if r.budget != nil {
		row := []string{"budget", "", ""}
		for _, service := range r.services() {
			limit := "–"
			if most, ok := r.budget[service]; ok {
				limit = number(most)
			}
			row = append(row, limit)
		}
		spent.Rows = append(spent.Rows, append(row, "–", "–", "–"))
	}
	all := []outcome.Table{rates, spent}
	for _, more := range []outcome.Table{r.slopeTable(), r.nullTable()} {
		if len(more.Rows) > 0 {
			all = append(all, more)
		}
	}
	return all
}

// attempts is the largest number of attempts for one pod, as precisely as buckets allow.
func (r report) attempts(s setting) string {
	most := 0
	for _, x := range r.Results {
		if x.setting == s && x.Attempts == 0 {
			return fmt.Sprintf("over %d", attemptBuckets[len(attemptBuckets)-1])
		}
		if x.setting == s {
			most = max(most, x.Attempts)
		}
	}
	return fmt.Sprintf("up to %d", most)
}

// losses are those of all runs together.
func (r report) losses(s setting) string {
	all := contention{Lost: map[string]int{}}
	for _, x := range r.Results {
		if x.setting == s {
			for reason, times := range x.Lost {
				all.Lost[reason] += times
			}
		}
	}
	return all.losses()
}

// conflictPlot is a line for each number of shards, over how full the nodes are.
func (r report) conflictPlot() outcome.Plot {
	p := outcome.Plot{Name: "conflicts", Title: "Refused transactions",
		X: outcome.Axis{Label: "% of the nodes taken before"}, Y: outcome.Axis{Label: "% of transactions"}}
	return r.lines(p, func(s setting) (line string, x, y float64) {
		if s.Shards == 1 {
			return "1 shard", float64(s.Full), r.conflicts(s)
		}
		return fmt.Sprintf("%d shards", s.Shards), float64(s.Full), r.conflicts(s)
	})
}

// ratePlot is a line for each degree to which nodes are full, over the shards.
func (r report) ratePlot() outcome.Plot {
	p := outcome.Plot{Name: "rate", Title: "Pods per second, no API server",
		X: outcome.Axis{Label: "shards"}, Y: outcome.Axis{Label: "pods/s"}}
	return r.lines(p, func(s setting) (line string, x, y float64) {
		return fmt.Sprintf("%d%% full", s.Full), float64(s.Shards), r.rate(s)
	})
}

func (r report) lines(p outcome.Plot, of func(setting) (string, float64, float64)) outcome.Plot {
	for _, s := range r.settings() {
		if s.Observed != r.settings()[0].Observed {
			continue
		}
		name, x, y := of(s)
		i := slices.IndexFunc(p.Lines, func(l outcome.Line) bool { return l.Name == name })
		if i < 0 {
			i = len(p.Lines)
			p.Lines = append(p.Lines, outcome.Line{Name: name})
		}
		p.Lines[i].Points = append(p.Lines[i].Points, [2]float64{x, y})
	}
	return p
}
