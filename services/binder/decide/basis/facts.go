package basis

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// maxFates bounds the memory of when claimed pods were first missed. A forgotten pod is missed again at a later
// resourceVersion, which delays the settling of its budget.
const maxFates = 4096

// Pod returns the pod as the facts show it, and whether its absence would prove that it is deleted: the facts must
// have passed a version at which it existed.
func (b *Base) Pod(uid string, existedAt uint64) (p *state.Pod, known, gone bool) {
	if b.Facts.Cluster == nil {
		return nil, false, false
	}
	if p, ok := b.Facts.Cluster.Pod(uid); ok {
		return p, true, false
	}
	return nil, false, b.Facts.PodProgressKnown && b.Facts.PodProgress >= existedAt
}

// PodFact implements txns.PodFacts.
func (b *Base) PodFact(uid string) (boundRV uint64, bound, known bool) {
	if b.Facts.Cluster == nil {
		return 0, false, false
	}
	p, known := b.Facts.Cluster.Pod(uid)
	if !known || p.NodeName == "" {
		return 0, false, known
	}
	return p.ResourceVersion, true, true
}

// PodProgress implements txns.PodFacts.
func (b *Base) PodProgress() uint64 {
	if b.Facts.Cluster == nil || !b.Facts.PodProgressKnown {
		return 0
	}
	return b.Facts.PodProgress
}

// ClaimFact implements txns.DeviceFacts.
func (b *Base) ClaimFact(namespace, name string) txns.DeviceClaimFact {
	if b.Facts.Claims == nil {
		return txns.DeviceClaimFact{}
	}
	return b.Facts.Claims(namespace, name)
}

// ClaimProgress implements txns.DeviceFacts.
func (b *Base) ClaimProgress() uint64 { return b.Facts.ClaimProgress }

// BudgetProgress implements txns.ClaimFacts.
func (b *Base) BudgetProgress() uint64 { return b.Facts.BudgetProgress }

// VictimFate implements txns.ClaimFacts. A pod that has ended counts as gone.
func (b *Base) VictimFate(uid string, podRV uint64) (txns.Fate, uint64) {
	p, known, gone := b.Pod(uid, podRV)
	switch {
	case known && p.Terminal:
		return txns.Left, p.ResourceVersion
	case known && p.Deleting:
		return txns.Leaving, p.ResourceVersion
	case known || !gone:
		return txns.Staying, 0
	}
	if rv, missed := b.firstMissed[uid]; missed {
		return txns.Left, rv
	}
	if len(b.firstMissed) >= maxFates {
		clear(b.firstMissed)
	}
	b.firstMissed[uid] = b.Facts.PodProgress
	return txns.Left, b.Facts.PodProgress
}

// Fate returns what has become of a claimed pod.
func (b *Base) Fate(claim ledger.Entry) txns.Fate {
	fate, _ := b.VictimFate(claim.PodUID, claim.PodRV)
	return fate
}

// ForgetFates drops the memory of when claimed pods were first missed.
func (b *Base) ForgetFates() { clear(b.firstMissed) }

// BindFailed reports whether a decision says that plugins have failed to bind a pod where it was placed.
func BindFailed(d events.Decision) bool { return d.Kind == events.DecisionFailed && d.NodeUID != "" }
