// Package provisioner makes volumes for claims, as a CSI driver's provisioner does: out of nothing, for clusters
// without storage. The volume of a claim that waits for its pod can be used only on the node that was selected for
// it, so that a pod on another node is noticed.
//
// Annotations of nodes about storage are published as CSINode and CSIStorageCapacity (publish.go), and a volume whose
// claim was deleted is deleted if its class demands that.
//
// Start reading at Provisioner.Run. The provisioner keeps no state: duplicate events do no harm, and changes that it
// misses while it is down are found again in the cluster.
package provisioner
