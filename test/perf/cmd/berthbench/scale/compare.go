package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

const (
	// rateTolerance is how far the model's pods a second may be from a real run's, as a share of it.
	rateTolerance = 0.30
	// conflictTolerance is how far the shares of refused transactions may differ, in points, and conflictFactor how
	// many times one may be the other above that. Real shards also lose races to binders, which remove finished
	// entries from documents that have not been written for five seconds: with one shard in runs of that length, up
	// to 7% of its transactions. The model has no such sweeps.
	conflictTolerance, conflictFactor = 8.0, 2.0
	// twinRate and twinConflicts are the same between the twin and the real core.
	twinRate, twinConflicts = 0.4, 15.0
)

// twinShards is where the twin and the core are compared. Where more shards fight over nodes, a core takes
// minutes for what the twin does in a second.
var twinShards = map[string][]int{scale.Plain: {10}, scale.Leaning: {10}}

// realReport is the part that this program reads of a report of berthbench path.
type realReport struct {
	Berth    string `json:"berth"`
	Load     string `json:"load"`
	Pods     int    `json:"pods"`
	Nodes    int    `json:"nodes"`
	Workload string `json:"workload"`
	Binders  int    `json:"binders"`
	Results  []struct {
		Shards        int                `json:"shards"`
		Full          int                `json:"full"`
		PodsPerSecond float64            `json:"podsPerSecond"`
		Spare         float64            `json:"spareProcessors"`
		Micros        map[string]float64 `json:"microsPerPod"`
		Txns          int                `json:"txns"`
		Conflicts     int                `json:"conflicts"`
	} `json:"results"`
}

// seen is one setting of it, medians over its runs.
type seen struct {
	rate, conflicts float64
	// cores are the processors that its processes used, spare those that were idle.
	cores, spare float64
	micros       map[string]float64
}

// kinds are the names that berthbench path has of services by the model's names of processes.
var kinds = map[string]string{
	"scheduler": "scheduler", "queue": "queue", "binder": "binder", "etcd": "etcd", "nats": "nats",
	"API server": "generator and sink",
}

func readReal(path string) (realReport, error) {
	var r realReport
	raw, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("--real: %w", err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("--real: %s: %w: want bench-path.json of berthbench path", path, err)
	}
	if len(r.Results) == 0 {
		return r, fmt.Errorf("--real: %s with 0 results: want some", path)
	}
	return r, nil
}

