package telemetry

import (
	"runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/pkg/telemetry/internal/declare"
)

// allServices is the name of a process that runs all services (Config.Service).
const allServices = "berth"

// Label values whose series all exist from the start, at zero: an alert on the rate of an event that has not
// happened yet must evaluate to zero, not to no data. Series with labels that depend on the cluster (namespaces,
// members, plugins) appear with their first event.
var (
	txnResults    = []string{"ok", "conflict", "unknown"}
	shardTxns     = []string{"T1", "T2", "T3", "T4", "T8", "T11"}
	binderTxns    = []string{"T5", "T6", "T7", "T14"}
	searchScopes  = []string{"all", "home"}
	lossReasons   = []string{"node", "guard", "keeper", "pod", "partition", "budget"}
	planEnds      = []string{"nominated", "promoted", "displaced", "withdrawn", "refused"}
	bindResults   = []string{"done", "already-here", "elsewhere", "gone", "moved", "throttled", "refused", "unknown"}
	claimStatuses = []string{"success", "failure"}
	evictCauses   = []string{"preemption", "descheduling"}
	evictResults  = []string{"done", "throttled", "refused", "gone", "unknown", "background"}
	markResults   = []string{"done", "refused", "gone", "unknown"}
	moveReasons   = []string{"backlog", "silent", "gone", "even"}
	notices       = []string{"quarantined", "quarantine-ended", "spared", "doubted", "avoided"}
	rejections    = []string{"OutOfcpu", "OutOfmemory", "Other"}
	exportResults = []string{"ok", "error"}
	usualEntries  = [][2]string{
		{"reservation", "committed"}, {"reservation", "held"}, {"reservation", "fencing"},
		{"victim", "evicting"}, {"move", "none"},
	}
	offerEnds   = []string{"expired", "returned"}
	streams     = []string{string(eventlog.Facts), string(eventlog.Decisions), string(eventlog.Ledger)}
	sizeResults = []string{ObjectReduced, ObjectLeftOut}
)

// initSeries creates the series of a service's metrics that exist from the start. Setup calls it after Register. A
// process with all services has the series of each.
func initSeries(service, version string) {
	declare.Start(spansExported, exportResults)
	for name, start := range map[string]func(){
		"queue": initQueue, "scheduler": initScheduler, "binder": initBinder,
		"descheduler": func() { initDescheduler(version) },
	} {
		if service == name || service == allServices {
			start()
			declare.Start(unreadable, []string{name}, streams)
			declare.Start(refused, []string{name}, streams)
		}
	}
}

// initQueue and the functions after it create the series of one service.
func initQueue() {
	for kind := range events.Kinds() {
		declare.Start(tooLarge, []string{string(kind)}, sizeResults)
	}
	Leads("queue", false)
	declare.Start(partitionMoves, moveReasons)
	declare.Start(offersEnded, offerEnds)
	batchSize.WithLabelValues("offers")
	for _, p := range usualEntries {
		LedgerEntries(p[0], p[1], 0, 0)
	}
}

// initScheduler creates the series of a shard.
func initScheduler() {
	initTxns(shardTxns)
	declare.Start(conflicts, lossReasons)
	declare.Start(nodeSearches, searchScopes)
	declare.Start(plansEnded, planEnds)
	declare.Start(nodeNotices, notices)
	declare.Start(loopsBroken, []string{"preemption"})
	batchSize.WithLabelValues("reservations")
}

// initBinder creates the series of a binder.
func initBinder() {
	initTxns(binderTxns)
	declare.Start(binds, bindResults)
	declare.Start(claimsCreated, claimStatuses)
	declare.Start(evictions, evictCauses, evictResults)
	declare.Start(kubeletRejections, rejections)
	alpha.StartBinder()
	declare.Start(nodeMarks, markResults)
}

// initDescheduler creates the series of the descheduler, with the version in its build info.
func initDescheduler(version string) {
	declare.Start(loopsBroken, []string{"descheduling"})
	deschedulerBuild.WithLabelValues(runtime.Version(), version, version, "", "").Set(1)
}

// initTxns creates the series of the transactions that a service sends.
func initTxns(kinds []string) {
	declare.Start(ledgerTxns, kinds, txnResults)
	for _, txn := range kinds {
		ledgerTxnDuration.WithLabelValues(txn, "ok")
	}
}

// InitProfile creates the series of a profile that exist from the start.
func InitProfile(name string) {
	declare.Start(scheduleAttempts, []string{ResultScheduled, ResultUnschedulable, ResultError}, []string{name})
}
