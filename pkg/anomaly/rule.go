package anomaly

import "time"

// Rule is something that should not be. The set is closed: see Rules.
type Rule string

const (
	// PodOverdue: a pod could be tried, or is being tried, and nothing comes of it.
	PodOverdue Rule = "pod-overdue"
	// PreemptedAgain: pods of one workload are preempted, and so are those that replace them.
	PreemptedAgain Rule = "preempted-again"
	// PreemptsInVain: places are held for a pod again and again, and it does not get one.
	PreemptsInVain Rule = "preempts-in-vain"
	// BindsRejected: reservations of a pod end without a bind, or its kubelet turns it away.
	BindsRejected Rule = "binds-rejected"
	// FenceRefused: a reservation cannot be taken back, because the API server refuses what the binder has
	// to write for it.
	FenceRefused Rule = "fence-refused"
	// HoldOverdue: an entry of the ledger is older than it should get.
	HoldOverdue Rule = "hold-overdue"
	// CaughtBySweep: a parked pod was placed because of the sweep: no event had woken it.
	CaughtBySweep Rule = "caught-by-sweep"
)

// Rules are all there are, in the order in which they are told.
var Rules = []Rule{PodOverdue, PreemptedAgain, PreemptsInVain, BindsRejected, FenceRefused, HoldOverdue, CaughtBySweep}

const (
	// Window is how long something that has happened counts.
	Window = 10 * time.Minute
	// repeatLimit is how many times within it are too many. A shard refuses preemption after three
	// that came to nothing, and a binder repeats what the API server leaves open by itself.
	repeatLimit = 3
	// OverdueTrying is how long a pod may be offered or reserved: a lease runs for seconds, a
	// bind gets 30 s and a fence as much.
	OverdueTrying = 2 * time.Minute
	// OverdueActive is how long a pod that is ready to be tried may wait for its turn.
	OverdueActive = 10 * time.Minute
	// overdueReservation bounds reservations; overdueWait what waits for pods to go, which takes as long as these have to
	// end, and for volumes to be made or devices to be ready, which binders give up on after ten minutes (by default).
	overdueReservation = 2 * time.Minute
	overdueWait        = 15 * time.Minute
	// maxNames bounds the names that are remembered for each rule, and maxListed those that a
	// rule lists; it counts them all.
	maxNames  = 4096
	maxListed = 5
)

// Finding is one thing that a rule has found.
type Finding struct {
	Rule Rule
	// About is a pod (namespace/name), or the UID of a workload's controller.
	About string
	// Since is when it began, or was first seen in the window.
	Since time.Time
	// Detail is a sentence for people.
	Detail string
}

// Report is what all rules have found.
type Report struct {
	// Found counts by rule; rules that found nothing are there with 0.
	Found map[Rule]int
	// Findings are the first of each rule, in the order of Rules, the oldest first.
	Findings []Finding
}
