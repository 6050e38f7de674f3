package path

import (
	"math"
	"strings"
	"testing"
)

// Each further shard costs the slope of the line through all numbers of shards, of Berth's own processes.
func TestSlopeIsOfLeastSquares(t *testing.T) {
	r := report{options: options{runs: 1, full: []int{0, 50}, shards: []int{1, 2, 4}}}
	for _, x := range []struct {
		shards, full            int
		scheduler, queue, other float64
	}{
		{1, 0, 100, 50, 1000}, {2, 0, 140, 50, 10}, {4, 0, 180, 50, 1}, {1, 50, 100, 0, 0},
	} {
		r.Results = append(r.Results, result{setting: setting{x.shards, x.full, records},
			Micros: map[string]float64{"scheduler": x.scheduler, "queue": x.queue, ownService: x.other}})
	}
	values := r.outcome().Values
	// The mean of 1, 2, 4 is 7/3, that of 100, 140, 180 is 140: (4/3 * 40 + 5/3 * 40) / (14/3).
	for _, name := range []string{"shardMicros", "f0.shardMicros"} {
		if want := 120. / (14. / 3); math.Abs(values[name]-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, values[name], want)
		}
	}
	if got, ok := values["f50.shardMicros"]; ok {
		t.Errorf("one number of shards has a slope of %v", got)
	}
	table := r.slopeTable()
	if len(table.Rows) != 1 || strings.Join(table.Rows[0], " ") != "0% 0 25.7 25.7" {
		t.Errorf("%v: want one row, of queue, scheduler and both", table.Rows)
	}
}

// Berth is compared with the null path of the same run, and what is neither Berth's nor the null path's is left out.
func TestNullPathIsOfTheSameRun(t *testing.T) {
	s := setting{2, 0, records}
	run := func(berth, null float64) result {
		return result{setting: s, Micros: map[string]float64{"queue": berth, ownService: 500},
			Null: &nullResult{FactBytes: 1600, DecisionBytes: 700,
				Micros: map[string]float64{nullService: null - 100, "etcd": 40, "nats": 60, ownService: 300}}}
	}
	r := report{options: options{runs: 3, full: []int{0}}, Results: []result{run(900, 300), run(1800, 450), run(800, 400)}}
	values := r.outcome().Values
	if values["nullRatio"] != 3 || values["nullMicros"] != 400 {
		t.Errorf("%v times %v µs, want the medians 3 and 400", values["nullRatio"], values["nullMicros"])
	}
	if row := strings.Join(r.nullTable().Rows[0], " "); row != "2 0% 1,600 700 300 40 60 400 900 3" {
		t.Errorf("row %s", row)
	}
	r.Results[1].Null = nil
	if _, ok := r.outcome().Values["nullRatio"]; ok || len(r.nullTable().Rows) > 0 {
		t.Error("runs without a null path are compared with one")
	}
}
