package telemetry

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
)

// Values of the label result of schedule_attempts_total, as kube-scheduler names them.
const (
	ResultScheduled     = "scheduled"
	ResultUnschedulable = "unschedulable"
	ResultError         = "error"
)

// manyAttempts is the number from which pod_scheduling_sli_duration_seconds counts attempts as one value, "15+", as
// kube-scheduler does.
const manyAttempts = 15

// The metrics of kube-scheduler 1.36 with its names, labels, buckets and stability levels
// (pkg/scheduler/metrics/metrics.go), so that dashboards and alerts made for it keep working.
var (
	scheduleAttempts = schedulerStable.CounterVec("schedule_attempts_total",
		"Number of attempts to schedule pods, by result.", "result", "profile")
	attemptDuration = schedulerStable.HistogramVec("scheduling_attempt_duration_seconds",
		"Duration of one attempt, from the snapshot to the committed reservation, in seconds.",
		metrics.ExponentialBuckets(0.001, 2, 15), "result", "profile")
	algorithmDuration = schedulerAlpha.Histogram("scheduling_algorithm_duration_seconds",
		"Duration of filtering and scoring for one pod, in seconds.", metrics.ExponentialBuckets(0.001, 2, 15))
	extensionPointDuration = schedulerStable.HistogramVec("framework_extension_point_duration_seconds",
		"Duration of all plugins of one extension point, in seconds.", metrics.ExponentialBuckets(0.0001, 2, 12),
		"extension_point", "status", "profile")
	pluginExecutionDuration = schedulerAlpha.HistogramVec("plugin_execution_duration_seconds",
		"Duration of one plugin at one extension point for one node, in seconds, in a tenth of the attempts.",
		metrics.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "extension_point", "status")
	pluginEvaluations = schedulerBeta.CounterVec("plugin_evaluation_total",
		"Number of plugin evaluations (PreFilter, Filter, PreScore, Score). Results are cached, so the "+
			"number grows with what changes, not with nodes and pods.",
		"plugin", "extension_point", "profile")
	permitWait = schedulerBeta.HistogramVec("permit_wait_duration_seconds",
		"Time for which a pod with a chosen node waited for its victims to leave, in seconds, by outcome.",
		metrics.ExponentialBuckets(0.001, 2, 15), "result")
	claimsCreated = schedulerAlpha.CounterVec("resourceclaim_creates_total",
		"Number of ResourceClaims to create for extended resources that devices back, by result.", "status")
	pendingPods = schedulerStable.GaugeVec("pending_pods",
		"Number of pending pods, by queue: active, backoff, unschedulable, gated.", "queue")
	queueIncoming = schedulerStable.CounterVec("queue_incoming_pods_total",
		"Number of pods added to a queue, by queue and event.", "queue", "event")
	podAttempts = schedulerStable.Histogram("pod_scheduling_attempts",
		"Number of attempts to schedule a pod successfully.", metrics.ExponentialBuckets(1, 2, 5))
	podSLIDuration = schedulerBeta.HistogramVec("pod_scheduling_sli_duration_seconds",
		"Time from a pod's first entry into the queue until it is scheduled, in seconds, without the time it "+
			"was gated.",
		metrics.ExponentialBuckets(0.01, 2, 20), "attempts")
	unschedulablePods = schedulerBeta.GaugeVec("unschedulable_pods",
		"Number of unschedulable pods, by each plugin that rejected them.", "plugin", "profile")
	podScheduledAfterFlush = schedulerAlpha.Counter("pod_scheduled_after_flush_total",
		"Number of pods placed by the periodic sweep, not by an event.")
	queueingHintDuration = schedulerAlpha.HistogramVec("queueing_hint_execution_duration_seconds",
		"Duration of one queueing hint of a plugin, in seconds.", metrics.ExponentialBuckets(0.00001, 1.5, 20),
		"plugin", "event", "hint")
	cacheSize = schedulerAlpha.GaugeVec("cache_size",
		"Number of objects in the in-memory state, by type: nodes, pods, assumed_pods.", "type")
	goroutines = schedulerBeta.GaugeVec("goroutines",
		"Number of running goroutines, by operation.", "operation")
	preemptionAttempts = schedulerStable.Counter("preemption_attempts_total",
		"Number of preemption attempts.")
	preemptionVictims = schedulerStable.Histogram("preemption_victims",
		"Number of victims of one preemption.", metrics.ExponentialBuckets(1, 2, 7))
)

