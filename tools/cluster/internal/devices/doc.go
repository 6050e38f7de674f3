// Package devices publishes devices that do not exist, as a driver for dynamic resource allocation
// does: one ResourceSlice for each node that says in annotations which devices it has. Nothing
// prepares them for a pod; simulated kubelets do not ask.
//
// Start reading at Driver.Run; description.go is the language of the annotations. It holds nothing:
// whatever it is told twice, or misses while it is down, is found again in the cluster.
package devices
