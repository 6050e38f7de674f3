// Package volumes holds the rules about volumes: VolumeBinding, VolumeRestrictions, NodeVolumeLimits and
// VolumeZone. Source: the plugins of these names in pkg/scheduler/framework/plugins.
//
// # The rules
//
//   - VolumeBinding (binding.go, match.go): the volumes of a pod's claims can be used on the node, or volumes can be
//     found or provisioned there.
//   - VolumeZone (zone.go): the node is in a zone that the labels of the bound volumes name. It predates node
//     affinity of volumes.
//   - VolumeRestrictions (restrictions.go): no other pod uses the same disk on the node, or the same
//     ReadWriteOncePod claim anywhere.
//   - NodeVolumeLimits (limits.go): the node can attach as many volumes of each CSI driver, and has the drivers that
//     must be registered (required.go).
//
// # The claims of a pod
//
// VolumeBinding sorts the claims of a pod into four sets:
//
//   - bound: the claim has a volume, whose node affinity must match the node;
//   - immediate: the claim should have a volume and has none, so that the pod waits;
//   - delayed, without a selected node (WaitForFirstConsumer): a free volume is chosen for the claim, the smallest
//     that is large enough, or one is provisioned;
//   - delayed, with a selected node: provisioning has been requested for that node, and no other node is possible.
//
// Example: a pod with the claims a (bound to a volume in zone 1), b and c (both delayed, 10 GiB and 50 GiB). On a
// node in zone 1 with free local volumes of 20 GiB and 100 GiB, b gets the one of 20 GiB and c the one of 100 GiB:
// smaller claims choose first, and a volume that one claim took is not there for the next. The result is two Picks,
// which the binder writes before it binds the pod. A node in zone 2 is rejected because of a.
//
// Start reading at Demand, which holds what the claims of a pod require of a node, and at matching, which finds
// volumes for claims that have none; Pick is the write to a claim that its pod needs before it can start. Rules only
// look: the binder writes. Nothing here keeps state between calls.
package volumes
