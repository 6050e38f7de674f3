package log

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// reportName is the file name of both reports, without the suffix.
const reportName = "bench-log"

// report is the JSON report.
type report struct {
	bench.Head
	// Facts are read, Together are in the larger append.
	Facts    int      `json:"facts"`
	Together int      `json:"together"`
	Results  []result `json:"results"`
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The log of facts\n\n%s. %s\n", r.Berth, r.Where())
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n%s\n\n", t.Title)
		t.Markdown(&b)
	}
	return b.String()
}

// median of a number over the runs of a setting.
func (r report) median(sync string, of func(result) float64) float64 {
	var list []float64
	for _, x := range r.Results {
		if x.Sync == sync {
			list = append(list, of(x))
		}
	}
	return harness.Median(list)
}

// outcome is the report for the summary of all measurements. Values are about a server that syncs at intervals; those
// of one that syncs every write begin with "always.". A ratio is of each run, and then the median.
func (r report) outcome(runs int) outcome.Outcome {
	o := r.Outcome(runs)
	for sync, prefix := range map[string]string{interval: "", always: always + "."} {
		for name, of := range map[string]func(result) float64{
			"appendRatio": result.appendRatio, "appendCPURatio": result.appendCPURatio, "deliveryRatio": result.deliveryRatio,
			"factMicros": func(x result) float64 { return x.FactMicros },
		} {
			o.Values[prefix+name] = r.median(sync, of)
		}
	}
	o.Tables = r.tables()
	return o
}

func (x result) appendRatio() float64    { return x.Many.MedianMicros / x.One.MedianMicros }
func (x result) appendCPURatio() float64 { return x.Many.CPUMicros / x.One.CPUMicros }
func (x result) deliveryRatio() float64  { return x.FactMicros / x.BareMicros }

// inWords describes each setting.
var inWords = map[string]string{interval: "at intervals", always: "every write"}

// tables are the appends and the deliveries.
func (r report) tables() []outcome.Table {
	number := outcome.Number
	many := fmt.Sprintf("of %d", r.Together)
	appends := outcome.Table{Title: "Microseconds of an append of facts", Head: []string{"the server syncs",
		"append of one", many, "ratio", "processor time of an append of one", many, "ratio"},
		Notes: []string{"Until the append is acknowledged, medians; processor time of the server and the writer together."}}
	deliveries := outcome.Table{Title: "Microseconds of processor time of a fact to one reader", Head: []string{
		"the server syncs", "Berth's log, decoded",
		fmt.Sprintf("bytes counted, in messages of %d facts", r.Together), "ratio"}}
	for _, sync := range []string{interval, always} {
		of := func(value func(result) float64) string { return number(r.median(sync, value)) }
		appends.Rows = append(appends.Rows, []string{inWords[sync],
			of(func(x result) float64 { return x.One.MedianMicros }), of(func(x result) float64 { return x.Many.MedianMicros }),
			of(result.appendRatio),
			of(func(x result) float64 { return x.One.CPUMicros }), of(func(x result) float64 { return x.Many.CPUMicros }),
			of(result.appendCPURatio)})
		deliveries.Rows = append(deliveries.Rows, []string{inWords[sync],
			of(func(x result) float64 { return x.FactMicros }), of(func(x result) float64 { return x.BareMicros }),
			of(result.deliveryRatio)})
	}
	return []outcome.Table{appends, deliveries}
}
