// Package devices publishes devices that do not exist, as a driver for dynamic resource allocation does: one
// ResourceSlice for each node whose annotations describe its devices. Nothing prepares them for a pod; simulated
// kubelets do not ask.
//
// Start reading at Driver.Run; description.go is the language of the annotations. The driver keeps no state:
// duplicate events do no harm, and changes that it misses while it is down are found again in the cluster.
package devices
