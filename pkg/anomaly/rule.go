package anomaly

import "time"

// Rule is a kind of anomaly. The set is closed: see Rules. The values are labels of the metric berth_anomalies.
type Rule string

const (
	// PodOverdue: a pod could be tried, or is being tried, for longer than that should take.
	PodOverdue Rule = "pod-overdue"
	// PreemptedAgain: pods of one workload are preempted, and so are those that replace them.
	PreemptedAgain Rule = "preempted-again"
	// PreemptsInVain: places are held for a pod repeatedly, and it does not get one.
	PreemptsInVain Rule = "preempts-in-vain"
	// BindsRejected: reservations of a pod end without a bind, or its kubelet turns it away.
	BindsRejected Rule = "binds-rejected"
	// FenceRefused: a reservation cannot be taken back, because the API server refuses what the binder has
	// to write for it.
	FenceRefused Rule = "fence-refused"
	// HoldOverdue: an entry of the ledger is older than it should be.
	HoldOverdue Rule = "hold-overdue"
	// CaughtBySweep: a parked pod was placed because of the sweep: no event had woken it, which is a defect of a hint.
	CaughtBySweep Rule = "caught-by-sweep"
)

// Rules are all rules, in the order in which they are reported.
var Rules = []Rule{PodOverdue, PreemptedAgain, PreemptsInVain, BindsRejected, FenceRefused, HoldOverdue, CaughtBySweep}

const (
	// Window is how long an event counts.
	Window = 10 * time.Minute
	// repeatLimit is how many times within Window are too many. A shard refuses preemption after three plans that
	// failed, and a binder repeats by itself the calls that the API server leaves open.
	repeatLimit = 3
	// OverdueTrying is how long a pod may be offered or reserved: a lease runs for seconds, a
	// bind gets 30 s and a fence as much.
	OverdueTrying = 2 * time.Minute
	// OverdueActive is how long a pod that is ready to be tried may wait for its turn.
	OverdueActive = 10 * time.Minute
	// overdueReservation bounds reservations. overdueWait bounds entries that wait for pods to terminate, which takes
	// as long as their grace periods, and for volumes to be provisioned or devices to be ready, which binders abandon
	// after ten minutes (by default).
	overdueReservation = 2 * time.Minute
	overdueWait        = 15 * time.Minute
	// maxNames bounds the names that are remembered for each rule: beyond it, the one whose last event is the oldest
	// is forgotten. maxListed bounds the findings that a rule lists; it counts them all.
	maxNames  = 4096
	maxListed = 5
)

// Finding is one anomaly.
type Finding struct {
	Rule Rule
	// About is a pod (namespace/name), or the UID of a workload's controller.
	About string
	// Since is when it began, or was first seen in the window.
	Since time.Time
	// Detail is a sentence for people.
	Detail string
}

// Report holds the findings of all rules at one time.
type Report struct {
	// Found counts by rule; rules that found nothing are there with 0.
	Found map[Rule]int
	// Findings are the first of each rule, in the order of Rules, the oldest first.
	Findings []Finding
}
