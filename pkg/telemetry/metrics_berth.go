package telemetry

import (
	"strings"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Metrics that only Berth has.
var (
	attemptsWithoutResult = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "attempts_without_result_total",
		Help:           "Number of attempts that ended with a result that kube-scheduler does not have, by result.",
		StabilityLevel: metrics.ALPHA,
	}, "result", "profile")
	ledgerTxns = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "ledger_txns_total",
		Help:           "Transactions, by kind and result: ok, conflict, unknown (no answer), refused.",
		StabilityLevel: metrics.ALPHA,
	}, "txn", "result")
	ledgerTxnDuration = histogram(&metrics.HistogramOpts{
		Subsystem: berthSubsystem, Name: "ledger_txn_duration_seconds",
		Help:    "Duration of ledger transactions, in seconds.",
		Buckets: metrics.ExponentialBuckets(0.0005, 2, 14), StabilityLevel: metrics.ALPHA,
	}, "txn", "result")
	binds = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "binds_total",
		Help:           "Number of bind calls to the API server, by result.",
		StabilityLevel: metrics.ALPHA,
	}, "result")
	bindDuration = histogram(&metrics.HistogramOpts{
		Subsystem: berthSubsystem, Name: "bind_duration_seconds",
		Help:    "Duration of bind calls, in seconds.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15), StabilityLevel: metrics.ALPHA,
	}, "result")
	offersOutstanding = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "offers_outstanding",
		Help:           "Number of pods currently offered to a shard, by shard.",
		StabilityLevel: metrics.ALPHA,
	}, "shard")
	offersEnded = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "offers_ended_total",
		Help:           "Number of offers that ended without an answer, by reason: expired, returned.",
		StabilityLevel: metrics.ALPHA,
	}, "how")
	podsQuarantined = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "pods_quarantined_total",
		Help:           "Number of pods quarantined because their attempts repeatedly ended without an answer.",
		StabilityLevel: metrics.ALPHA,
	})
	partitionMoves = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "partition_moves_total",
		Help:           "Number of partitions that the queue moved between shards, by reason: backlog, silent, gone, even.",
		StabilityLevel: metrics.ALPHA,
	}, "reason")
	factLag = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "fact_lag_records",
		Help:           "Number of records between the last fact in the log and the last one applied, by member.",
		StabilityLevel: metrics.ALPHA,
	}, "member")
	nodesUnusable = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "nodes_unusable",
		Help: "Number of nodes that a member may not use until the facts it has applied reach their " +
			"high-water mark, by member.",
		StabilityLevel: metrics.ALPHA,
	}, "member")
	conflicts = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "conflicts_total",
		Help:           "Number of conflicts lost, by subject: node, guard, keeper, pod, partition, budget.",
		StabilityLevel: metrics.ALPHA,
	}, "reason")
	turnsGiven = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "turns_total",
		Help:           "Number of turns that shards granted each other on contended nodes.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeNotices = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "node_notices_total",
		Help: "Number of findings of shards about nodes, by finding: quarantined, quarantine-ended, spared (the limit on " +
			"quarantined nodes is reached), doubted (the kubelet has less room), avoided (the kubelet rejected a pod).",
		StabilityLevel: metrics.ALPHA,
	}, "what")
	nodesLeftAlone = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "nodes_left_alone",
		Help:           "Number of nodes currently not used, by shard and reason: quarantine, doubt, turn.",
		StabilityLevel: metrics.ALPHA,
	}, "member", "reason")
	kubeletRejections = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "kubelet_rejections_total",
		Help:           "Number of bound pods that their kubelet rejected, by the kubelet's reason.",
		StabilityLevel: metrics.ALPHA,
	}, "reason")
	fencesRefused = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "fences_refused",
		Help: "Number of reservations that cannot be cancelled because the API server keeps refusing the binder's " +
			"write, by " +
			"binder.",
		StabilityLevel: metrics.ALPHA,
	}, "member")
	batchSize = histogram(&metrics.HistogramOpts{
		Subsystem: berthSubsystem, Name: "batch_size",
		Help:    "Batch sizes: pods per transaction (reservations), pods per message to a shard (offers).",
		Buckets: metrics.ExponentialBuckets(1, 2, 10), StabilityLevel: metrics.ALPHA,
	}, "what")
	promises = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "ledger_entries",
		Help:           "Number of entries in the ledger, by role (reservation, victim, keeper, move) and state.",
		StabilityLevel: metrics.ALPHA,
	}, "role", "state")
	promiseAge = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "ledger_oldest_entry_seconds",
		Help:           "Time for which the leading queue has seen the oldest entry, in seconds, by role and state.",
		StabilityLevel: metrics.ALPHA,
	}, "role", "state")
	budgetClaims = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "budget_claims",
		Help:           "Number of disruptions claimed from a PodDisruptionBudget and not yet visible in its status.",
		StabilityLevel: metrics.ALPHA,
	}, "namespace", "budget")
	evictions = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "evictions_total",
		Help: "Number of calls to evict a pod, by cause (preemption, descheduling) and result; dry runs are " +
			"not counted.",
		StabilityLevel: metrics.ALPHA,
	}, "cause", "result")
	loopsBroken = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "loop_breaker_trips_total",
		Help: "Number of actions not taken because they had repeatedly been in vain: preemption (plans refused), " +
			"descheduling " +
			"(pods that had returned to the node from which they were moved).",
		StabilityLevel: metrics.ALPHA,
	}, "what")
	leads = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "leads",
		Help:           "1 for the leading replica of a service, 0 for the others.",
		StabilityLevel: metrics.ALPHA,
	}, "service")
	ledgerRenewed = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "ledger_generations_total",
		Help: "Number of new ledger generations that this process began because it could not rely on the " +
			"state of the ledger.",
		StabilityLevel: metrics.ALPHA,
	})
	ledgerClosed = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "ledger_closed",
		Help:           "1 while a new ledger generation begins and nothing is placed, bound or evicted, otherwise 0.",
		StabilityLevel: metrics.ALPHA,
	})
	dependencyUp = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "dependency_up",
		Help: "1 while a dependency answers this process, 0 while it does not, by dependency (nats, etcd, kubernetes). The " +
			"series appears with the first answer.",
		StabilityLevel: metrics.ALPHA,
	}, "dependency")
	ledgerAuthenticationOff = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "ledger_authentication_off",
		Help: "1 while etcd does not authenticate clients although this process presents a certificate, otherwise 0. " +
			"The series " +
			"appears with etcd's first answer; a process without a client certificate for etcd does not check.",
		StabilityLevel: metrics.ALPHA,
	})
	unreadable = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "log_unreadable_total",
		Help:           "Number of records of the log that could not be decoded and were skipped, by service and stream.",
		StabilityLevel: metrics.ALPHA,
	}, "service", "stream")
	refused = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "log_refused_total",
		Help:           "Number of messages that the log rejected and that were dropped, by service and stream.",
		StabilityLevel: metrics.ALPHA,
	}, "service", "stream")
	tooLarge = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "objects_too_large_total",
		Help: "Number of versions of Kubernetes objects that are too large for the log, by kind and outcome: reduced " +
			"(to what " +
			"is needed to stay safe), left-out.",
		StabilityLevel: metrics.ALPHA,
	}, "kind", "result")
	anomalies = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "anomalies",
		Help:           "Number of anomalies, by rule; `berth status` lists them.",
		StabilityLevel: metrics.ALPHA,
	}, "rule")
	busDropped = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "bus_messages_dropped_total",
		Help:           "Number of bus messages dropped because a subscription buffer was full.",
		StabilityLevel: metrics.ALPHA,
	})
	spansEnded = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "trace_spans_ended_total",
		Help:           "Number of recorded spans that ended. Spans that were neither exported nor are waiting were dropped.",
		StabilityLevel: metrics.ALPHA,
	})
	spansExported = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "trace_spans_exported_total",
		Help:           "Number of spans passed to the exporter, by result.",
		StabilityLevel: metrics.ALPHA,
	}, "result")
	plansEnded = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "plans_total",
		Help: "Number of preemption plans, by outcome: nominated, promoted (the pod has its place), displaced (a more " +
			"important " +
			"pod took it), withdrawn (given up), refused (too many have been in vain).",
		StabilityLevel: metrics.ALPHA,
	}, "what")
	planDuration = histogram(&metrics.HistogramOpts{
		Subsystem: berthSubsystem, Name: "plan_duration_seconds",
		Help:    "Time for which places were held for preempting pods, in seconds, by outcome: promoted, withdrawn.",
		Buckets: metrics.ExponentialBuckets(0.01, 2, 16), StabilityLevel: metrics.ALPHA,
	}, "what")
	placesHeld = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "places_held",
		Help:           "Number of places that a shard holds for pods until their victims are gone, by shard.",
		StabilityLevel: metrics.ALPHA,
	}, "member")
	eventsWaiting = gauge(&metrics.GaugeOpts{
		Subsystem: berthSubsystem, Name: "events_waiting",
		Help:           "Number of Kubernetes events that wait until binds leave capacity to send them, by binder.",
		StabilityLevel: metrics.ALPHA,
	}, "member")

	berthMetrics = []metrics.Registerable{
		attemptsWithoutResult, ledgerTxns, ledgerTxnDuration, binds, bindDuration, offersOutstanding, offersEnded,
		plansEnded, planDuration, placesHeld, eventsWaiting, conflicts, turnsGiven, nodeNotices, nodesLeftAlone,
		kubeletRejections, fencesRefused,
		podsQuarantined, partitionMoves, factLag, nodesUnusable, busDropped, spansEnded, spansExported,
		batchSize, promises, promiseAge, budgetClaims, evictions, loopsBroken, leads, ledgerRenewed, ledgerClosed, anomalies,
		dependencyUp, ledgerAuthenticationOff, unreadable, refused, tooLarge,
	}
)

