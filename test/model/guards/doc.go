// Package guards models how shards that decide at the same time keep hard rules about pods on other nodes: required
// anti-affinity, hard spread and required affinity over domains wider than a node (pkg/ledger: terms and guards).
//
// The model has two zones, two or three pods, and a shard for each or fewer. Every pod gets a node of its own
// wherever it is placed, so no two placements ever conflict in a node's document: only guards keep them apart. A
// shard reads two streams, the ledger and the facts, each arbitrarily late; it decides on what it has read, and its
// transaction arrives at any later time. Pods are bound, handed over and deleted in between.
//
// The invariant is checked at every placement that commits: it keeps the rules among all pods placed before it, where
// pods that left after the shard's view may still be counted. (Without that allowance no scheduler could be correct:
// a pod can be deleted at the moment another is placed.)
//
// The test explores every history of every scenario. It also removes the protocol's parts one at a time, and each
// time must find a history that breaks a rule; otherwise the checker would be useless.
//
// Start reading at world (the state), then world.next (the possible steps).
package guards
