// Package provisioner makes volumes for claims, as a CSI driver's provisioner does: out of
// nothing, for clusters without storage. The volume of a claim that waits for its pod can be
// used on the node that was selected for it alone, so that a pod which is put elsewhere
// shows.
//
// Start reading at Provisioner.Run. It holds nothing: whatever it is told twice, or misses while it is
// down, is found again in the cluster.
package provisioner