// Metrics of the descheduler 0.36 with its names, labels and buckets (metrics/metrics.go).
var (
	podsEvicted = counter(&metrics.CounterOpts{
		Subsystem: deschedulerSubsystem, Name: "pods_evicted_total",
		Help:           "Number of evictions, by result, strategy, profile, namespace and node.",
		StabilityLevel: metrics.ALPHA,
	}, "result", "strategy", "profile", "namespace", "node")
	deschedulerLoopDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: deschedulerSubsystem, Name: "loop_duration_seconds",
		Help:           "Duration of one descheduling cycle over all profiles, in seconds.",
		Buckets:        []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500},
		StabilityLevel: metrics.ALPHA,
	})
	strategyDuration = histogram(&metrics.HistogramOpts{
		Subsystem: deschedulerSubsystem, Name: "strategy_duration_seconds",
		Help:           "Duration of one strategy of a profile in one cycle, in seconds.",
		Buckets:        []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100},
		StabilityLevel: metrics.ALPHA,
	}, "strategy", "profile")
	deschedulerBuild = gauge(&metrics.GaugeOpts{
		Subsystem: deschedulerSubsystem, Name: "build_info",
		Help:           "Always 1, with the versions of the descheduler and of Go as labels; unknown values are empty.",
		StabilityLevel: metrics.ALPHA,
	}, "GoVersion", "AppVersion", "DeschedulerVersion", "GitBranch", "GitSha1")
	podsKept = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "descheduler_kept_pods_total",
		Help: "Number of pods that a strategy picked but that were not evicted, by the protection or guard " +
			"that kept them.",
		StabilityLevel: metrics.ALPHA,
	}, "strategy", "profile", "reason")
	podsReturned = counter(&metrics.CounterOpts{
		Subsystem: berthSubsystem, Name: "descheduler_pods_returned_total",
		Help:           "Number of pods placed on the node from which the pod that they replace was moved, by namespace.",
		StabilityLevel: metrics.ALPHA,
	}, "namespace")
	deschedulerMetrics = []metrics.Registerable{
		podsEvicted, deschedulerLoopDuration, strategyDuration, deschedulerBuild, podsKept, podsReturned,
	}
)

