// Command example is Berth with a few additional plugins, as a starting point for custom plugins (docs/extending.md).
// For instance, Licences allows pods with the label "licence" only on nodes with the label that its arguments name,
// and prefers nodes with more licences left. The plugins are written against k8s.io/kube-scheduler/framework and do
// not depend on Berth.
package main
