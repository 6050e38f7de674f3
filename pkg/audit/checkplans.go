package audit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// checkPromises checks what is claimed from pods and budgets. As with reservations, only what existed both before and
// after the rest was read is checked.
func (c *stateCheck) checkPromises(in CurrentState) {
	if in.After == nil {
		return
	}
	victims, marked := map[string]string{}, map[string]bool{}
	for _, doc := range sortedDocs(c.current) {
		for _, e := range doc.Entries {
			if e.Role != ledger.RoleVictim {
				continue
			}
			c.Victims++
			if other, twice := victims[e.PodUID]; twice && other != doc.NodeName {
				c.add(Violation, "S5", "is claimed on node "+doc.NodeName+" and on "+other, entryObject(e))
			}
			victims[e.PodUID] = doc.NodeName
			marked[e.PodUID] = marked[e.PodUID] || e.State == ledger.Evicting
		}
	}
	pods := map[string]*corev1.Pod{}
	for i := range in.Pods {
		pods[string(in.Pods[i].UID)] = &in.Pods[i]
	}
	stood := c.budgetDocs(in.Before, false)
	for uid, b := range c.budgetDocs(in.After, true) {
		c.checkBudgetClaims(stood[uid], b, victims, pods)
		c.checkBudgetStatus(in, stood[uid], b, pods)
	}
	c.checkPreempted(in, marked)
}

// budgetDocs returns the documents of disruption budgets; values that cannot be decoded are reported once.
func (c *stateCheck) budgetDocs(kvs []ledger.KV, report bool) map[string]ledger.BudgetDoc {
	out := map[string]ledger.BudgetDoc{}
	for _, kv := range kvs {
		uid, ok := strings.CutPrefix(kv.Key, ledger.PrefixBudget)
		if !ok {
			continue
		}
		b, err := codec.DecodeBudget(kv)
		switch {
		case err == nil:
			out[uid] = b
		case report:
			c.add(Violation, "form", "has a value that cannot be decoded: "+err.Error(), ledgerObject(kv.Key))
		}
	}
	return out
}

// leaves reports whether a pod is terminating or gone, according to what was read.
func leaves(p *corev1.Pod) bool {
	return p == nil || p.DeletionTimestamp != nil ||
		p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// checkBudgetClaims checks that what is claimed from a budget is claimed for a victim, until the victim leaves (S6).
// old is the budget's document before the lists: only claims that are in both are judged.
func (c *stateCheck) checkBudgetClaims(
	old, b ledger.BudgetDoc, victims map[string]string, pods map[string]*corev1.Pod,
) {
	for _, x := range b.Claims {
		p := pods[x.PodUID]
		if _, ok := victims[x.PodUID]; ok || leaves(p) || !old.Claimed(x.PodUID) {
			continue
		}
		c.add(Violation, "S6", "has a budget claim of plan "+x.Plan+", but is not a victim in any document",
			podObjectOf(p), ledgerObject(ledger.KeyBudget(b.UID)))
	}
}

// checkBudgetStatus checks that no more is claimed than the status allows (S6), except what is claimed regardless of
// it, and what the status already counts as disrupted. The budget may have shrunk since, so it is only a warning.
func (c *stateCheck) checkBudgetStatus(in CurrentState, old, b ledger.BudgetDoc, pods map[string]*corev1.Pod) {
	i := slices.IndexFunc(in.Budgets, func(pdb recording.Budget) bool { return string(pdb.UID) == b.UID })
	if i < 0 {
		return
	}
	pdb, open := &in.Budgets[i], 0
	for _, x := range b.Claims {
		if old.Claimed(x.PodUID) && !x.Regardless && !leaves(pods[x.PodUID]) {
			if _, going := pdb.Status.DisruptedPods[pods[x.PodUID].Name]; !going {
				open++
			}
		}
	}
	if open > int(pdb.Status.DisruptionsAllowed) {
		c.add(Warning, "S6", fmt.Sprintf("%d evictions are claimed from it, but it allows %d now",
			open, pdb.Status.DisruptionsAllowed), "poddisruptionbudget/"+pdb.Namespace+"/"+pdb.Name)
	}
}

// checkPreempted checks that a pod that was preempted by a scheduler of Berth's, and still runs, is marked (S9). It is
// only a warning: the eviction may just have failed.
func (c *stateCheck) checkPreempted(in CurrentState, marked map[string]bool) {
	schedulers := map[string]bool{}
	for _, doc := range c.current {
		for _, e := range reservations(doc) {
			schedulers[e.SchedulerName] = true
		}
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		history := podHistory{versions: []version[*podVersion]{{moment{rv: 1}, &podVersion{pod: p}}}}
		at, scheduler := history.preempted()
		if at.happened() && schedulers[scheduler] && !marked[string(p.UID)] && !leaves(p) {
			c.add(Warning, "S9", "was evicted for preemption, but no eviction is in progress", podObjectOf(p))
		}
	}
}
