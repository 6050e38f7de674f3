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
	scheduleAttempts = schedulerStable.counterVec("schedule_attempts_total",
		"Attempts to schedule a pod, by result.", "result", "profile")
	attemptDuration = schedulerStable.histogramVec("scheduling_attempt_duration_seconds",
		"Seconds of one attempt, from the snapshot to the committed reservation.",
		metrics.ExponentialBuckets(0.001, 2, 15), "result", "profile")
	algorithmDuration = schedulerAlpha.histogram("scheduling_algorithm_duration_seconds",
		"Seconds of filtering and scoring for one pod.", metrics.ExponentialBuckets(0.001, 2, 15))
	extensionPointDuration = schedulerStable.histogramVec("framework_extension_point_duration_seconds",
		"Seconds of all plugins of one extension point.", metrics.ExponentialBuckets(0.0001, 2, 12),
		"extension_point", "status", "profile")
	pluginExecutionDuration = schedulerAlpha.histogramVec("plugin_execution_duration_seconds",
		"Seconds of one plugin at one extension point, about one node, in a tenth of the attempts.",
		metrics.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "extension_point", "status")
	pluginEvaluations = schedulerBeta.counterVec("plugin_evaluation_total",
		"Times that a plugin was asked (PreFilter, Filter, PreScore, Score). "+
			"What it said is kept, so that this grows by what has changed, not by nodes and pods.",
		"plugin", "extension_point", "profile")
	permitWait = schedulerBeta.histogramVec("permit_wait_duration_seconds",
		"Seconds that a pod with a chosen node waited for others to go from it, by how that ended.",
		metrics.ExponentialBuckets(0.001, 2, 15), "result")
	claimsCreated = schedulerAlpha.counterVec("resourceclaim_creates_total",
		"Claims that were to be made for extended resources that devices stand for, by result.", "status")
	pendingPods = schedulerStable.gaugeVec("pending_pods",
		"Pods that wait, by queue: active, backoff, unschedulable, gated.", "queue")
	queueIncoming = schedulerStable.counterVec("queue_incoming_pods_total",
		"Pods put into a queue, by queue and the event that did it.", "queue", "event")
	podAttempts = schedulerStable.histogram("pod_scheduling_attempts",
		"Attempts it took to schedule a pod.", metrics.ExponentialBuckets(1, 2, 5))
	podSLIDuration = schedulerBeta.histogramVec("pod_scheduling_sli_duration_seconds",
		"Seconds from a pod's first entry into the queue until it is scheduled, gated time left out.",
		metrics.ExponentialBuckets(0.01, 2, 20), "attempts")
	unschedulablePods = schedulerBeta.gaugeVec("unschedulable_pods",
		"Pods that a plugin holds back; a pod counts for every plugin that does.", "plugin", "profile")
	podScheduledAfterFlush = schedulerAlpha.counter("pod_scheduled_after_flush_total",
		"Pods placed because of the queue's sweep, not of an event.")
	queueingHintDuration = schedulerAlpha.histogramVec("queueing_hint_execution_duration_seconds",
		"Seconds of one queueing hint of a plugin.", metrics.ExponentialBuckets(0.00001, 1.5, 20),
		"plugin", "event", "hint")
	cacheSize = schedulerAlpha.gaugeVec("cache_size",
		"What the state in memory holds, by type: nodes, pods, assumed_pods.", "type")
	goroutines         = schedulerBeta.gaugeVec("goroutines", "Goroutines at work, by operation.", "operation")
	preemptionAttempts = schedulerStable.counter("preemption_attempts_total",
		"Pods that fit nowhere and were asked whether others could go for them.")
	preemptionVictims = schedulerStable.histogram("preemption_victims",
		"Pods that had to go for one.", metrics.ExponentialBuckets(1, 2, 7))
)

// ScheduleAttempt counts one attempt. Results that kube-scheduler does not have (an attempt abandoned after a
// conflict, for example) count in berth_attempts_without_result_total alone.
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

// PluginEvaluations counts calls of a plugin.
func PluginEvaluations(plugin, point, profile string, calls uint64) {
	pluginEvaluations.WithLabelValues(plugin, point, profile).Add(float64(calls))
}

// PermitWait observes a pod that had a node and waited until it could be bound there.
func PermitWait(result string, waited time.Duration) {
	permitWait.WithLabelValues(result).Observe(waited.Seconds())
}

// PendingPods sets how many pods wait in a queue: active, backoff, unschedulable, gated.
func PendingPods(queue string, pods int) { pendingPods.WithLabelValues(queue).Set(float64(pods)) }

// QueueIncoming counts pods put into a queue because of an event.
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

// UnschedulablePods adds change to the pods that a plugin holds back.
func UnschedulablePods(plugin, profile string, change int) {
	unschedulablePods.WithLabelValues(plugin, profile).Add(float64(change))
}

// CacheSize sets the number of objects of a type in the state: nodes, pods, assumed_pods.
func CacheSize(kind string, objects int) { cacheSize.WithLabelValues(kind).Set(float64(objects)) }

// Goroutines adds change to the goroutines at work on an operation.
func Goroutines(operation string, change int) {
	goroutines.WithLabelValues(operation).Add(float64(change))
}
