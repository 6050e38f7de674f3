// Package resources is the arithmetic of resource amounts, in the units and with the names for which kube-scheduler
// accounts (framework.Resource).
//
// Start reading at Resources. It has no notion of nodes or pods: state.Pod has the amounts that a pod requests, and
// state.NodeInfo the sums.
package resources
