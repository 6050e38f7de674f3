package watchdog

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// Interval is how often the ledger and the pods are searched for anomalies. A search takes milliseconds in a
// large cluster, and the rules' limits are minutes.
const Interval = 5 * time.Second

// Monitor searches for anomalies. It is for one goroutine.
type Monitor struct {
	watch *anomaly.Watch
	// since is when each entry of the ledger was first seen.
	since map[entryKey]time.Time
	// entries and budgets are the series that are currently exported: ledger entries by role and state, and
	// disruption budgets by namespace and name.
	entries map[[2]string]bool
	budgets map[[2]string]bool
	status  explain.QueueStatus
}

// Core is the port to the queue's core.
type Core interface {
	// Pending counts the pods of each pool, and Leased the leases of each shard.
	Pending() map[waiting.Pool]int
	Leased() map[string]int
	// Overdue returns the pods that have been active or offered for too long.
	Overdue(now time.Time) []anomaly.TimedState
}

// entryKey identifies an entry in one of its states, so that each state has its own start time.
type entryKey struct {
	token ledger.Token
	pod   string
	role  ledger.Role
	state ledger.State
}

func keyOf(e ledger.Entry) entryKey { return entryKey{e.Token, e.PodUID, e.Role, e.State} }

// New returns a monitor that has seen nothing.
func New() *Monitor {
	return &Monitor{
		watch: anomaly.NewWatch(), since: map[entryKey]time.Time{},
		entries: map[[2]string]bool{}, budgets: map[[2]string]bool{},
	}
}

// Record counts decisions of the log, for the rules about workloads.
func (m *Monitor) Record(b intake.DecisionBatch, facts *state.Snapshot) {
	if b.LostTail != nil {
		m.watch.Reset()
	}
	for i := range b.Decisions {
		d := &b.Decisions[i].Decision
		m.watch.RecordDecision(*d, b.Times[i], workloadOf(facts, d.Pod.UID))
	}
}

// workloadOf returns the workload of a pod, or the zero value if the facts do not show the pod (any more).
func workloadOf(facts *state.Snapshot, uid string) anomaly.Workload {
	pod, known := facts.Pod(uid)
	if !known || pod.Template == nil {
		return anomaly.Workload{}
	}
	w := anomaly.Workload{Owner: uid, Created: pod.Created().Time}
	if owner := metav1.GetControllerOfNoCopy(pod.Template); owner != nil {
		w.Owner = string(owner.UID)
	}
	return w
}

// Evaluate applies the rules and exports what they find. Without lead it only records since when entries exist.
func (m *Monitor) Evaluate(ledgerView *replica.View, core Core, now time.Time, lead bool) {
	var entries []anomaly.TimedState
	since := make(map[entryKey]time.Time, len(m.since))
	for doc := range ledgerView.Docs() {
		for _, e := range doc.Entries {
			key := keyOf(e)
			first, known := m.since[key]
			if !known {
				first = now
			}
			since[key] = first
			entries = append(entries, anomaly.Entry(doc, e, first))
		}
	}
	m.since = since
	if !lead {
		m.show(explain.QueueStatus{})
		return
	}
	s := explain.StatusOf(ledgerView, func(e ledger.Entry) time.Time { return since[keyOf(e)] }, now)
	s.Pools = map[string]int{}
	for pool, pods := range core.Pending() {
		s.Pools[string(pool)] = pods
	}
	s.Offered = core.Leased()
	s.Anomalies = m.watch.Findings(now, core.Overdue(now), entries)
	m.show(s)
}

// Caught counts pods that only the periodic flush woke and that were then placed, at a time.
func (m *Monitor) Caught(pods int, at time.Time) { m.watch.RecordSweep(pods, at) }

// Status returns the findings of the last evaluation; the zero value if this replica did not lead then.
func (m *Monitor) Status() explain.QueueStatus { return m.status }

// show sets the gauges, and zeroes those of series that no longer exist.
func (m *Monitor) show(s explain.QueueStatus) {
	m.status = s
	entries, budgets := map[[2]string]bool{}, map[[2]string]bool{}
	for _, e := range s.Entries {
		entries[[2]string{e.Role, e.State}] = true
		telemetry.LedgerEntries(e.Role, e.State, e.Count, e.Oldest)
	}
	for key := range m.entries {
		if !entries[key] {
			telemetry.LedgerEntries(key[0], key[1], 0, 0)
		}
	}
	for _, b := range s.Budgets {
		budgets[[2]string{b.Namespace, b.Name}] = true
		telemetry.BudgetClaims(b.Namespace, b.Name, b.Claims)
	}
	for key := range m.budgets {
		if !budgets[key] {
			telemetry.BudgetClaims(key[0], key[1], 0)
		}
	}
	m.entries, m.budgets = entries, budgets
	for _, rule := range anomaly.Rules {
		telemetry.Anomalies(string(rule), s.Anomalies.Found[rule])
	}
}