// ScheduleAttempt counts one attempt; took is the time from its offer to its outcome. Results that kube-scheduler does
// not have (an attempt abandoned after a conflict, for example) count in berth_attempts_without_result_total alone, so
// that upstream's dashboards add up.
func ScheduleAttempt(result, profile string, took time.Duration) {
	switch result {
	case ResultScheduled, ResultUnschedulable, ResultError:
		scheduleAttempts.WithLabelValues(result, profile).Inc()
		attemptDuration.WithLabelValues(result, profile).Observe(took.Seconds())
	default:
		attemptsWithoutResult.WithLabelValues(result, profile).Inc()
	}
}

// PreemptionAttempt counts a pod for which preemption was tried.
func PreemptionAttempt() { preemptionAttempts.Inc() }

// PreemptionVictims observes the number of victims of one preemption.
func PreemptionVictims(pods int) { preemptionVictims.Observe(float64(pods)) }

// SchedulingAlgorithm observes filtering and scoring for one pod.
func SchedulingAlgorithm(took time.Duration) { algorithmDuration.Observe(took.Seconds()) }

// ExtensionPoint observes all plugins of one extension point; point and status are kube-scheduler's names (Filter,
// Score, …; Success, Unschedulable, …).
func ExtensionPoint(point, status, profile string, took time.Duration) {
	extensionPointDuration.WithLabelValues(point, status, profile).Observe(took.Seconds())
}

// PluginExecution observes one plugin at one extension point; the names are those of ExtensionPoint.
func PluginExecution(plugin, point, status string, took time.Duration) {
	pluginExecutionDuration.WithLabelValues(plugin, point, status).Observe(took.Seconds())
}

// PluginEvaluations counts calls of a plugin. It takes a number, as shards add up the calls of one attempt.
func PluginEvaluations(plugin, point, profile string, calls uint64) {
	pluginEvaluations.WithLabelValues(plugin, point, profile).Add(float64(calls))
}

// PermitWait observes a pod that had a node and waited until it could be bound there: for its victims to leave, or for
// its Permit plugins.
func PermitWait(result string, waited time.Duration) {
	permitWait.WithLabelValues(result).Observe(waited.Seconds())
}

// PendingPods sets how many pods wait in a queue: active, backoff, unschedulable, gated.
func PendingPods(queue string, pods int) { pendingPods.WithLabelValues(queue).Set(float64(pods)) }

// QueueIncoming counts pods put into a queue because of an event. Both are kube-scheduler's names, such as active and
// AssignedPodDelete.
func QueueIncoming(queue, event string, pods int) {
	queueIncoming.WithLabelValues(queue, event).Add(float64(pods))
}

// QueueingHints observes hints of one plugin about one event that gave the same answer, each of which took the
// duration each.
func QueueingHints(plugin, event string, queue bool, hints int, each time.Duration) {
	hint := "QueueSkip"
	if queue {
		hint = "Queue"
	}
	observer := queueingHintDuration.WithLabelValues(plugin, event, hint)
	for range hints {
		observer.Observe(each.Seconds())
	}
}

// PodScheduledAfterFlush counts pods that were placed because of the queue's sweep and not of an event: each is a
// bug of a hint.
func PodScheduledAfterFlush(pods int) { podScheduledAfterFlush.Add(float64(pods)) }

// PodScheduled observes a pod that was scheduled with its attempts-th attempt; waited is the time since it could
// first have been scheduled.
func PodScheduled(attempts int, waited time.Duration) {
	podAttempts.Observe(float64(attempts))
	label := strconv.Itoa(attempts)
	if attempts >= manyAttempts {
		label = strconv.Itoa(manyAttempts) + "+"
	}
	podSLIDuration.WithLabelValues(label).Observe(waited.Seconds())
}

// UnschedulablePods adds change to the pods that a plugin holds back. Callers must subtract what they have added: the
// metric is a sum over all pods that are parked.
func UnschedulablePods(plugin, profile string, change int) {
	unschedulablePods.WithLabelValues(plugin, profile).Add(float64(change))
}

// CacheSize sets the number of objects of a type in the state: nodes, pods, assumed_pods.
func CacheSize(kind string, objects int) { cacheSize.WithLabelValues(kind).Set(float64(objects)) }

// Goroutines adds change to the goroutines at work on an operation, such as binding: 1 when one begins and -1 when it
// ends.
func Goroutines(operation string, change int) {
	goroutines.WithLabelValues(operation).Add(float64(change))
}
