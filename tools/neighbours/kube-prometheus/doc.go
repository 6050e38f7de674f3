// Package kubeprometheus pins kube-prometheus, whose manifests the tests of neighbours read. Nothing of it is built.
package kubeprometheus
