// Package nodes holds the rules that look at one node and the pod, and at no other pod's claims or resources:
// scheduling gates, cordoned nodes, node names and ports (simple.go), taints, node affinity, declared features
// and images. Source: pkg/scheduler/framework/plugins of kube-scheduler, the folder of the same name each.
//
// Most of their filters read only the Node object, or only a few of its fields (OnlyTraits reports which). The
// engine evaluates them again only when the object changes. A filter of this package that reads more than the
// object, as that of host ports does, must not have the method OnlyTraits: the engine would keep results that are
// out of date.
//
// Each rule is short; read any of them to see what a rule consists of: Compile, Check, Explain, Events, Hint and
// Interest. TaintToleration has all of these and a score.
package nodes
