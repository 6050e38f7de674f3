// Package guards models how shards that decide at the same time keep hard rules about pods
// on other nodes: required anti-affinity, hard spread and required affinity over domains
// wider than a node (pkg/ledger: terms and guards).
//
// The model has two zones, two or three pods, and a shard for each or fewer. Every pod gets
// a node of its own wherever it goes, so no two placements ever meet in a node's document:
// whatever keeps them apart is a guard. A shard reads two streams, the ledger and the facts,
// and is behind in each as far as it likes; it decides on what it has read, and its
// transaction arrives at any later time. Pods are bound, handed over and deleted in between.
//
// What must hold is checked at every placement that commits: it keeps the rules among all
// pods placed before it, given that what left after the shard's view may still be counted.
// (Without that allowance no scheduler could ever be right: a pod can be deleted at the
// moment another is placed.)
//
// The test explores every history of every scenario. It also takes away the protocol's parts
// one at a time, and each time must find the history that breaks a rule; a checker that does
// not would find nothing at all.
//
// Start reading at world (what there is), then world.next (what can happen).
package guards
