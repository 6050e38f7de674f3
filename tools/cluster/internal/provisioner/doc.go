// Package provisioner makes volumes for claims, as a CSI driver's provisioner does: out of
// nothing, for clusters without storage. The volume of a claim that waits for its pod can be
// used on the node that was selected for it alone, so that a pod which is put elsewhere
// shows.
//
// What annotations of nodes say about it is published as CSINode and CSIStorageCapacity
// (publish.go), and a volume whose claim has gone is deleted if its class says so.
//
// Start reading at Provisioner.Run. It holds nothing: whatever it is told twice, or misses while it is
// down, is found again in the cluster.
package provisioner
