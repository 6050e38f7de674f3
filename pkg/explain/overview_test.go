package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// noon is the current time of these tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// statusOfQueue returns the status of a small Berth with two shards, one of which does not answer.
func statusOfQueue() *QueueAnswer {
	return &QueueAnswer{Member: "queue-a", FactSequence: 100, Status: &QueueStatus{
		Pools: map[string]int{"active": 3, "parked": 2}, Offered: map[string]int{"scheduler-0-a": 4},
		Members: []MemberStatus{
			{Role: "queue", ID: "queue-a", Started: noon.Add(-time.Hour)},
			{Role: "scheduler", ID: "scheduler-0-a", Started: noon.Add(-time.Minute), Partitions: 200},
			{Role: "scheduler", ID: "scheduler-1-b", Started: noon.Add(-time.Minute), Partitions: 56},
			{Role: "binder", ID: "binder-0-a", Started: noon.Add(-time.Minute)},
		},
		Entries: []EntryStatus{{
			Role: "reservation", State: "committed", Count: 3, ByAge: [4]int{1, 1, 1, 0}, Oldest: 90 * time.Second,
		}},
		Budgets: []BudgetStatus{{Namespace: "shop", Name: "web", Claims: 2}},
		Anomalies: anomaly.Report{
			Found:    map[anomaly.Rule]int{anomaly.BindsRejected: 3},
			Findings: []anomaly.Finding{{Rule: anomaly.BindsRejected, About: "shop/cart", Detail: "3 times."}},
		},
		Kubernetes: "v1.36.3",
	}}
}

func TestOverview(t *testing.T) {
	shards := []ShardAnswer{{
		Member: "scheduler-0-a", FactSequence: 90,
		Status: &ShardStatus{Nodes: 5, Pods: 50, Conflicts: map[string]int{"node": 2, "guard": 0}},
	}}
	o := NewOverview(statusOfQueue(), shards, 100, "descheduler-a")
	if diff := cmp.Diff([]string{
		"shard scheduler-1-b is running but does not answer",
		"binds-rejected: shop/cart: 3 times.",
		"binds-rejected: and 2 more",
	}, o.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := o.Text(&text, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"queue        queue-a        1h0m0s  -           0             leads",
		"scheduler    scheduler-0-a  1m0s    200         10",
		"descheduler  descheduler-a  -       -           -             leads",
		"scheduler-0-a  5      50    0         0            4        2 node     0",
		"reservation  committed  3        1        1         1          0      1m30s",
		"shop/web  2",
		"KUBERNETES  v1.36.3",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no line %q in\n%s", want, text.String())
		}
	}
}

func TestOverviewWithoutAQueue(t *testing.T) {
	o := NewOverview(nil, nil, 100, "")
	if len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "no leading queue") {
		t.Errorf("warnings %q", o.Warnings)
	}
	if err := o.Text(&strings.Builder{}, noon); err != nil {
		t.Error(err)
	}
}

func TestOverviewOfALaterAPIServer(t *testing.T) {
	a := statusOfQueue()
	a.Status.KubernetesLater = "the API server has version v1.37.1"
	o := NewOverview(a, nil, 100, "")
	if !slices.Contains(o.Warnings, a.Status.KubernetesLater) {
		t.Errorf("warnings %q, want %q among them", o.Warnings, a.Status.KubernetesLater)
	}
}

func TestOverviewOfFeaturesThatAreNotFollowed(t *testing.T) {
	a := statusOfQueue()
	a.Status.FeatureGates = []string{"feature gate A is refused: x", "feature gate B is not followed: y"}
	o := NewOverview(a, nil, 100, "")
	for _, want := range a.Status.FeatureGates {
		if !slices.Contains(o.Warnings, want) {
			t.Errorf("warnings %q, want %q among them", o.Warnings, want)
		}
	}
}

func TestOverviewOfALaggard(t *testing.T) {
	a := statusOfQueue()
	a.FactSequence = 5
	o := NewOverview(a, nil, 50000, "")
	if want := "queue-a is 49995 messages of facts behind"; o.Warnings[0] != want {
		t.Errorf("first warning %q, want %q", o.Warnings[0], want)
	}
}

func TestEntriesByAge(t *testing.T) {
	var e EntryStatus
	for _, age := range []time.Duration{0, 10 * time.Second, 11 * time.Second, time.Minute, 2 * time.Minute, time.Hour} {
		e.add(age)
	}
	if diff := cmp.Diff(EntryStatus{Count: 6, Oldest: time.Hour, ByAge: [4]int{2, 2, 1, 1}}, e); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusOf covers an empty ledger, and one with an entry that keeps a place.
func TestStatusOf(t *testing.T) {
	v := replica.NewView()
	s := StatusOf(v, func(ledger.Entry) time.Time { return noon }, noon)
	if len(s.Members)+len(s.Entries)+len(s.Budgets) > 0 {
		t.Errorf("status of an empty ledger: %+v", s)
	}
}