// DependencyUp sets whether a dependency answers: nats, etcd or kubernetes.
func DependencyUp(dependency string, up bool) {
	dependencyUp.WithLabelValues(dependency).Set(oneIf(up))
}

// LedgerAuthenticationOff sets whether etcd does not authenticate its clients.
func LedgerAuthenticationOff(off bool) { ledgerAuthenticationOff.WithLabelValues().Set(oneIf(off)) }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// LedgerTxn counts one transaction of a kind (T1 to T14) with result ok, conflict, unknown or refused.
func LedgerTxn(txn, result string, took time.Duration) {
	ledgerTxns.WithLabelValues(txn, result).Inc()
	ledgerTxnDuration.WithLabelValues(txn, result).Observe(took.Seconds())
}

// Bind counts one bind call.
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

// PartitionMoved counts one partition that the queue assigns to another shard for a reason.
func PartitionMoved(reason string) { partitionMoves.WithLabelValues(reason).Inc() }

// FactLag sets how many records a member is behind the end of the log.
func FactLag(member string, records uint64) { factLag.WithLabelValues(member).Set(float64(records)) }

// NodesUnusable sets how many nodes a member may not use because of their high-water mark.
func NodesUnusable(member string, nodes int) {
	nodesUnusable.WithLabelValues(member).Set(float64(nodes))
}

