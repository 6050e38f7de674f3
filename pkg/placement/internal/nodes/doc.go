// Package nodes holds the rules that look at one node and the pod, and at no other pod's claims or resources:
// scheduling gates, cordoned nodes, node names and ports (simple.go), taints, node affinity, declared features and
// images. Source: pkg/scheduler/framework/plugins of kube-scheduler, the folder of the same name each.
//
// Most of their filters read only the Node object, or only a few of its fields (OnlyTraits reports
// which). The engine evaluates them again only when the object changes.
package nodes
