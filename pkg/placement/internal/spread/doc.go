// Package spread holds PodTopologySpread: constraints on how evenly the pods that a selector matches are spread
// over the domains of a node label. Source: plugins/podtopologyspread.
//
// A node passes a hard constraint (DoNotSchedule) if
//
//	pods in its domain + 1 - pods in the smallest domain <= maxSkew
//
// where the 1 counts only if the pod matches the constraint itself. Only nodes that have the keys of all hard
// constraints form domains, and a constraint can leave out nodes that the pod's node affinity excludes
// (nodeAffinityPolicy, the default) or whose taints the pod does not tolerate (nodeTaintsPolicy). With fewer
// domains than minDomains, the smallest domain counts as empty, so that pods wait for more domains.
//
// Example: maxSkew 1 over zones a, b, c with 2, 1 and 1 pods. A node in a: 2 + 1 - 1 = 2, fails. A node in b: 1,
// passes.
//
// Soft constraints (ScheduleAnyway) score: nodes in domains with fewer pods get more points.
//
// Labels of very large pods are cut before they are stored, so that it may be uncertain whether a pod counts. It
// then counts for its own domain, and does not count for the smallest (LeastOf): either way the skew can only be
// smaller in reality.
//
// Start reading at Constraint, then Filter (hard constraints) and Scorer (soft ones). Both count pods when they
// survey all nodes. Pods without constraints get default ones if something selects them (defaultselector.go).
package spread
