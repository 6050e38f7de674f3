// Package devices holds the rule about devices: DynamicResources, for claims that a pod names and for extended
// resources that device classes provide. Source: plugins/dynamicresources, whose allocator it calls.
//
// Start reading at Demand, which holds what a pod needs, then Index: which devices are taken, by the facts and by
// decisions that the facts do not show yet (Promise). Where plain devices of one node are all that is asked for,
// plainSearch answers without the allocator. Pick is the write to a claim that its pod needs before it can start;
// MadeClaim is the claim that is created for extended resources.
package devices
