package telemetry

import (
	"runtime"

	"github.com/berth-scheduler/berth/pkg/events"
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
	lossReasons   = []string{"node", "guard", "keeper", "pod", "partition", "budget"}
	planEnds      = []string{"nominated", "promoted", "displaced", "withdrawn", "refused"}
	bindResults   = []string{"done", "already-here", "elsewhere", "gone", "moved", "throttled", "refused", "unknown"}
	claimStatuses = []string{"success", "failure"}
	evictCauses   = []string{"preemption", "descheduling"}
	evictResults  = []string{"done", "throttled", "refused", "gone", "unknown"}
	moveReasons   = []string{"backlog", "silent", "gone", "even"}
	notices       = []string{"quarantined", "quarantine-ended", "spared", "doubted", "avoided"}
	rejections    = []string{"OutOfcpu", "OutOfmemory", "Other"}
	exportResults = []string{"ok", "error"}
	usualPromises = [][2]string{
		{"reservation", "committed"}, {"reservation", "held"}, {"reservation", "fencing"},
		{"victim", "evicting"}, {"move", "none"},
	}
	offerEnds   = []string{"expired", "returned"}
	streams     = []events.Stream{events.Facts, events.Decisions, events.Ledger}
	sizeResults = []string{ObjectReduced, ObjectLeftOut}
)

// begin creates the series of a service's metrics that exist from the start.
func begin(service, version string) {
	for _, result := range exportResults {
		spansExported.WithLabelValues(result).Add(0)
	}
	for name, start := range map[string]func(){
		"queue": beginQueue, "scheduler": beginScheduler, "binder": beginBinder,
		"descheduler": func() { beginDescheduler(version) },
	} {
		if service == name || service == allServices {
			start()
			beginStreams(name)
		}
	}
}

func beginStreams(service string) {
	for _, stream := range streams {
		unreadable.WithLabelValues(service, string(stream)).Add(0)
		Refused(service, stream, 0)
	}
}

func beginQueue() {
	for kind := range events.Kinds() {
		for _, result := range sizeResults {
			tooLarge.WithLabelValues(string(kind), result).Add(0)
		}
	}
	Leads("queue", false)
	for _, reason := range moveReasons {
		partitionMoves.WithLabelValues(reason).Add(0)
	}
	for _, how := range offerEnds {
		offersEnded.WithLabelValues(how).Add(0)
	}
	batchSize.WithLabelValues("offers")
	for _, p := range usualPromises {
		LedgerEntries(p[0], p[1], 0, 0)
	}
}

func beginScheduler() {
	beginTxns(shardTxns)
	for _, reason := range lossReasons {
		conflicts.WithLabelValues(reason).Add(0)
	}
	for _, what := range planEnds {
		plansEnded.WithLabelValues(what).Add(0)
	}
	for _, what := range notices {
		nodeNotices.WithLabelValues(what).Add(0)
	}
	loopsBroken.WithLabelValues("preemption").Add(0)
	batchSize.WithLabelValues("reservations")
}

func beginBinder() {
	beginTxns(binderTxns)
	for _, result := range bindResults {
		binds.WithLabelValues(result).Add(0)
	}
	for _, status := range claimStatuses {
		claimsCreated.WithLabelValues(status).Add(0)
	}
	for _, cause := range evictCauses {
		for _, result := range evictResults {
			evictions.WithLabelValues(cause, result).Add(0)
		}
	}
	for _, reason := range rejections {
		kubeletRejections.WithLabelValues(reason).Add(0)
	}
}

func beginDescheduler(version string) {
	loopsBroken.WithLabelValues("descheduling").Add(0)
	deschedulerBuild.WithLabelValues(runtime.Version(), version, version, "", "").Set(1)
}

func beginTxns(kinds []string) {
	for _, txn := range kinds {
		for _, result := range txnResults {
			ledgerTxns.WithLabelValues(txn, result).Add(0)
		}
		ledgerTxnDuration.WithLabelValues(txn, "ok")
	}
}

// BeginProfile creates the series of a profile that exist from the start.
func BeginProfile(name string) {
	for _, result := range []string{ResultScheduled, ResultUnschedulable, ResultError} {
		scheduleAttempts.WithLabelValues(result, name).Add(0)
	}
}
