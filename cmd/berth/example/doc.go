// Command example is Berth with a few plugins more, to begin with a plugin of one's own (docs/extending.md). Of them
// Licences lets pods with the label "licence" onto nodes with the label that its arguments name, and prefers
// those with more of them left. The plugins are written against k8s.io/kube-scheduler/framework and know
// nothing of Berth.
package main