// Conflict counts one race that an attempt has lost.
func Conflict(reason string) { conflicts.WithLabelValues(reason).Inc() }

// Plan counts the outcome of a plan; held is how long the plan held a place, 0 if unknown.
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

// NodeNotice counts one notice of a shard about a node.
func NodeNotice(what string) { nodeNotices.WithLabelValues(what).Inc() }

// NodesLeftAlone sets how many nodes a member does not use at present.
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

// BatchSize observes the size of a batch: of reservations or offers.
func BatchSize(what string, size int) { batchSize.WithLabelValues(what).Observe(float64(size)) }

// LedgerEntries sets how many entries of a role and state there are, and the age of the oldest.
func LedgerEntries(role, state string, entries int, oldest time.Duration) {
	promises.WithLabelValues(role, state).Set(float64(entries))
	promiseAge.WithLabelValues(role, state).Set(oldest.Seconds())
}

// BudgetClaims sets the number of claims on a disruption budget; 0 deletes the series.
func BudgetClaims(namespace, name string, claims int) {
	if claims == 0 {
		budgetClaims.DeleteLabelValues(namespace, name)
		return
	}
	budgetClaims.WithLabelValues(namespace, name).Set(float64(claims))
}

// EvictionSent counts one call to evict a pod.
func EvictionSent(cause, result string) { evictions.WithLabelValues(cause, result).Inc() }

// LoopBroken counts actions that were not taken because they had failed before.
func LoopBroken(what string, times int) { loopsBroken.WithLabelValues(what).Add(float64(times)) }

// Leads sets whether this process runs the leading replica of a service.
func Leads(service string, yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	leads.WithLabelValues(service).Set(value)
}

// LedgerRenewed counts a new generation of the ledger.
func LedgerRenewed() { ledgerRenewed.Inc() }

// LedgerClosed sets whether the ledger is starting a new generation.
func LedgerClosed(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	ledgerClosed.Set(value)
}

// Unreadable counts one item in a stream of the log that a service cannot read.
func Unreadable(service string, stream events.Stream) {
	unreadable.WithLabelValues(service, string(stream)).Inc()
}

// Refused counts messages that the log does not accept.
func Refused(service string, stream events.Stream, messages int) {
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
}

// PodsKept counts pods that a strategy picked and that were not evicted for a reason.
func PodsKept(strategy, profile, reason string, pods int) {
	podsKept.WithLabelValues(strategy, profile, reason).Add(float64(pods))
}

// DeschedulerStrategy observes one strategy in one round.
func DeschedulerStrategy(strategy, profile string, took time.Duration) {
	strategyDuration.WithLabelValues(strategy, profile).Observe(took.Seconds())
}

// PodReturned counts one pod that came back to the node it was moved away from.
func PodReturned(namespace string) { podsReturned.WithLabelValues(namespace).Inc() }

// DeschedulerLoop observes one round over all profiles.
func DeschedulerLoop(took time.Duration) { deschedulerLoopDuration.Observe(took.Seconds()) }
