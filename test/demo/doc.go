// Command demo shows Berth at work on a fresh machine: it starts a local cluster of
// simulated nodes, runs `berth up` on it, creates a Deployment, a StatefulSet and a batch
// of Jobs, and prints where the pods went, how long each took, and one pod's path.
//
// Run it with `make demo`. DEMO_KEEP=1 leaves the cluster and Berth running.
package main
