package view

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// stagedPod is a pod that this member has decided to place; the ledger does not have its reservation yet.
type stagedPod struct {
	node string
	pod  *state.Pod
	// placeholder is the placeholder whose place the pod takes; 0 for none.
	placeholder ledger.Token
}

// Stage counts a pod on a node before the ledger contains its reservation. The pod must not count anywhere else.
func (v *View) Stage(p *state.Pod, nodeName string) {
	v.staged[p.UID] = stagedPod{node: nodeName, pod: p}
	v.recount(p.UID)
}

// StageInstead is Stage for a pod that takes a placeholder's room; the placeholder does not count while the pod is
// staged.
func (v *View) StageInstead(p *state.Pod, nodeName string, token ledger.Token) {
	v.kept.taken[token] = true
	v.recount(PlaceholderUID(token))
	v.staged[p.UID] = stagedPod{node: nodeName, pod: p, placeholder: token}
	v.recount(p.UID)
}

// Unstage reverts Stage; if the ledger view has a reservation for the pod by then, that counts instead.
func (v *View) Unstage(podUID string) {
	st := v.staged[podUID]
	delete(v.staged, podUID)
	v.recount(podUID)
	v.releasePlaceholder(st.placeholder)
}

// releasePlaceholder makes a placeholder count again, if it still exists.
func (v *View) releasePlaceholder(token ledger.Token) {
	if token != 0 {
		delete(v.kept.taken, token)
		v.recount(PlaceholderUID(token))
	}
}

// IsStaged reports whether the pod is staged.
func (v *View) IsStaged(podUID string) bool {
	_, ok := v.staged[podUID]
	return ok
}
