package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/features"
	apicalls "k8s.io/kubernetes/pkg/scheduler/framework/api_calls"
	volumemetrics "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding/metrics"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	alphametrics "github.com/berth-scheduler/berth/pkg/telemetry/alpha"
)

// metricsOf names in the environment whose metrics a run of this test is to print, and that
// it is to do nothing else: one process cannot register two metrics of one name.
const metricsOf = "CONFORMANCE_METRICS_OF"

const metricPrefix = "scheduler_"

// family holds the parts of one metric that dashboards and alerts rely on.
type family struct {
	Type, Stability string
	// Series are the label sets, as name="value",…; each side has recorded the same events.
	Series []string
	// Buckets are the upper bounds of a histogram.
	Buckets []float64
}

// TestMetrics: those of pkg/telemetry under kube-scheduler's prefix are kube-scheduler's, by
// name, type, stability, labels and buckets.
func TestMetrics(t *testing.T) {
	sides := map[string]func(){"ours": recordOurs, "upstream": recordUpstream}
	if record := sides[os.Getenv(metricsOf)]; record != nil {
		record()
		text, err := json.Marshal(families(t))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s%s\n", metricsOf, text)
		return
	}
	want, got := familiesOf(t, "upstream"), familiesOf(t, "ours")
	for name, f := range got {
		upstream, ok := want[name]
		if !ok {
			t.Errorf("%s: kube-scheduler has no such metric", name)
			continue
		}
		if diff := cmp.Diff(upstream, f); diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", name, diff)
		}
	}
	for _, name := range []string{
		"pending_pods", "queue_incoming_pods_total", "unschedulable_pods", "pod_scheduling_attempts",
		"pod_scheduling_sli_duration_seconds", "queueing_hint_execution_duration_seconds",
		"pod_scheduled_after_flush_total", "schedule_attempts_total", "scheduling_attempt_duration_seconds",
		"scheduling_algorithm_duration_seconds", "framework_extension_point_duration_seconds", "cache_size", "goroutines",
		"plugin_execution_duration_seconds", "plugin_evaluation_total", "permit_wait_duration_seconds",
		"resourceclaim_creates_total", "event_handling_duration_seconds", "inflight_events", "pending_async_api_calls",
		"async_api_call_execution_total", "async_api_call_execution_duration_seconds",
		"dra_bindingconditions_allocations_total", "dra_bindingconditions_wait_duration_seconds",
		"volume_scheduling_stage_error_total",
	} {
		if _, ok := got[metricPrefix+name]; !ok {
			t.Errorf("%s%s is missing", metricPrefix, name)
		}
	}
	t.Logf("compared %d metrics", len(got))
}

// meaningless are the metrics of kube-scheduler that Berth does not have, with the reason. docs/observing.md lists
// them.
var meaningless = map[string]string{
	"batch_attempts_total":                    "no batches: decisions are shared by class",
	"batch_cache_flushed_total":               "no batches",
	"get_node_hint_duration_seconds":          "no batches",
	"store_schedule_results_duration_seconds": "no batches",
	"preemption_goroutines_duration_seconds":  "preemption is not one goroutine: see berth_plans_ended_total",
	"preemption_goroutines_execution_total":   "as above",
	"volume_binder_cache_requests_total":      "kube-scheduler registers it and never sets it",
}

// TestEveryMetricHasAnAnswer: each metric that kube-scheduler registers, with every gate on, is one of Berth's or is
// listed with the reason why not, here and in the documentation.
func TestEveryMetricHasAnAnswer(t *testing.T) {
	page, err := os.ReadFile("../../docs/observing.md")
	if err != nil {
		t.Fatal(err)
	}
	all := telemetry.Labels()
	known := map[string]bool{}
	for _, name := range upstreamNames() {
		short := strings.TrimPrefix(name, metricPrefix)
		_, ours := all[name]
		_, none := meaningless[short]
		known[short] = true
		switch {
		case ours == none:
			t.Errorf("%s: Berth has it: %t, listed as meaningless: %t", name, ours, none)
		case none && !strings.Contains(string(page), "`"+name+"`"):
			t.Errorf("%s: not in docs/observing.md", name)
		}
	}
	for short := range meaningless {
		if !known[short] {
			t.Errorf("%s%s: kube-scheduler has no such metric any more", metricPrefix, short)
		}
	}
	if len(known) < 30 {
		t.Errorf("only %d metrics of kube-scheduler were found", len(known))
	}
}

