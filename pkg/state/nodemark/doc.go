// Package nodemark has the marks on a node by which cluster autoscalers see what Berth knows and Kubernetes' API does
// not show: that a node with free room takes no pods for now (Withheld), and that pods are about to run on a node that
// looks empty (Kept).
//
// Cluster Autoscaler and Karpenter simulate kube-scheduler's rules over the nodes and pods that the API server shows.
// The marks are therefore a taint, and the annotations with which each of them lets a node be kept. The binder writes
// and removes them. No part of Berth decides by them: Strip removes them from the node before it becomes a fact, and
// leaves only a note of them.
//
// Everything here is pure. Start reading at Marks.
package nodemark
