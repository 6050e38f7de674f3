package descheduling

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/descheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// metricsOf names in the environment whose metrics a run of this test is to print, and that it is
// to do nothing else: one process cannot register two metrics of one name.
const metricsOf = "CONFORMANCE_METRICS_OF"

// TestMetrics: those of pkg/telemetry under the descheduler's prefix are the descheduler's, by name, type, stability,
// labels and buckets, with the names that it has deprecated if these are asked for. Upstream never sets the value of
// one.
func TestMetrics(t *testing.T) {
	sides := map[string]func(){
		"ours": func() { recordOurs(false) }, "ours with old names": func() { recordOurs(true) },
		"upstream": recordUpstream,
	}
	if record := sides[os.Getenv(metricsOf)]; record != nil {
		record()
		printMetrics(t)
		return
	}
	theirs := metricsFrom(t, "upstream")
	if diff := cmp.Diff(theirs, metricsFrom(t, "ours with old names")); diff != "" || len(theirs) == 0 {
		t.Errorf("with old names, upstream (-) and ours (+):\n%s", diff)
	}
	current := slices.DeleteFunc(slices.Clone(theirs), func(line string) bool {
		return strings.HasPrefix(line, "descheduler_pods_evicted counter") ||
			strings.HasPrefix(line, "descheduler_descheduler_")
	})
	if len(theirs)-len(current) != 3 {
		t.Errorf("upstream has %d old names, want 3", len(theirs)-len(current))
	}
	if diff := cmp.Diff(current, metricsFrom(t, "ours")); diff != "" {
		t.Errorf("upstream (-) and ours (+):\n%s", diff)
	}
}

func recordOurs(oldNames bool) {
	tel, err := telemetry.Setup(context.Background(), telemetry.Config{
		Service: "descheduler", Version: "v1", OldNames: oldNames,
	})
	if err != nil {
		panic(err)
	}
	_ = tel.Shutdown(context.Background()) // nothing is exported
	telemetry.PodEvicted(telemetry.Eviction{Result: "success", Strategy: "s", Profile: "p", Namespace: "n", Node: "m"})
	telemetry.DeschedulerLoop(time.Second)
	telemetry.DeschedulerStrategy("s", "p", time.Second)
}

func recordUpstream() {
	metrics.Register()
	metrics.PodsEvictedTotal.WithLabelValues("success", "s", "p", "n", "m").Inc()
	metrics.PodsEvicted.WithLabelValues("success", "s", "p", "n", "m").Inc()
	metrics.LoopDuration.WithLabelValues().Observe(1)
	metrics.DeschedulerLoopDuration.WithLabelValues().Observe(1)
	metrics.StrategyDuration.WithLabelValues("s", "p").Observe(1)
	metrics.DeschedulerStrategyDuration.WithLabelValues("s", "p").Observe(1)
}

// printMetrics prints a line for each metric under the descheduler's prefix.
func printMetrics(t *testing.T) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "descheduler_") {
			continue
		}
		stability, _, _ := strings.Cut(strings.TrimPrefix(f.GetHelp(), "["), "]")
		line := f.GetName() + " " + strings.ToLower(f.GetType().String()) + " " + stability
		m := f.GetMetric()[0]
		for _, l := range m.GetLabel() {
			line += " " + l.GetName()
		}
		for _, b := range m.GetHistogram().GetBucket() {
			line += " " + time.Duration(b.GetUpperBound()*float64(time.Second)).String()
		}
		os.Stdout.WriteString("metric: " + line + "\n")
	}
}

// metricsFrom is the metrics output of one side, sorted.
func metricsFrom(t *testing.T, side string) (all []string) {
	t.Helper()
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMetrics$")
	self.Env = append(os.Environ(), metricsOf+"="+side)
	out, err := self.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", side, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if metric, is := strings.CutPrefix(strings.TrimSpace(line), "metric: "); is {
			all = append(all, metric)
		}
	}
	slices.Sort(all)
	return all
}