// declaration matches the name of a metric where kube-scheduler declares it.
var declaration = regexp.MustCompile(`(?m)^\s*Name:\s+"([a-z_]+)"`)

// upstreamNames returns the names of all metrics in kube-scheduler's source: which ones a process registers depends on
// its gates.
func upstreamNames() (names []string) {
	for file, prefix := range map[string]string{
		"metrics/metrics.go": "scheduler_",
		"framework/plugins/volumebinding/metrics/metrics.go": "scheduler_volume_",
	} {
		text, err := os.ReadFile(filepath.Join(upstreamSource(), file))
		if err != nil {
			return nil
		}
		for _, g := range declaration.FindAllSubmatch(text, -1) {
			names = append(names, prefix+string(g[1]))
		}
	}
	return names
}

// upstreamSource returns the folder of the scheduler's source, from which this test was compiled.
func upstreamSource() string {
	pc := reflect.ValueOf(metrics.Register).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	return filepath.Dir(filepath.Dir(file))
}

// familiesOf are the families of one side, from a process of their own.
func familiesOf(t *testing.T, side string) map[string]family {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMetrics$")
	cmd.Env = append(os.Environ(), metricsOf+"="+side)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		text, ok := strings.CutPrefix(line, metricsOf)
		if !ok {
			continue
		}
		var all map[string]family
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	t.Fatalf("no metrics in\n%s", out)
	return nil
}

func recordOurs() {
	telemetry.Register()
	telemetry.ScheduleAttempt(telemetry.ResultScheduled, "p", time.Millisecond)
	telemetry.ScheduleAttempt(telemetry.ResultUnschedulable, "p", time.Millisecond)
	telemetry.ScheduleAttempt(telemetry.ResultError, "p", time.Millisecond)
	telemetry.SchedulingAlgorithm(time.Millisecond)
	telemetry.ExtensionPoint(metrics.Filter, "Success", "p", time.Millisecond)
	for _, queue := range []string{"active", "backoff", "unschedulable", "gated"} {
		telemetry.PendingPods(queue, 1)
	}
	telemetry.QueueIncoming("active", "PodAdd", 1)
	telemetry.PodScheduled(14, time.Second)
	telemetry.PodScheduled(15, time.Second)
	telemetry.UnschedulablePods("NodeAffinity", "p", 1)
	telemetry.PodScheduledAfterFlush(1)
	telemetry.QueueingHints("NodeAffinity", "NodeAdd", true, 1, time.Millisecond)
	telemetry.QueueingHints("NodeAffinity", "NodeAdd", false, 1, time.Millisecond)
	for _, what := range []string{"nodes", "pods", "assumed_pods"} {
		telemetry.CacheSize(what, 1)
	}
	telemetry.Goroutines("Filter", 1)
	telemetry.PluginExecution("NodeAffinity", metrics.Filter, "Success", time.Millisecond)
	telemetry.PluginEvaluations("NodeAffinity", metrics.Filter, "p", 1)
	telemetry.ClaimCreated(true)
	telemetry.PermitWait("Success", time.Millisecond)
	alphametrics.EventsHandled("NodeAdd", 1, time.Millisecond)
	alphametrics.EventsInFlight("NodeAdd", 1)
	alphametrics.CallsPending(alphametrics.CallBinding, 1)
	alphametrics.CallSent(alphametrics.CallBinding, true, time.Millisecond)
	alphametrics.CallSent(alphametrics.CallStatusPatch, false, time.Millisecond)
	for _, outcome := range []string{
		alphametrics.ConditionsMet, alphametrics.ConditionsFailed, alphametrics.ConditionsTimeout,
	} {
		alphametrics.DeviceConditions("p", "driver", outcome)
		alphametrics.DeviceConditionsWait("p", "driver", outcome, time.Second)
	}
	alphametrics.VolumesNotBound()
}

