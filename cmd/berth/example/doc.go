// Command example is Berth with one plugin more, to begin with a plugin of one's own (docs/extending.md):
// Licences lets pods with the label "licence" onto nodes with the label that its arguments name, and prefers
// those with more of them left. The plugin is written against k8s.io/kube-scheduler/framework and knows
// nothing of Berth.
package main
