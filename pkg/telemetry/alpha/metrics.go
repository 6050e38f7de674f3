package alpha

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/telemetry/internal/declare"
)

var (
	schedulerAlpha  = declare.Family{Prefix: "scheduler", Level: metrics.ALPHA}
	schedulerVolume = declare.Family{Prefix: "scheduler_volume", Level: metrics.ALPHA}
)

// The metrics, with kube-scheduler's names and labels.
var (
	eventHandling = schedulerAlpha.HistogramVec("event_handling_duration_seconds",
		"Duration of handling one event in the queue, in seconds: the mean of the events that were handled together.",
		metrics.ExponentialBuckets(0.0001, 2, 12), "event")
	inflightEvents = schedulerAlpha.GaugeVec("inflight_events",
		"Number of events that the leading queue keeps for pods that are being tried, by event.", "event")
	pendingCalls = schedulerAlpha.GaugeVec("pending_async_api_calls",
		"Number of API calls that wait for a worker of a binder, by type: pod_binding, pod_status_patch.", "call_type")
	calls = schedulerAlpha.CounterVec("async_api_call_execution_total",
		"Number of API calls that binders have sent, by type and result.", "call_type", "result")
	callDuration = schedulerAlpha.HistogramVec("async_api_call_execution_duration_seconds",
		"Duration of API calls of binders, in seconds.", metrics.ExponentialBuckets(0.001, 2, 15), "call_type", "result")
	conditionsAllocations = schedulerAlpha.CounterVec("dra_bindingconditions_allocations_total",
		"Number of allocated devices with binding conditions, by driver and outcome: success, failure (a device reports "+
			"that it will never be ready), timeout (the place was taken back before).", "profile", "driver", "status")
	conditionsWait = schedulerAlpha.HistogramVec("dra_bindingconditions_wait_duration_seconds",
		"Time for which a binder waited for the binding conditions of devices, in seconds, by driver and outcome.",
		metrics.ExponentialBuckets(0.1, 2, 14), "profile", "driver", "status")
	groupAttempts = schedulerAlpha.CounterVec("podgroup_schedule_attempts_total",
		"Number of attempts to place a gang, by result: scheduled (all that were needed have a reservation), unschedulable, "+
			"waiting_on_preemption (members hold places until other pods have left), error.", "result", "profile")
	groupAttemptDuration = schedulerAlpha.HistogramVec("podgroup_scheduling_attempt_duration_seconds",
		"Time from the offer of a gang to a shard to the end of the attempt, in seconds.",
		metrics.ExponentialBuckets(0.001, 2, 15), "result", "profile")
	groupAlgorithmDuration = schedulerAlpha.HistogramVec("podgroup_scheduling_algorithm_duration_seconds",
		"Time that a shard took to decide about all members of a gang, in seconds: the mean of the gangs of one step.",
		metrics.ExponentialBuckets(0.001, 2, 15))
	volumeErrors = schedulerVolume.CounterVec("scheduling_stage_error_total",
		"Number of times that the volumes of a pod could not be prepared, by operation: bind.", "operation")
)

// Types of calls, as kube-scheduler names them.
const (
	CallBinding     = "pod_binding"
	CallStatusPatch = "pod_status_patch"
)

// Outcomes of a wait for binding conditions, as kube-scheduler names them.
const (
	ConditionsMet     = "success"
	ConditionsFailed  = "failure"
	ConditionsTimeout = "timeout"
)

// EventsHandled observes events of one label, each of which took the duration each.
func EventsHandled(event string, number int, each time.Duration) {
	observer := eventHandling.WithLabelValues(event)
	for range number {
		observer.Observe(each.Seconds())
	}
}

// EventsInFlight sets the number of events of one label that the queue keeps.
func EventsInFlight(event string, number int) {
	inflightEvents.WithLabelValues(event).Set(float64(number))
}

// CallsPending adds change to the calls of a type that wait for a worker.
func CallsPending(call string, change int) {
	pendingCalls.WithLabelValues(call).Add(float64(change))
}

// CallSent observes a call to the API server.
func CallSent(call string, succeeded bool, took time.Duration) {
	result := "success"
	if !succeeded {
		result = "error"
	}
	calls.WithLabelValues(call, result).Inc()
	callDuration.WithLabelValues(call, result).Observe(took.Seconds())
}

// DeviceConditions counts an allocated device with binding conditions by the outcome of the wait for them.
func DeviceConditions(profile, driver, outcome string) {
	conditionsAllocations.WithLabelValues(profile, driver, outcome).Inc()
}

// DeviceConditionsWait observes how long a pod with an allocated device waited for binding conditions.
func DeviceConditionsWait(profile, driver, outcome string, waited time.Duration) {
	conditionsWait.WithLabelValues(profile, driver, outcome).Observe(waited.Seconds())
}

// GroupAttempt counts an attempt to place a gang, and observes its duration.
func GroupAttempt(result, profile string, took time.Duration) {
	groupAttempts.WithLabelValues(result, profile).Inc()
	groupAttemptDuration.WithLabelValues(result, profile).Observe(took.Seconds())
}

// GroupAlgorithm observes how long it took to decide about a gang.
func GroupAlgorithm(took time.Duration) {
	groupAlgorithmDuration.WithLabelValues().Observe(took.Seconds())
}

// VolumesNotBound counts a pod whose volumes could not be prepared.
func VolumesNotBound() { volumeErrors.WithLabelValues("bind").Inc() }

// StartBinder creates the series of a binder that exist from the start.
func StartBinder() {
	declare.Start(calls, []string{CallBinding, CallStatusPatch}, []string{"success", "error"})
	declare.Start(volumeErrors, []string{"bind"})
	CallsPending(CallBinding, 0)
	CallsPending(CallStatusPatch, 0)
}
