package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// QueueStatus is what the queue that leads knows of all there is: Question.Status.
type QueueStatus struct {
	// Pools counts the pods that are not bound, by pool. Offered counts those that each shard
	// holds at the moment.
	Pools, Offered map[string]int
	// Members are alive in the ledger, by role and id.
	Members []MemberStatus
	// Entries are what the ledger promises, by role and state, Budgets what is claimed from
	// disruption budgets.
	Entries []EntryStatus  `json:",omitempty"`
	Budgets []BudgetStatus `json:",omitempty"`
	// Anomalies are those of the last minutes.
	Anomalies anomaly.Report
	// Kubernetes is the version of the API server, empty if it does not tell; KubernetesLater says what follows from
	// its being later than the queue's rules, and is empty if it is not.
	Kubernetes, KubernetesLater string `json:",omitempty"`
}

// MemberStatus is one live replica.
type MemberStatus struct {
	Role, ID         string
	Version, Address string `json:",omitempty"`
	Started          time.Time
	// Partitions are how many partitions of pods a shard owns.
	Partitions int
}

// EntryStatus counts entries of the ledger that are alike.
type EntryStatus struct {
	// Role is reservation, victim, keeper or move, State held, committed, fencing, evicting or none.
	Role, State string
	Count       int
	// Oldest is how long the queue has seen the oldest of them; ByAge counts those that are not
	// older than each of Ages, and not in a place before, and in the last place the rest.
	Oldest time.Duration
	ByAge  [4]int
}

// Ages divide EntryStatus.ByAge: a bind takes less than the first, a pod's usual grace period less
// than the second.
var Ages = [3]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// BudgetStatus is a disruption budget from which something is claimed.
type BudgetStatus struct {
	Namespace, Name string
	Claims          int
}

// ShardStatus is what a shard knows of itself: Question.Status.
type ShardStatus struct {
	// Nodes and Pods it counts, Reserved of the pods it counts by the ledger alone, and Held the
	// places that it holds until others have gone.
	Nodes, Pods, Reserved, Held int
	// LeftAlone counts nodes that it does not use for now, by reason, Conflicts the races that it
	// has lost since it started, by what they were about.
	LeftAlone, Conflicts map[string]int `json:",omitempty"`
}

// roles are those of members, in the order of a pod's path.
var roles = []string{"queue", "scheduler", "binder", "descheduler"}

// StatusOf is what the ledger shows. since is when an entry was first seen.
func StatusOf(v *ledger.View, since func(ledger.Entry) time.Time, now time.Time) QueueStatus {
	var s QueueStatus
	owned := map[string]int{}
	for _, owner := range v.Owners() {
		owned[owner.Member]++
	}
	for _, role := range roles {
		for _, m := range v.Members(role) {
			s.Members = append(s.Members, MemberStatus{
				Role: role, ID: m.ID, Version: m.Version, Address: m.Address, Started: m.Started, Partitions: owned[m.ID],
			})
		}
	}
	entries := map[[2]string]*EntryStatus{}
	for doc := range v.Docs() {
		for _, e := range doc.Entries {
			key := [2]string{strings.ToLower(e.Role.String()), strings.ToLower(e.State.String())}
			if entries[key] == nil {
				entries[key] = &EntryStatus{Role: key[0], State: key[1]}
			}
			entries[key].add(now.Sub(since(e)))
		}
	}
	for _, e := range entries {
		s.Entries = append(s.Entries, *e)
	}
	slices.SortFunc(s.Entries, func(a, b EntryStatus) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.State, b.State))
	})
	for b := range v.Budgets() {
		if len(b.Claims) > 0 {
			s.Budgets = append(s.Budgets, BudgetStatus{Namespace: b.Namespace, Name: b.Name, Claims: len(b.Claims)})
		}
	}
	slices.SortFunc(s.Budgets, func(a, b BudgetStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func (e *EntryStatus) add(age time.Duration) {
	e.Count++
	e.Oldest = max(e.Oldest, age)
	for i, limit := range Ages {
		if age <= limit {
			e.ByAge[i]++
			return
		}
	}
	e.ByAge[len(Ages)]++
}
