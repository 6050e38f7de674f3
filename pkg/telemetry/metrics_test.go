package telemetry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/berth-scheduler/berth/pkg/events"
)

// TestSchedulerMetrics compares names, labels, types and values with those of kube-scheduler.
func TestSchedulerMetrics(t *testing.T) {
	Register()
	Register()
	ScheduleAttempt(ResultScheduled, "default-scheduler", 3*time.Millisecond)
	ScheduleAttempt(ResultUnschedulable, "default-scheduler", time.Millisecond)
	ScheduleAttempt("conflict", "default-scheduler", time.Millisecond)
	PendingPods("active", 7)
	QueueIncoming("active", "UnschedulablePodAdd", 1)
	PodScheduled(1, 20*time.Millisecond)
	PodScheduled(14, time.Second)
	PodScheduled(20, time.Minute)
	UnschedulablePods("NodeResourcesFit", "default-scheduler", 2)
	UnschedulablePods("NodeResourcesFit", "default-scheduler", -1)
	CacheSize("nodes", 1000)
	Goroutines("Filter", 3)
	PodScheduledAfterFlush(2)
	QueueingHints("NodeAffinity", "NodeUpdateNodeLabel", true, 3, time.Millisecond)
	check(t, `
# HELP scheduler_schedule_attempts_total [STABLE] Number of attempts to schedule pods, by result.
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1
scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1
# HELP scheduler_pending_pods [STABLE] Number of pending pods, by queue: active, backoff, unschedulable, gated.
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 7
# HELP scheduler_queue_incoming_pods_total [STABLE] Number of pods added to a queue, by queue and event.
# TYPE scheduler_queue_incoming_pods_total counter
scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1
# HELP scheduler_unschedulable_pods [BETA] Number of unschedulable pods, by each plugin that rejected them.
# TYPE scheduler_unschedulable_pods gauge
scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1
# HELP scheduler_cache_size [ALPHA] Number of objects in the in-memory state, by type: nodes, pods, assumed_pods.
# TYPE scheduler_cache_size gauge
scheduler_cache_size{type="nodes"} 1000
# HELP scheduler_pod_scheduling_attempts [STABLE] Number of attempts to schedule a pod successfully.
# TYPE scheduler_pod_scheduling_attempts histogram
scheduler_pod_scheduling_attempts_bucket{le="1"} 1
scheduler_pod_scheduling_attempts_bucket{le="2"} 1
scheduler_pod_scheduling_attempts_bucket{le="4"} 1
scheduler_pod_scheduling_attempts_bucket{le="8"} 1
scheduler_pod_scheduling_attempts_bucket{le="16"} 2
scheduler_pod_scheduling_attempts_bucket{le="+Inf"} 3
scheduler_pod_scheduling_attempts_sum 35
scheduler_pod_scheduling_attempts_count 3
# HELP scheduler_pod_scheduled_after_flush_total [ALPHA] Number of pods placed by the periodic sweep, not by an event.
# TYPE scheduler_pod_scheduled_after_flush_total counter
scheduler_pod_scheduled_after_flush_total 2
`, "scheduler_schedule_attempts_total", "scheduler_pod_scheduled_after_flush_total",
		"scheduler_pending_pods", "scheduler_queue_incoming_pods_total",
		"scheduler_unschedulable_pods", "scheduler_cache_size", "scheduler_pod_scheduling_attempts")
	hints := queueingHintDuration.WithLabelValues("NodeAffinity", "NodeUpdateNodeLabel", "Queue")
	if got, err := testutil.GetHistogramMetricCount(hints); err != nil || got != 3 {
		t.Errorf("queueing_hint_execution_duration_seconds: %d, %v", got, err)
	}
	for _, label := range []string{"1", "14", "15+"} {
		if got, err := testutil.GetHistogramMetricCount(podSLIDuration.WithLabelValues(label)); err != nil || got != 1 {
			t.Errorf("pod_scheduling_sli_duration_seconds{attempts=%q}: %d, %v", label, got, err)
		}
	}
}

