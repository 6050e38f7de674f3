// Package devices holds the rule about devices: DynamicResources, for claims that a pod names and for extended
// resources that device classes provide. Source: plugins/dynamicresources and KEP-4381, whose allocator
// (k8s.io/dynamic-resource-allocation/structured) it calls.
//
// # Words
//
// A driver publishes devices in ResourceSlices, grouped into pools; most slices belong to one node. A
// ResourceClaim requests devices of a DeviceClass, whose selectors are CEL expressions. An allocation is the list
// of devices that a claim has got; it is written to the claim's status together with the first pod that uses the
// claim.
//
// # The way of a pod
//
// A pod names the claim "gpu", which has no devices yet.
//
//  1. Plugin.Admit rejects the pod while the claim does not exist, and Plugin.Expects reports that it is being
//     created from a template.
//  2. Plugin.Compile looks the claim up and sorts it into a Demand: the claim lacks devices, its class exists, and
//     no other decision has promised devices to it.
//  3. Demand.Check is called for every node. If the claim requests a number of plain devices, plainSearch counts the
//     free ones that match; otherwise search calls upstream's allocator, which is exponential for some claims.
//  4. When a node has been chosen, Plugin.Picks selects the devices there and returns a Pick: the allocation to
//     write to the claim. The shard reserves it together with the place (Index.Promise), so that its next decision
//     does not use the same devices.
//  5. The binder writes the allocation and waits until the devices are ready (Ready). The change of the claim
//     returns as a fact (Index.Apply), and the promise is withdrawn.
//
// A pod that requests an extended resource which a class provides (KEP-5004) has no claim of its own. On nodes
// that do not list the resource, makeClaim writes the claim that the binder creates for the pod.
//
// # Main types
//
//   - Demand: what a pod needs, and the rule for one node. It lives for one evaluation.
//   - Index: which devices exist on which node and which are taken, by the facts and by promises. It lives as long
//     as the state of the cluster, and its owner applies every change.
//   - plainSearch and search: the two ways to find devices.
//   - Pick: what has to be written before the pod can be bound; MadeClaim: the claim for extended resources.
//   - Tally: devices per node, for scores by extended resources.
//
// # Invariants
//
//   - plainSearch gives the answers of the allocator, or none (TestPlainDevicesAreTheAllocators compares both).
//   - A device is free in the Index exactly if no claim's status and no promise names it (administrative access
//     aside), except for what Index.Leave frees for the moment of a question.
//   - The same input gives the same devices and the same names of shares: the seed of the decision replaces
//     upstream's random names, and a number of steps its timeout.
//
// The index has no durable state. After a restart its owner fills it from the facts, and promises come again from
// the ledger.
package devices
