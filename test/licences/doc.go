// Command licences is an HTTP extender to try things with (docs/extending.md): pods that ask for the
// resource example.com/licence go to nodes with the label of that name, the higher its number the
// rather. It speaks kube-scheduler's format (k8s.io/kube-scheduler/extender/v1) and knows nothing of
// Berth.
package main
