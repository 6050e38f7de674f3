package decide

import "github.com/berth-scheduler/berth/pkg/ledger"

// keptFates bounds the memory of when claimed pods were first missed. A forgotten pod is missed again at a later
// resourceVersion, which delays the settling of its budget.
const keptFates = 4096

// claimFacts presents the core's view of the facts through the interfaces of the ledger's steps.
type claimFacts struct{ c *Core }

// PodFact implements ledger.PodFacts.
func (f claimFacts) PodFact(uid string) (boundRV uint64, bound, known bool) {
	if f.c.facts.Cluster == nil {
		return 0, false, false
	}
	p, known := f.c.facts.Cluster.Pod(uid)
	if !known || p.NodeName == "" {
		return 0, false, known
	}
	return p.ResourceVersion, true, true
}

// PodProgress implements ledger.PodFacts.
func (f claimFacts) PodProgress() uint64 {
	if f.c.facts.Cluster == nil || !f.c.facts.PodProgressKnown {
		return 0
	}
	return f.c.facts.PodProgress
}

// ClaimFact implements ledger.DeviceFacts.
func (f claimFacts) ClaimFact(namespace, name string) ledger.ClaimFact {
	if f.c.facts.Claims == nil {
		return ledger.ClaimFact{}
	}
	return f.c.facts.Claims(namespace, name)
}

// ClaimProgress implements ledger.DeviceFacts.
func (f claimFacts) ClaimProgress() uint64 { return f.c.facts.ClaimProgress }

// BudgetProgress implements ledger.ClaimFacts.
func (f claimFacts) BudgetProgress() uint64 { return f.c.facts.BudgetProgress }

// VictimFate implements ledger.ClaimFacts. A pod that has ended counts as gone.
func (f claimFacts) VictimFate(uid string, podRV uint64) (ledger.Fate, uint64) {
	c := f.c
	p, known, gone := c.pod(uid, podRV)
	switch {
	case known && p.Terminal:
		return ledger.Left, p.ResourceVersion
	case known && p.Deleting:
		return ledger.Leaving, p.ResourceVersion
	case known || !gone:
		return ledger.Staying, 0
	}
	if rv, missed := c.left[uid]; missed {
		return ledger.Left, rv
	}
	if len(c.left) >= keptFates {
		clear(c.left)
	}
	c.left[uid] = c.facts.PodProgress
	return ledger.Left, c.facts.PodProgress
}

// fate returns what has become of a claimed pod.
func (c *Core) fate(claim ledger.Entry) ledger.Fate {
	fate, _ := claimFacts{c}.VictimFate(claim.PodUID, claim.PodRV)
	return fate
}
