package telemetry

import (
	"strings"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Metrics that only Berth has.
var (
	attemptsWithoutResult = berth.CounterVec("attempts_without_result_total",
		"Number of attempts that ended with a result that kube-scheduler does not have, by result.", "result", "profile")
	ledgerTxns = berth.CounterVec("ledger_txns_total",
		"Transactions, by kind and result: ok, conflict, unknown (no answer), refused.", "txn", "result")
	ledgerTxnDuration = berth.HistogramVec("ledger_txn_duration_seconds",
		"Duration of ledger transactions, in seconds.", metrics.ExponentialBuckets(0.0005, 2, 14), "txn", "result")
	binds = berth.CounterVec("binds_total",
		"Number of bind calls to the API server, by result.", "result")
	bindDuration = berth.HistogramVec("bind_duration_seconds",
		"Duration of bind calls, in seconds.", metrics.ExponentialBuckets(0.001, 2, 15), "result")
	offersOutstanding = berth.GaugeVec("offers_outstanding",
		"Number of pods currently offered to a shard, by shard.", "shard")
	offersEnded = berth.CounterVec("offers_ended_total",
		"Number of offers that ended without an answer, by reason: expired, returned.", "how")
	podsQuarantined = berth.Counter("pods_quarantined_total",
		"Number of pods quarantined because their attempts repeatedly ended without an answer.")
	partitionMoves = berth.CounterVec("partition_moves_total",
		"Number of partitions that the queue moved between shards, by reason: backlog, silent, gone, even.", "reason")
	factLag = berth.GaugeVec("fact_lag_records",
		"Number of messages of the log of facts, of one fact or several, that are not applied yet, by member.", "member")
	nodesUnusable = berth.GaugeVec("nodes_unusable",
		"Number of nodes that a member may not use until the facts it has applied reach their high-water "+
			"mark, by member.", "member")
	conflicts = berth.CounterVec("conflicts_total",
		"Number of conflicts lost, by subject: node, guard, keeper, pod, partition, budget.", "reason")
	nodeSearches = berth.CounterVec("node_searches_total",
		"Number of searches for a node, by nodes looked at: all, or the home nodes only.",
		"nodes")
	turnsGiven = berth.Counter("turns_total",
		"Number of turns that shards granted each other on contended nodes.")
	nodeNotices = berth.CounterVec("node_notices_total",
		"Number of findings of shards about nodes, by finding: quarantined, quarantine-ended, spared (the "+
			"limit on quarantined nodes is reached), doubted (the kubelet has less room), avoided (the kubelet "+
			"rejected a pod).", "what")
	nodesLeftAlone = berth.GaugeVec("nodes_left_alone",
		"Number of nodes currently not used, by shard and reason: quarantine, doubt, turn.", "member", "reason")
	kubeletRejections = berth.CounterVec("kubelet_rejections_total",
		"Number of bound pods that their kubelet rejected, by the kubelet's reason.", "reason")
	fencesRefused = berth.GaugeVec("fences_refused",
		"Number of reservations that cannot be cancelled because the API server keeps refusing the binder's "+
			"write, by binder.", "member")
	nodesMarked = berth.GaugeVec("nodes_marked",
		"Number of nodes with marks for cluster autoscalers, by the binder that holds their partitions and mark: "+
			"withheld (no pod is placed there for now), kept (not to be removed).", "member", "mark")
	nodeMarks = berth.CounterVec("node_marks_total",
		"Number of requests to change the marks of a node for cluster autoscalers, by result.", "result")
	batchSize = berth.HistogramVec("batch_size",
		"Batch sizes: pods per transaction (reservations), pods per message to a shard (offers).",
		metrics.ExponentialBuckets(1, 2, 10), "what")
	entryCount = berth.GaugeVec("ledger_entries",
		"Number of entries in the ledger, by role (reservation, victim, keeper, move) and state.", "role", "state")
	entryAge = berth.GaugeVec("ledger_oldest_entry_seconds",
		"Time for which the leading queue has seen the oldest entry, in seconds, by role and state.", "role", "state")
	budgetClaims = berth.GaugeVec("budget_claims",
		"Number of disruptions claimed from a PodDisruptionBudget and not yet visible in its status.", "namespace", "budget")
	evictions = berth.CounterVec("evictions_total",
		"Number of calls to evict a pod, by cause (preemption, descheduling) and result; dry runs are not "+
			"counted.", "cause", "result")
	loopsBroken = berth.CounterVec("loop_breaker_trips_total",
		"Number of actions not taken because they had repeatedly been in vain: preemption (plans refused), "+
			"descheduling (pods that had returned to the node from which they were moved).", "what")
	leads = berth.GaugeVec("leads",
		"1 for the leading replica of a service, 0 for the others.", "service")
	ledgerRenewed = berth.Counter("ledger_generations_total",
		"Number of new ledger generations that this process began because it could not rely on the state of "+
			"the ledger.")
	ledgerClosed = berth.Gauge("ledger_closed",
		"1 while a new ledger generation begins and nothing is placed, bound or evicted, otherwise 0.")
	dependencyUp = berth.GaugeVec("dependency_up",
		"1 while a dependency answers this process, 0 while it does not, by dependency (nats, etcd, "+
			"kubernetes). The series appears with the first answer.", "dependency")
	ledgerAuthenticationOff = berth.GaugeVec("ledger_authentication_off",
		"1 while etcd does not authenticate clients although this process presents a certificate, otherwise "+
			"0. The series appears with etcd's first answer; a process without a client certificate for etcd "+
			"does not check.")
	unreadable = berth.CounterVec("log_unreadable_total",
		"Number of records of the log that could not be decoded and were skipped, by service and stream.",
		"service", "stream")
	refused = berth.CounterVec("log_refused_total",
		"Number of messages that the log rejected and that were dropped, by service and stream.", "service", "stream")
	tooLarge = berth.CounterVec("objects_too_large_total",
		"Number of versions of Kubernetes objects that are too large for the log, by kind and outcome: "+
			"reduced (to what is needed to stay safe), left-out.", "kind", "result")
	anomalies = berth.GaugeVec("anomalies",
		"Number of anomalies, by rule; `berth status` lists them.", "rule")
	busDropped = berth.Counter("bus_messages_dropped_total",
		"Number of bus messages dropped because a subscription buffer was full.")
	spansEnded = berth.Counter("trace_spans_ended_total",
		"Number of recorded spans that ended. Spans that were neither exported nor are waiting were dropped.")
	spansExported = berth.CounterVec("trace_spans_exported_total",
		"Number of spans passed to the exporter, by result.", "result")
	plansEnded = berth.CounterVec("plans_total",
		"Number of preemption plans, by outcome: nominated, promoted (the pod has its place), displaced (a "+
			"more important pod took it), withdrawn (given up), refused (too many have been in vain).", "what")
	planDuration = berth.HistogramVec("plan_duration_seconds",
		"Time for which places were held for preempting pods, in seconds, by outcome: promoted, withdrawn.",
		metrics.ExponentialBuckets(0.01, 2, 16), "what")
	placesHeld = berth.GaugeVec("places_held",
		"Number of places that a shard holds for pods until their victims are gone, by shard.", "member")
	eventsWaiting = berth.GaugeVec("events_waiting",
		"Number of Kubernetes events that wait until binds leave capacity to send them, by binder.", "member")
)

// Metrics of the descheduler 0.36 with its names, labels and buckets (metrics/metrics.go).
var (
	podsEvicted = descheduler.CounterVec("pods_evicted_total",
		"Number of evictions, by result, strategy, profile, namespace and node.",
		"result", "strategy", "profile", "namespace", "node")
	deschedulerLoopDuration = descheduler.Histogram("loop_duration_seconds",
		"Duration of one descheduling cycle over all profiles, in seconds.",
		loopBuckets)
	strategyDuration = descheduler.HistogramVec("strategy_duration_seconds",
		"Duration of one strategy of a profile in one cycle, in seconds.",
		strategyBuckets, "strategy", "profile")
	deschedulerBuild = descheduler.GaugeVec("build_info",
		"Always 1, with the versions of the descheduler and of Go as labels; unknown values are empty.",
		"GoVersion", "AppVersion", "DeschedulerVersion", "GitBranch", "GitSha1")
	podsKept = berth.CounterVec("descheduler_kept_pods_total",
		"Number of pods that a strategy picked but that were not evicted, by the protection or guard that "+
			"kept them.",
		"strategy", "profile", "reason")
	podsReturned = berth.CounterVec("descheduler_pods_returned_total",
		"Number of pods placed on the node from which the pod that they replace was moved, by namespace.", "namespace")
)

// DependencyUp sets whether a dependency answers: nats, etcd or kubernetes. cmd/berth's watches call it after each
// probe.
func DependencyUp(dependency string, up bool) {
	dependencyUp.WithLabelValues(dependency).Set(oneIf(up))
}

// LedgerAuthenticationOff sets whether etcd does not authenticate its clients, from which the alert BerthLedgerOpen
// follows.
func LedgerAuthenticationOff(off bool) { ledgerAuthenticationOff.WithLabelValues().Set(oneIf(off)) }

// oneIf returns the value of a gauge that is 1 or 0.
func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// LedgerTxn counts one transaction of a kind (T1 to T14) with result ok, conflict, unknown or refused, and observes
// its duration. A transaction that is sent again after an unknown outcome counts once for each time it is sent.
func LedgerTxn(txn, result string, took time.Duration) {
	ledgerTxns.WithLabelValues(txn, result).Inc()
	ledgerTxnDuration.WithLabelValues(txn, result).Observe(took.Seconds())
}

// Bind counts one bind call and observes its duration. result is one of bindResults: done and already-here are
// successes.
func Bind(result string, took time.Duration) {
	binds.WithLabelValues(result).Inc()
	bindDuration.WithLabelValues(result).Observe(took.Seconds())
}

// OffersOutstanding sets how many pods are leased to a shard.
func OffersOutstanding(shard string, offers int) {
	offersOutstanding.WithLabelValues(shard).Set(float64(offers))
}

// OffersEnded counts offers that ended without an answer: expired, or returned untried.
func OffersEnded(expired, returned int) {
	offersEnded.WithLabelValues("expired").Add(float64(expired))
	offersEnded.WithLabelValues("returned").Add(float64(returned))
}

// PodsQuarantined counts pods put into quarantine.
func PodsQuarantined(pods int) { podsQuarantined.Add(float64(pods)) }

// PartitionMoved counts one partition that the queue assigns to another shard for a reason: its backlog is much larger
// than that of others, the shard is silent or gone, or the numbers of partitions are uneven.
func PartitionMoved(reason string) { partitionMoves.WithLabelValues(reason).Inc() }

// FactLag sets how many records a member is behind the end of the log.
func FactLag(member string, records uint64) { factLag.WithLabelValues(member).Set(float64(records)) }

// NodesUnusable sets how many nodes a member may not use because of their high-water mark.
func NodesUnusable(member string, nodes int) {
	nodesUnusable.WithLabelValues(member).Set(float64(nodes))
}

// Conflict counts one race that an attempt has lost; reason is the subject of the compare that failed (lossReasons).
func Conflict(reason string) { conflicts.WithLabelValues(reason).Inc() }

// NodeSearches counts searches for nodes: all looked at all nodes, home at the shard's home nodes only.
func NodeSearches(all, home int) {
	nodeSearches.WithLabelValues(searchScopes[0]).Add(float64(all))
	nodeSearches.WithLabelValues(searchScopes[1]).Add(float64(home))
}

// Plan counts the outcome of a plan (planEnds); held is how long the plan held a place, 0 if unknown, which is not
// observed.
func Plan(what string, held time.Duration) {
	plansEnded.WithLabelValues(what).Inc()
	if held > 0 {
		planDuration.WithLabelValues(what).Observe(held.Seconds())
	}
}

// EventsWaiting sets how many events a binder has still to write.
func EventsWaiting(member string, events int) {
	eventsWaiting.WithLabelValues(member).Set(float64(events))
}

// PlacesHeld sets for how many pods a shard holds a place.
func PlacesHeld(member string, places int) { placesHeld.WithLabelValues(member).Set(float64(places)) }

// TurnGiven counts a turn at a node.
func TurnGiven() { turnsGiven.Inc() }

// NodeNotice counts one notice of a shard about a node (notices).
func NodeNotice(what string) { nodeNotices.WithLabelValues(what).Inc() }

// NodesLeftAlone sets how many nodes a member does not use at present, for one reason: quarantine, doubt or turn. The
// caller sets every reason, so that one that has passed returns to 0.
func NodesLeftAlone(member, reason string, nodes int) {
	nodesLeftAlone.WithLabelValues(member, reason).Set(float64(nodes))
}

// ClaimCreated counts a claim for a pod's extended resources whose creation succeeded or failed.
func ClaimCreated(ok bool) {
	status := claimStatuses[1]
	if ok {
		status = claimStatuses[0]
	}
	claimsCreated.WithLabelValues(status).Inc()
}

// KubeletRejection counts a bound pod that its kubelet did not admit. Reasons that the kubelet's own metric does
// not name either are counted as the kubelet counts them.
func KubeletRejection(reason string) {
	switch {
	case namedRejections[reason]:
	case strings.HasPrefix(reason, "OutOf"):
		reason = "OutOfExtendedResources"
	default:
		reason = "Other"
	}
	kubeletRejections.WithLabelValues(reason).Inc()
}

// namedRejections bounds the label's values. Source: admissionRejectionReasons in pkg/kubelet/kubelet.go, and the
// filters that pkg/kubelet/lifecycle/predicate.go runs again.
var namedRejections = map[string]bool{
	"OutOfcpu": true, "OutOfmemory": true, "OutOfephemeral-storage": true, "OutOfpods": true,
	"NodeAffinity": true, "NodeName": true, "NodePorts": true, "TaintToleration": true,
	"UnexpectedAdmissionError": true, "TopologyAffinityError": true, "Evicted": true, "NodeShutdown": true,
	"AppArmor": true, "SysctlForbidden": true, "InvalidNodeInfo": true, "PodOSNotSupported": true,
	"PodOSSelectorNodeLabelDoesNotMatch": true, "PodFeatureUnsupported": true, "VolumeAttachmentLimitExceeded": true,
}

// FencesRefused sets how many reservations a binder cannot take back because the API server refuses its write.
func FencesRefused(member string, fences int) {
	fencesRefused.WithLabelValues(member).Set(float64(fences))
}

// NodesMarked sets how many nodes of a binder's partitions have marks for cluster autoscalers.
func NodesMarked(member string, withheld, kept int) {
	nodesMarked.WithLabelValues(member, "withheld").Set(float64(withheld))
	nodesMarked.WithLabelValues(member, "kept").Set(float64(kept))
}

// NodeMarked counts a request to change the marks of a node.
func NodeMarked(result string) { nodeMarks.WithLabelValues(result).Inc() }

// BatchSize observes the size of a batch in pods; what is reservations or offers.
func BatchSize(what string, size int) { batchSize.WithLabelValues(what).Observe(float64(size)) }

// LedgerEntries sets how many entries of a role and state there are, and the age of the oldest. The leading queue
// calls it, also with zeros for roles and states of which the last entry has gone.
func LedgerEntries(role, state string, entries int, oldest time.Duration) {
	entryCount.WithLabelValues(role, state).Set(float64(entries))
	entryAge.WithLabelValues(role, state).Set(oldest.Seconds())
}

// BudgetClaims sets the number of claims on a disruption budget; 0 deletes the series, since budgets come and go.
func BudgetClaims(namespace, name string, claims int) {
	if claims == 0 {
		budgetClaims.DeleteLabelValues(namespace, name)
		return
	}
	budgetClaims.WithLabelValues(namespace, name).Set(float64(claims))
}

// EvictionSent counts one call to evict a pod: cause is preemption or descheduling, result one of evictResults.
func EvictionSent(cause, result string) { evictions.WithLabelValues(cause, result).Inc() }

// LoopBroken counts actions that were not taken because they had failed before; what is preemption or descheduling.
func LoopBroken(what string, times int) { loopsBroken.WithLabelValues(what).Add(float64(times)) }

// Leads sets whether this process runs the leading replica of a service.
func Leads(service string, yes bool) { leads.WithLabelValues(service).Set(oneIf(yes)) }

// LedgerRenewed counts a new generation of the ledger.
func LedgerRenewed() { ledgerRenewed.Inc() }

// LedgerClosed sets whether the ledger is starting a new generation, in which nothing is placed, bound or evicted.
func LedgerClosed(yes bool) { ledgerClosed.Set(oneIf(yes)) }

// Unreadable counts one item in a stream of the log that a service cannot read. Use package unreadable, which also
// logs it.
func Unreadable(service string, stream eventlog.Stream) {
	unreadable.WithLabelValues(service, string(stream)).Inc()
}

// Refused counts messages that the log does not accept, such as those that are too large for it.
func Refused(service string, stream eventlog.Stream, messages int) {
	refused.WithLabelValues(service, string(stream)).Add(float64(messages))
}

// Outcomes for an object that is too large for the log.
const (
	ObjectReduced = "reduced"
	ObjectLeftOut = "left-out"
)

// ObjectTooLarge counts one version of an object that is too large for the log.
func ObjectTooLarge(kind events.Kind, result string) {
	tooLarge.WithLabelValues(string(kind), result).Inc()
}

// Anomalies sets the number of findings of a rule.
func Anomalies(rule string, found int) { anomalies.WithLabelValues(rule).Set(float64(found)) }

// BusDropped counts bus messages that were dropped.
func BusDropped(messages int) { busDropped.Add(float64(messages)) }

// Eviction is one eviction as the descheduler's metric reports it.
type Eviction struct {
	// Result is "success", "error", or the limit that was reached as the descheduler names it.
	Result                             string
	Strategy, Profile, Namespace, Node string
}

// PodEvicted counts one eviction.
func PodEvicted(e Eviction) {
	podsEvicted.WithLabelValues(e.Result, e.Strategy, e.Profile, e.Namespace, e.Node).Inc()
	if oldNames.Load() {
		oldPodsEvicted.WithLabelValues(e.Result, e.Strategy, e.Profile, e.Namespace, e.Node).Inc()
	}
}

// PodsKept counts pods that a strategy picked and that were not evicted for a reason.
func PodsKept(strategy, profile, reason string, pods int) {
	podsKept.WithLabelValues(strategy, profile, reason).Add(float64(pods))
}

// DeschedulerStrategy observes one strategy in one round.
func DeschedulerStrategy(strategy, profile string, took time.Duration) {
	strategyDuration.WithLabelValues(strategy, profile).Observe(took.Seconds())
	if oldNames.Load() {
		oldStrategyDuration.WithLabelValues(strategy, profile).Observe(took.Seconds())
	}
}

// PodReturned counts one pod that came back to the node it was moved away from.
func PodReturned(namespace string) { podsReturned.WithLabelValues(namespace).Inc() }

// DeschedulerLoop observes one round over all profiles.
func DeschedulerLoop(took time.Duration) {
	deschedulerLoopDuration.Observe(took.Seconds())
	if oldNames.Load() {
		oldLoopDuration.WithLabelValues().Observe(took.Seconds())
	}
}