func TestBerthMetrics(t *testing.T) {
	Register()
	LedgerTxn("T1", "ok", time.Millisecond)
	Bind("ok", time.Millisecond)
	OffersOutstanding("scheduler-0", 5)
	FactLag("scheduler-0", 12)
	NodesUnusable("scheduler-0", 3)
	BusDropped(4)
	Conflict("node")
	NodeSearches(3, 1)
	for _, reason := range []string{"OutOfcpu", "OutOfexample.com/gpu", "Whim", "OutOfcpu"} {
		KubeletRejection(reason)
	}
	NodesLeftAlone("scheduler-0", "quarantine", 2)
	PodEvicted(Eviction{Result: "success", Strategy: "RemoveDuplicates", Profile: "p", Namespace: "shop", Node: "n1"})
	check(t, `
# HELP berth_ledger_txns_total [ALPHA] Transactions, by kind and result: ok, conflict, unknown (no answer), refused.
# TYPE berth_ledger_txns_total counter
berth_ledger_txns_total{result="ok",txn="T1"} 1
# HELP berth_offers_outstanding [ALPHA] Number of pods currently offered to a shard, by shard.
# TYPE berth_offers_outstanding gauge
berth_offers_outstanding{shard="scheduler-0"} 5
# HELP berth_bus_messages_dropped_total [ALPHA] Number of bus messages dropped because a subscription buffer was full.
# TYPE berth_bus_messages_dropped_total counter
berth_bus_messages_dropped_total 4
# HELP berth_conflicts_total [ALPHA] Number of conflicts lost, by subject: node, guard, keeper, pod, partition, budget.
# TYPE berth_conflicts_total counter
berth_conflicts_total{reason="node"} 1
# HELP berth_node_searches_total [ALPHA] Number of searches for a node, by nodes looked at: all, or the home nodes only.
# TYPE berth_node_searches_total counter
berth_node_searches_total{nodes="all"} 3
berth_node_searches_total{nodes="home"} 1
# HELP berth_kubelet_rejections_total [ALPHA] Number of bound pods that their kubelet rejected, by the kubelet's reason.
# TYPE berth_kubelet_rejections_total counter
berth_kubelet_rejections_total{reason="Other"} 1
berth_kubelet_rejections_total{reason="OutOfExtendedResources"} 1
berth_kubelet_rejections_total{reason="OutOfcpu"} 2
# HELP berth_nodes_left_alone [ALPHA] Number of nodes currently not used, by shard and reason: quarantine, doubt, turn.
# TYPE berth_nodes_left_alone gauge
berth_nodes_left_alone{member="scheduler-0",reason="quarantine"} 2
# HELP descheduler_pods_evicted_total [ALPHA] Number of evictions, by result, strategy, profile, namespace and node.
# TYPE descheduler_pods_evicted_total counter
descheduler_pods_evicted_total{namespace="shop",node="n1",profile="p",result="success",strategy="RemoveDuplicates"} 1
`, "berth_ledger_txns_total", "berth_offers_outstanding", "berth_bus_messages_dropped_total",
		"berth_conflicts_total", "berth_node_searches_total", "berth_kubelet_rejections_total", "berth_nodes_left_alone",
		"descheduler_pods_evicted_total")
}

// TestOldNames: the descheduler's measurements have no series under deprecated names, unless these are asked for.
func TestOldNames(t *testing.T) {
	Register()
	t.Cleanup(func() {
		oldNames.Store(false)
		for _, reset := range []func(){
			podsEvicted.Reset, strategyDuration.Reset, oldPodsEvicted.Reset, oldLoopDuration.Reset, oldStrategyDuration.Reset,
		} {
			reset()
		}
	})
	old := []string{
		"descheduler_pods_evicted", "descheduler_descheduler_loop_duration_seconds",
		"descheduler_descheduler_strategy_duration_seconds",
	}
	for _, on := range []bool{false, true} {
		oldNames.Store(on)
		PodEvicted(Eviction{Result: "success", Strategy: "s", Profile: "p", Namespace: "n", Node: "m"})
		DeschedulerLoop(time.Second)
		DeschedulerStrategy("s", "p", time.Second)
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		served := map[string]bool{}
		for _, f := range families {
			served[f.GetName()] = true
		}
		for _, name := range old {
			if served[name] != on {
				t.Errorf("old names %t: %s is served: %t", on, name, served[name])
			}
		}
		if !served["descheduler_pods_evicted_total"] || !served["descheduler_loop_duration_seconds"] {
			t.Errorf("old names %t: new names are missing", on)
		}
	}
}

// TestFirstOccurrenceIsAnIncrease checks that series exist before the first event: Prometheus sees no increase in a
// series that begins with 1.
func TestFirstOccurrenceIsAnIncrease(t *testing.T) {
	Register()
	for _, reset := range []func(){unreadable.Reset, refused.Reset, tooLarge.Reset} {
		reset()
	}
	initSeries(allServices, "")
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	kinds := slices.Collect(events.Kinds())
	for name, want := range map[string]int{
		"berth_log_unreadable_total": 4 * len(streams), "berth_log_refused_total": 4 * len(streams),
		"berth_objects_too_large_total": len(kinds) * len(sizeResults),
	} {
		if series[name] != want {
			t.Errorf("%s has %d series when a process starts, want %d", name, series[name], want)
		}
	}
}

// TestAuthenticationIsOffOnceEtcdSaysSo checks that there is no series until etcd has answered: until then,
// authentication is neither on nor off.
func TestAuthenticationIsOffOnceEtcdSaysSo(t *testing.T) {
	Register()
	ledgerAuthenticationOff.Reset()
	for _, want := range []string{"", "berth_ledger_authentication_off 0\n", "berth_ledger_authentication_off 1\n"} {
		if want != "" {
			LedgerAuthenticationOff(strings.HasSuffix(want, "1\n"))
			want = "# HELP berth_ledger_authentication_off [ALPHA] 1 while etcd does not authenticate clients " +
				"although this process presents a certificate, otherwise 0. The series appears with etcd's first answer; " +
				"a process without a client certificate for etcd does not check.\n" +
				"# TYPE berth_ledger_authentication_off gauge\n" + want
		}
		check(t, want, "berth_ledger_authentication_off")
	}
}

func check(t *testing.T, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
