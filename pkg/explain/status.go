package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/anomaly"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// QueueStatus is the status of everything the leading queue knows: the answer to Question.Status.
type QueueStatus struct {
	// Pools counts the pods that are not bound, by pool. Offered counts the pods that each shard holds an offer for
	// at the moment.
	Pools, Offered map[string]int
	// Members are the members alive in the ledger, by role and id.
	Members []MemberStatus
	// Entries counts the ledger's entries by role and state, Budgets the claims on disruption budgets.
	Entries []EntryStatus  `json:",omitempty"`
	Budgets []BudgetStatus `json:",omitempty"`
	// Anomalies are the anomalies of the last minutes.
	Anomalies anomaly.Report
	// Kubernetes is the version of the API server, empty if the server does not report it; KubernetesLater
	// describes the consequences of its being later than the queue's rules, and is empty if it is not.
	Kubernetes, KubernetesLater string `json:",omitempty"`
	// FeatureGates describes the feature gates of the API server that Berth does not follow, one line for each, with
	// its effect.
	FeatureGates []string `json:",omitempty"`
	// Settings are warnings about the settings of the leading queue's process: fields and flags without effect.
	Settings []string `json:",omitempty"`
}

// MemberStatus is one live replica.
type MemberStatus struct {
	Role, ID         string
	Version, Address string `json:",omitempty"`
	Started          time.Time
	// Partitions is the number of pod partitions that a shard owns.
	Partitions int
}

// EntryStatus counts the ledger's entries with the same role and state.
type EntryStatus struct {
	// Role is reservation, victim, keeper or move; State is held, committed, fencing, evicting or none.
	Role, State string
	Count       int
	// Oldest is how long the queue has seen the oldest of the entries. ByAge[i] counts the entries that are not
	// older than Ages[i] but older than the limits before it; the last element counts the rest.
	Oldest time.Duration
	ByAge  [4]int
}

// Ages are the limits of EntryStatus.ByAge: a bind takes less than the first, a pod's usual grace period less than
// the second.
var Ages = [3]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// BudgetStatus is a disruption budget on which there are claims.
type BudgetStatus struct {
	Namespace, Name string
	Claims          int
}

// ShardStatus is a shard's own status: the answer to Question.Status.
type ShardStatus struct {
	// Nodes and Pods are those the shard counts; Reserved is the number of pods that it counts because of the
	// ledger alone, and Held the number of places that it holds until their victims are gone.
	Nodes, Pods, Reserved, Held int
	// LeftAlone counts the nodes that the shard does not use at present, by reason; Conflicts counts the races that
	// it has lost since it started, by subject.
	LeftAlone, Conflicts map[string]int `json:",omitempty"`
}

// roles are the roles of members, in the order of a pod's path; other roles are not shown.
var roles = []string{"queue", "scheduler", "binder", "descheduler"}

// StatusOf returns the status that the ledger shows: members, entries and budgets. The caller adds what only the queue
// knows. since returns when an entry was first seen: the ledger does not store when an entry was made. Lists are
// sorted, so that equal states give equal answers.
func StatusOf(v *replica.View, since func(ledger.Entry) time.Time, now time.Time) QueueStatus {
	var s QueueStatus
	// A member's partitions are counted from their owners' keys, which are the authority; what a member believes may
	// be older.
	owned := map[string]int{}
	for _, owner := range v.Roster().Owners() {
		owned[owner.Member]++
	}
	for _, role := range roles {
		for _, m := range v.Roster().Members(role) {
			s.Members = append(s.Members, MemberStatus{
				Role: role, ID: m.ID, Version: m.Version, Address: m.Address, Started: m.Started, Partitions: owned[m.ID],
			})
		}
	}
	// Entries are counted by role and state over all documents.
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
	for b := range v.Budgets().All() {
		if len(b.Claims) > 0 {
			s.Budgets = append(s.Budgets, BudgetStatus{Namespace: b.Namespace, Name: b.Name, Claims: len(b.Claims)})
		}
	}
	slices.SortFunc(s.Budgets, func(a, b BudgetStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// add counts an entry of this age.
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
