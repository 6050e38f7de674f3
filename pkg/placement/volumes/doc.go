// Package volumes holds the rules about volumes: VolumeBinding, VolumeRestrictions, NodeVolumeLimits and
// VolumeZone. Source: the plugins of these names.
//
// Start reading at Demand, which holds what the claims of a pod require of a node, and at matching, which finds
// volumes for claims that have none; Pick is the write to a claim that its pod needs before it can start. Rules only
// look: the binder writes.
package volumes
