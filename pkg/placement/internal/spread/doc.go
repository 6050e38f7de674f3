// Package spread holds PodTopologySpread: constraints on how evenly the pods that a selector matches are spread
// over the domains of a node label. Source: plugins/podtopologyspread.
//
// Start reading at Constraint, then Filter (hard constraints) and Scorer (soft ones). Both count pods when they
// survey all nodes. Pods without constraints get default ones if something selects them (defaultselector.go).
package spread