// recordUpstream records the same events in kube-scheduler's metrics, as its code does.
func recordUpstream() {
	// Some metrics are registered only with this gate, which is off by default. If it cannot be set, they are missing.
	_ = feature.DefaultMutableFeatureGate.Set(string(features.SchedulerAsyncAPICalls) + "=true")
	metrics.Register()
	metrics.PodScheduled("p", 0.001)
	metrics.PodUnschedulable("p", 0.001)
	metrics.PodScheduleError("p", 0.001)
	metrics.SchedulingAlgorithmLatency.Observe(0.001)
	metrics.FrameworkExtensionPointDuration.WithLabelValues(metrics.Filter, "Success", "p").Observe(0.001)
	metrics.ActivePods().Inc()
	metrics.BackoffPods().Inc()
	metrics.UnschedulablePods().Inc()
	metrics.GatedPods().Inc()
	metrics.SchedulerQueueIncomingPods.WithLabelValues("active", "PodAdd").Inc()
	metrics.PodSchedulingAttempts.Observe(14)
	metrics.PodSchedulingSLIDuration.WithLabelValues("14").Observe(1)
	metrics.PodSchedulingSLIDuration.WithLabelValues("15+").Observe(1)
	metrics.UnschedulableReason("NodeAffinity", "p").Inc()
	metrics.PodScheduledAfterFlush.Inc()
	stopped := make(chan struct{})
	close(stopped)
	recorder := metrics.NewMetricsAsyncRecorder(10, time.Hour, stopped)
	<-recorder.IsStoppedCh // its own goroutine does not take a value and observe it late
	recorder.ObserveQueueingHintDurationAsync("NodeAffinity", "NodeAdd", "Queue", 0.001)
	recorder.ObserveQueueingHintDurationAsync("NodeAffinity", "NodeAdd", "QueueSkip", 0.001)
	recorder.FlushMetrics()
	for _, what := range []string{"nodes", "pods", "assumed_pods"} {
		metrics.CacheSize.WithLabelValues(what).Set(1)
	}
	metrics.Goroutines.WithLabelValues("Filter").Set(1)
	metrics.PluginExecutionDuration.WithLabelValues("NodeAffinity", metrics.Filter, "Success").Observe(0.001)
	metrics.PluginEvaluationTotal.WithLabelValues("NodeAffinity", metrics.Filter, "p").Inc()
	metrics.ResourceClaimCreatesTotal.WithLabelValues("success").Inc()
	metrics.PermitWaitDuration.WithLabelValues("Success").Observe(0.001)
	metrics.EventHandlingLatency.WithLabelValues("NodeAdd").Observe(0.001)
	metrics.InFlightEvents.WithLabelValues("NodeAdd").Set(1)
	binding, patch := string(apicalls.PodBinding), string(apicalls.PodStatusPatch)
	metrics.AsyncAPIPendingCalls.WithLabelValues(binding).Inc()
	for call, result := range map[string]string{
		binding: metrics.GoroutineResultSuccess, patch: metrics.GoroutineResultError,
	} {
		metrics.AsyncAPICallsTotal.WithLabelValues(call, result).Inc()
		metrics.AsyncAPICallDuration.WithLabelValues(call, result).Observe(0.001)
	}
	for _, outcome := range []string{
		metrics.BindingConditionsStatusSuccess, metrics.BindingConditionsStatusFailed,
		metrics.BindingConditionsStatusTimeout,
	} {
		metrics.DRABindingConditionsAllocationsTotal.WithLabelValues("p", "driver", outcome).Inc()
		metrics.DRABindingConditionsPreBindDuration.WithLabelValues("p", "driver", outcome).Observe(1)
	}
	volumemetrics.VolumeSchedulingStageFailed.WithLabelValues("bind").Inc()
}

// families are the metrics of this process under kube-scheduler's prefix.
func families(t *testing.T) map[string]family {
	t.Helper()
	gathered, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]family{}
	for _, g := range gathered {
		if !strings.HasPrefix(g.GetName(), metricPrefix) {
			continue
		}
		f := family{Type: g.GetType().String()}
		f.Stability, _, _ = strings.Cut(strings.TrimPrefix(g.GetHelp(), "["), "]")
		for _, m := range g.GetMetric() {
			f.Series = append(f.Series, labelsOf(m))
			f.Buckets = nil
			for _, b := range m.GetHistogram().GetBucket() {
				f.Buckets = append(f.Buckets, b.GetUpperBound())
			}
		}
		slices.Sort(f.Series)
		all[g.GetName()] = f
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return strings.Join(labels, ",")
}
