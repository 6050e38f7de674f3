// Package gang reads groups of pods: which group a pod belongs to, what the group requires, and which of its members
// are there.
//
// Start reading at Of. A Group has the content of a PodGroup object (scheduling.k8s.io/v1alpha2, KEP-4671), and
// Members sorts the pods of a group by how far they are. Plugin is upstream's rule GangScheduling as far as it is about
// one pod: when a member is worth trying at all. That members are placed together is no rule about nodes; the queue and
// the shards do that, with what this package tells them.
//
// The package is pure: it has no clock, no state and no randomness.
package gang
