package path

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

// factsPerPod counts the facts about a pod in the log: its creation and its bind.
const factsPerPod = 2

// measurement is the command line with the programs it needs.
type measurement struct {
	options
	programs harness.Programs
}

// setting holds the differences between the runs of one measurement.
type setting struct {
	// Shards are scheduler processes; Full is how full the nodes are before pods arrive, in percent.
	Shards int `json:"shards"`
	Full   int `json:"full"`
	// Observed is how: records, nothing, traces.
	Observed string `json:"observed"`
}

func (s setting) String() string {
	return fmt.Sprintf("%d shards, %d%% full, %s", s.Shards, s.Full, s.Observed)
}

// settings are all of them, in the order of a round.
func (m *measurement) settings() []setting {
	var all []setting
	for _, full := range m.full {
		for _, shards := range m.shards {
			for _, observed := range m.observed {
				all = append(all, setting{shards, full, observed})
			}
		}
	}
	return all
}

// result is the outcome of one run.
type result struct {
	setting
	Run         int     `json:"run"`
	WallSeconds float64 `json:"wallSeconds"`
	// PodsPerSecond is counted from the arrival of the first pod to the last bind.
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Micros is processor time per pod in microseconds, by service, up to the last bind.
	Micros map[string]float64 `json:"microsPerPod"`
	Events int                `json:"eventsAtLastBind"`
	// Spare is how many processors of the machine were idle, on average.
	Spare float64 `json:"spareProcessors"`
	// FactMicros is the processor time in which one shard applies one fact, measured on a shard that reads the log
	// from its beginning; 0 if not measured.
	FactMicros float64 `json:"factMicros,omitempty"`
	contention
	// Null is the null path that ran after it, nil without.
	Null *nullResult `json:"null,omitempty"`
	// Traced is of how many pods a span has come to the collector, Complete of how many all have: of all
	// rounds and the warm-up together.
	Traced   int `json:"traced,omitempty"`
	Complete int `json:"complete,omitempty"`
}

// all alternates between the settings.
func (m *measurement) all(ctx context.Context) (results []result, err error) {
	for i := range m.runs {
		for _, s := range m.settings() {
			r, err := m.run(ctx, s, i+1)
			if err != nil {
				return nil, fmt.Errorf("%s, run %d: %w", s, i+1, err)
			}
			if err := m.beside(ctx, &r); err != nil {
				return nil, fmt.Errorf("%s, run %d: %s: %w", s, i+1, nullService, err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// run starts everything, warms it up, lets the pods arrive and waits for the last bind.
func (m *measurement) run(ctx context.Context, s setting, number int) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	t, err := m.open(ctx, s)
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	if err != nil {
		return r, err
	}
	early, err := t.late(ctx)
	if err != nil {
		return r, err
	}
	if err := t.arrive(ctx, "warm", m.warm); err != nil {
		return r, err
	}
	if r, err = t.measured(ctx); err != nil {
		return r, err
	}
	r.setting, r.Run = s, number
	fmt.Fprintf(os.Stderr, "%s, run %d: %.1f s, %.0f pods/s, %.0f µs a pod in all\n",
		s, number, r.WallSeconds, r.PodsPerSecond, r.all())
	if r.contention, err = t.contention(ctx); err != nil {
		return r, err
	}
	last, err := t.late(ctx)
	r.FactMicros = float64((last - early).Microseconds()) / float64(factsPerPod*(m.warm+m.pods))
	return r, errors.Join(err, check(t.api, m.pods+m.warm))
}

// measured is measure, and what the log has stored meanwhile if a null path is to do the same.
func (t *track) measured(ctx context.Context) (r result, err error) {
	if !t.all.null {
		return t.measure(ctx, "pod")
	}
	before, err := t.stored(ctx)
	if err != nil {
		return r, err
	}
	if r, err = t.measure(ctx, "pod"); err != nil {
		return r, err
	}
	after, err := t.stored(ctx)
	r.Null = after.since(before, t.all.pods)
	return r, err
}

// measure lets the pods arrive that count.
func (t *track) measure(ctx context.Context, prefix string) (r result, err error) {
	before, err := used(t.members)
	if err != nil {
		return r, err
	}
	profiles := t.all.profile(ctx, t.members)
	idle, err := idleTime()
	if err != nil {
		return r, err
	}
	begin := time.Now()
	if err := t.arrive(ctx, prefix, t.all.pods); err != nil {
		return r, err
	}
	after, err := used(t.members)
	if err != nil {
		return r, err
	}
	ended := time.Now()
	rested, err := idleTime()
	if err != nil {
		return r, err
	}
	_, last := t.api.Bound()
	r = result{WallSeconds: last.Sub(begin).Seconds(), Micros: map[string]float64{}, Events: t.api.Events()}
	r.PodsPerSecond = float64(t.all.pods) / r.WallSeconds
	r.Spare = float64(rested-idle) / float64(ended.Sub(begin))
	for service, time := range after {
		r.Micros[service] = float64((time - before[service]).Microseconds()) / float64(t.all.pods)
	}
	return r, profiles()
}

// all is the processor time per pod of all that is Berth's, its stores included.
func (r result) all() (sum float64) {
	for service, micros := range r.Micros {
		if service != ownService {
			sum += micros
		}
	}
	return sum
}

// arrive adds pods, at a rate if there is one, and waits until all are bound.
func (t *track) arrive(ctx context.Context, prefix string, n int) error {
	pods, atOnce := t.all.arriving(prefix, n), n
	pace := rate.NewLimiter(rate.Inf, 1)
	if t.all.rate > 0 {
		pace.SetLimit(rate.Limit(t.all.rate))
		atOnce = 1
	}
	var bound <-chan struct{}
	for some := range slices.Chunk(pods, atOnce) {
		err := pace.Wait(ctx)
		if err != nil {
			return err
		}
		if bound, err = t.api.AddPods(some); err != nil {
			return err
		}
	}
	select {
	case <-bound:
		return nil
	case <-ctx.Done():
		count, _ := t.api.Bound()
		return fmt.Errorf("%d pods are bound: %w", count, ctx.Err())
	}
}

// used is the processor time so far, by service.
func used(members []member) (map[string]time.Duration, error) {
	sum := map[string]time.Duration{}
	own, err := harness.CPUTime(os.Getpid())
	sum[ownService] = own
	for _, m := range members {
		spent, more := harness.CPUTime(m.pids...)
		sum[m.service] += spent
		err = errors.Join(err, more)
	}
	return sum, err
}

// check checks the bound pods, and that Berth sent no requests that the sink does not serve.
func check(api *sink.Server, want int) error {
	nodes, pods := api.Objects()
	if bound, _ := api.Bound(); bound != want {
		return fmt.Errorf("%d of %d pods are bound", bound, want)
	}
	zone := map[string]string{}
	for i := range nodes {
		zone[nodes[i].Name] = nodes[i].Labels[corev1.LabelTopologyZone]
	}
	if wrong := append(audit.Check(nodes, pods), broken(pods, zone)...); len(wrong) > 0 {
		return fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	if strange := api.Strange(); len(strange) > 0 {
		return fmt.Errorf("requests that the sink does not serve: %v", strange)
	}
	return nil
}