// settings are the numbers of shards, ascending; all runs are equally full.
func (r realReport) settings() []int {
	var all []int
	for _, x := range r.Results {
		all = append(all, x.Shards)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r realReport) of(shards int) seen {
	s := seen{micros: map[string]float64{}}
	var rates, conflicts, spare []float64
	micros := map[string][]float64{}
	for _, x := range r.Results {
		if x.Shards != shards {
			continue
		}
		rates = append(rates, x.PodsPerSecond)
		spare = append(spare, x.Spare)
		conflicts = append(conflicts, 100*float64(x.Conflicts)/float64(max(1, x.Txns)))
		for kind, service := range kinds {
			micros[kind] = append(micros[kind], x.Micros[service])
		}
	}
	s.rate, s.conflicts, s.spare = harness.Median(rates), harness.Median(conflicts), harness.Median(spare)
	for kind := range kinds {
		s.micros[kind] = harness.Median(micros[kind])
		s.cores += s.micros[kind] * s.rate / 1e6
	}
	return s
}

// compareReal plays the scenarios of real measurements and reports how far model and reality differ. The run with the
// fewest shards calibrates the machine: its processor time per pod, by service, divided by the model's. The other
// runs are then compared.
func compareReal(ctx context.Context, o options, costs scale.Costs, to *outcome.Outcome) error {
	t := outcome.Table{
		Title: "The model beside real processes",
		Head: []string{"pods", "nodes", "shards", "real pods/s", "model", "model by real", "real refused", "model",
			"processors used, of those it had", "real µs a pod", "model"},
	}
	var verdict error
	for _, path := range o.real {
		r, err := readReal(path)
		if err != nil {
			return err
		}
		to.Versions["berth"] = r.Berth
		fed, note, err := o.rule(ctx, r, costs)
		if err != nil {
			return err
		}
		t.Notes = append(t.Notes, note)
		for _, shards := range r.settings() {
			was := r.of(shards)
			// What others had of the processors they did not have.
			slower := float64(o.cores) / min(float64(o.cores), was.cores+was.spare)
			m, err := play(ctx, o.like(r, shards), fed.Times(everybody(slower)))
			if err != nil {
				return err
			}
			t.Rows = append(t.Rows, compared(r, shards, was, m, slower))
			key := fmt.Sprintf("%s.s%d.", r.Workload, shards)
			to.Values[key+"rateByReal"] = m.PodsPerSecond / was.rate
			to.Values[key+"conflictsApart"] = m.ConflictPercent() - was.conflicts
			verdict = errors.Join(verdict, apart(r, shards, was, m))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf(
			"Allowed: %.0f%% apart in pods a second; in refused transactions %.0f points, or %.0f times.",
			100*rateTolerance, conflictTolerance, conflictFactor))
		to.Tables = append(to.Tables, t)
	}
	return verdict
}

// everybody returns one factor for all processes.
func everybody(factor float64) map[string]float64 {
	all := map[string]float64{}
	for kind := range kinds {
		all[kind] = factor
	}
	return all
}

// like is the scenario of a real run, with the real cores.
func (o options) like(r realReport, shards int) scale.Scenario {
	return scale.Scenario{
		Shards: shards, Nodes: r.Nodes, Pods: r.Pods, Full: r.Results[0].Full, Workload: r.Workload, Binders: r.Binders,
		Cores: o.cores, Split: scale.Split{Ledgers: 1, Logs: 1}, Engine: true, Seed: o.seed,
	}
}

// rule scales the costs to the machine of the real runs.
func (o options) rule(ctx context.Context, r realReport, costs scale.Costs) (scale.Costs, string, error) {
	fewest := r.settings()[0]
	s := o.like(r, fewest)
	s.Engine = false // a pod costs the same whatever is decided
	m, err := play(ctx, s, costs)
	if err != nil {
		return nil, "", err
	}
	factors := map[string]float64{}
	note := fmt.Sprintf("%s pods: this machine's processor time by `costs.yaml`'s, from the run with %d shard:",
		r.Workload, fewest)
	for _, kind := range []string{"scheduler", "queue", "binder", "etcd", "nats", "API server"} {
		factors[kind] = r.of(fewest).micros[kind] / m.Micros[kind]
		note += fmt.Sprintf(" %s %.2f;", kinds[kind], factors[kind])
	}
	return costs.Times(factors), note[:len(note)-1] + ".", nil
}

func compared(r realReport, shards int, was seen, m scale.Result, slower float64) []string {
	sum, all := 0.0, 0.0
	for kind := range kinds {
		sum += was.micros[kind]
		all += m.Micros[kind] / slower
	}
	n := outcome.Number
	return []string{
		n(float64(r.Pods)) + " " + r.Workload, n(float64(r.Nodes)), fmt.Sprint(shards), n(was.rate), n(m.PodsPerSecond),
		fmt.Sprintf("%.2f", m.PodsPerSecond/was.rate), fmt.Sprintf("%.1f%%", was.conflicts),
		fmt.Sprintf("%.1f%%", m.ConflictPercent()),
		fmt.Sprintf("%.1f of %.1f", was.cores, float64(m.Scenario.Cores)/slower), n(sum), n(all),
	}
}

// apart returns an error if the model differs from the measurement by more than is allowed.
func apart(r realReport, shards int, was seen, m scale.Result) error {
	var errs []error
	if off := math.Abs(m.PodsPerSecond/was.rate - 1); off > rateTolerance {
		errs = append(errs, fmt.Errorf(
			"%s pods, %d shards: the model has %.0f pods/s, real processes %.0f: %.0f%% apart, want at most %.0f%%",
			r.Workload, shards, m.PodsPerSecond, was.rate, 100*off, 100*rateTolerance))
	}
	if !near(m.ConflictPercent(), was.conflicts) {
		errs = append(errs, fmt.Errorf("%s pods, %d shards: of the model's transactions %.1f%% are refused, "+
			"of real ones %.1f%%: want at most %.0f points or %.0f times apart",
			r.Workload, shards, m.ConflictPercent(), was.conflicts, conflictTolerance, conflictFactor))
	}
	return errors.Join(errs...)
}

func near(x, y float64) bool {
	return math.Abs(x-y) <= conflictTolerance || max(x, y) <= conflictFactor*min(x, y)
}

// compareTwin plays the same with the real core and with its twin, at 10,000 nodes.
func compareTwin(ctx context.Context, o options, costs scale.Costs, to *outcome.Outcome) error {
	t := outcome.Table{
		Title: "The twin beside the real core, 10,000 nodes, half full",
		Head:  []string{"pods", "shards", "core pods/s", "twin", "core refused", "twin", "core searches a pod", "twin"},
	}
	var verdict error
	for _, workload := range []string{scale.Plain, scale.Leaning} {
		for _, shards := range twinShards[workload] {
			s := scale.Scenario{
				Shards: shards, Nodes: 10_000, Pods: 300 * shards, Full: 50, Workload: workload, Binders: shards,
				Split: scale.Split{Ledgers: 1, Logs: 1}, Even: true, Seed: o.seed,
			}
			twin, err := play(ctx, s, costs)
			if err != nil {
				return err
			}
			s.Engine = true
			core, err := play(ctx, s, costs)
			if err != nil {
				return err
			}
			searches := func(r scale.Result) string { return fmt.Sprintf("%.2f", float64(r.Searches)/float64(s.Pods)) }
			t.Rows = append(t.Rows, []string{
				outcome.Number(float64(s.Pods)) + " " + workload, fmt.Sprint(shards), outcome.Number(core.Steady),
				outcome.Number(twin.Steady), fmt.Sprintf("%.1f%%", core.ConflictPercent()),
				fmt.Sprintf("%.1f%%", twin.ConflictPercent()), searches(core), searches(twin),
			})
			verdict = errors.Join(verdict, unlike(s, twin, core))
		}
	}
	to.Tables = append(to.Tables, t)
	return verdict
}

// unlike is an error if the twin is further from the core than is allowed.
func unlike(s scale.Scenario, twin, core scale.Result) error {
	var errs []error
	if off := math.Abs(twin.Steady/core.Steady - 1); off > twinRate {
		errs = append(errs, fmt.Errorf("%s: the twin reaches %.0f pods/s, the core %.0f: want at most %.0f%% apart",
			s, twin.Steady, core.Steady, 100*twinRate))
	}
	if off := math.Abs(twin.ConflictPercent() - core.ConflictPercent()); off > twinConflicts {
		errs = append(errs, fmt.Errorf(
			"%s: of the twin's transactions %.1f%% are refused, of the core's %.1f%%: want at most %.0f points apart",
			s, twin.ConflictPercent(), core.ConflictPercent(), twinConflicts))
	}
	return errors.Join(errs...)
}
