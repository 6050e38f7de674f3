package plan

// countRequested counts the pods that other controllers are making leave against upstream's limits, in every cycle
// until they have left or stay (evictions.EvictPod of sigs.k8s.io/descheduler): those that show that a request to evict
// them has been taken on, by whichever client it was made, and those for which a binder waits. It looks at all pods if
// there is a limit.
func (p *planner) countRequested() {
	if l := p.Policy.Limits; l.PerNode == nil && l.PerNamespace == nil && l.Total == nil {
		return
	}
	for pod := range p.Cluster.Pods() {
		if pod.Terminal || pod.NodeName == "" {
			continue
		}
		only, inProgress := pod.EvictionRequest()
		if inProgress || only && p.History.InBackground(pod.UID, p.Now) {
			p.limits.Take(pod.NodeName, pod.Namespace)
		}
	}
}
