package view

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// nominations are the pods that count nowhere and are nominated to a node by their status. The zero value is of no use;
// see newNominations.
type nominations struct {
	// node is the name of the node by the pod's UID; pods are the pods by the name of the node, sorted by UID.
	node map[string]string
	pods map[string][]*state.Pod
}

func newNominations() nominations {
	return nominations{node: map[string]string{}, pods: map[string][]*state.Pod{}}
}

// Nominated returns the pods that are nominated to a node by their status and count nowhere, by the name of the node
// and sorted by UID: no place is held or reserved for them, and they are not staged. Another component has written the
// name, or it is left over. The node may not exist. The map and the lists belong to the View: read them before the next
// call that changes it.
func (v *View) Nominated() map[string][]*state.Pod { return v.nominated.pods }

// noteNominated notes whether the API view nominates a pod that counts nowhere.
func (v *View) noteNominated(uid, node string, fact *state.Pod) {
	v.nominated.remove(uid)
	if node == "" && fact != nil && fact.NodeName == "" && !fact.Deleting && !fact.Terminal {
		if to := fact.Status().NominatedNodeName; to != "" {
			v.nominated.add(fact, to)
		}
	}
}

func (n *nominations) add(p *state.Pod, node string) {
	n.node[p.UID] = node
	i, _ := slices.BinarySearchFunc(n.pods[node], p.UID, byUID)
	n.pods[node] = slices.Insert(n.pods[node], i, p)
}

func (n *nominations) remove(uid string) {
	node, is := n.node[uid]
	if !is {
		return
	}
	delete(n.node, uid)
	if len(n.pods[node]) == 1 {
		delete(n.pods, node)
		return
	}
	i, _ := slices.BinarySearchFunc(n.pods[node], uid, byUID)
	n.pods[node] = slices.Delete(n.pods[node], i, i+1)
}

func byUID(p *state.Pod, uid string) int { return cmp.Compare(p.UID, uid) }
