// Package scaler plays Cluster Autoscaler: it adds nodes of one kind for pods that fit nowhere, and removes nodes that
// it can do without. It stands in for the program itself, whose module cannot be had from the module proxy, and follows
// its source, cluster-autoscaler 1.36.1, with the delays as parameters:
//
//   - which pods count as waiting for a node: only those with the reason Unschedulable and without a nominatedNodeName.
//     A pod with a nominatedNodeName counts on that node (utils/kubernetes/listers.go, core/static_autoscaler.go);
//   - a waiting pod that fits an existing node, more important pods first, gets no new node
//     (core/podlistprocessor/filter_out_schedulable.go); pods of nodes that are being emptied count as waiting;
//   - how many nodes: first fit, larger pods first, by group of pods with one owner (estimator/binpacking_estimator.go);
//     each new node has a kube-proxy of 100m, as with the provider for simulated nodes;
//   - which nodes are superfluous: all of their pods fit elsewhere, with disruption budgets
//     (core/scaledown/planner/planner.go), for a while without interruption, and no node was added a moment ago;
//   - how a node is removed: tainted, and a few seconds later emptied through the eviction API and deleted. A node that
//     was empty and no longer is, stays (core/scaledown/actuation).
//
// The simulation knows requests, selectors, required node affinity, taints and the nodes of volumes. The real one runs
// kube-scheduler's plugins; scripts with other rules need those.
//
// decide is pure; Run reads the cluster, decides and acts, until its context ends. Start reading at Run.
package scaler
