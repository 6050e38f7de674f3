package queue

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// vigilInterval is how often the ledger and the pods are searched for anomalies. A search takes milliseconds in a
// large cluster, and the rules' limits are minutes.
const vigilInterval = 5 * time.Second

// vigil searches for anomalies. Only the deciding goroutine uses it.
type vigil struct {
	watch *anomaly.Watch
	// since is when each entry of the ledger was first seen.
	since map[entryKey]time.Time
	// entries and budgets are the series that are currently exported: ledger entries by role and state, and
	// disruption budgets by namespace and name.
	entries map[[2]string]bool
	budgets map[[2]string]bool
	status  explain.QueueStatus
}

// entryKey identifies an entry in one of its states, so that each state has its own start time.
type entryKey struct {
	token ledger.Token
	pod   string
	role  ledger.Role
	state ledger.State
}

func keyOf(e ledger.Entry) entryKey { return entryKey{e.Token, e.PodUID, e.Role, e.State} }

func newVigil() *vigil {
	return &vigil{
		watch: anomaly.NewWatch(), since: map[entryKey]time.Time{},
		entries: map[[2]string]bool{}, budgets: map[[2]string]bool{},
	}
}

// decided records decisions of the log.
func (v *vigil) decided(b intake.DecisionBatch, facts *state.Snapshot) {
	if b.Shortened != nil {
		v.watch.Anew()
	}
	for i := range b.Decisions {
		d := &b.Decisions[i].Decision
		v.watch.Decided(*d, b.Times[i], workloadOf(facts, d.Pod.UID))
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

// look evaluates the rules. Without lead it only records since when entries exist.
func (v *vigil) look(ledgerView *replica.View, core *decide.Core, now time.Time, lead bool) {
	var waiting []anomaly.Waiting
	since := make(map[entryKey]time.Time, len(v.since))
	for doc := range ledgerView.Docs() {
		for _, e := range doc.Entries {
			key := keyOf(e)
			first, known := v.since[key]
			if !known {
				first = now
			}
			since[key] = first
			waiting = append(waiting, anomaly.Entry(doc, e, first))
		}
	}
	v.since = since
	if !lead {
		v.show(explain.QueueStatus{})
		return
	}
	s := explain.StatusOf(ledgerView, func(e ledger.Entry) time.Time { return since[keyOf(e)] }, now)
	s.Pools = map[string]int{}
	for pool, pods := range core.Pending() {
		s.Pools[string(pool)] = pods
	}
	s.Offered = core.Leased()
	s.Anomalies = v.watch.Findings(now, core.Overdue(now), waiting)
	v.show(s)
}

// show sets the gauges, and zeroes those of series that no longer exist.
func (v *vigil) show(s explain.QueueStatus) {
	v.status = s
	entries, budgets := map[[2]string]bool{}, map[[2]string]bool{}
	for _, e := range s.Entries {
		entries[[2]string{e.Role, e.State}] = true
		telemetry.LedgerEntries(e.Role, e.State, e.Count, e.Oldest)
	}
	for key := range v.entries {
		if !entries[key] {
			telemetry.LedgerEntries(key[0], key[1], 0, 0)
		}
	}
	for _, b := range s.Budgets {
		budgets[[2]string{b.Namespace, b.Name}] = true
		telemetry.BudgetClaims(b.Namespace, b.Name, b.Claims)
	}
	for key := range v.budgets {
		if !budgets[key] {
			telemetry.BudgetClaims(key[0], key[1], 0)
		}
	}
	v.entries, v.budgets = entries, budgets
	for _, rule := range anomaly.Rules {
		telemetry.Anomalies(string(rule), s.Anomalies.Found[rule])
	}
}
