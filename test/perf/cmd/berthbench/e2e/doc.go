// Package e2e measures schedulers side by side on a real API server: kube-scheduler, Berth in one process, Berth as
// separate processes. Every run has a fresh cluster of plain nodes without kubelets, the same pods, the same client
// and the same KubeSchedulerConfiguration; runs alternate between the contenders, so that a slow phase of the machine
// hits all of them.
//
// In mode live the scheduler runs and pods arrive as fast as parallel clients can create them; latency is from the
// watch event that shows the pod to the one that shows its node, both at the time this program received them. In mode
// drain the pods exist before the scheduler starts, so that nothing but the scheduler itself limits the measured
// rate; raw contenders, which bind without deciding anything, show the highest rate possible for any scheduler, and
// in mode open the lowest latency. Other pods can exist in mode live: blocked ones that fit nowhere, and ones that
// are deleted during the run. In mode open pods arrive at a rate, each when it is due, however slow the answers are.
// In mode preempt every node is full of pods of low priority, and arriving pods have a high one; each of them fits on
// a node as soon as one of the others has been evicted. In mode failover there are two replicas of the scheduler,
// pods arrive at a rate, and the replica that leads is killed in the middle.
//
// The API server's etcd syncs nothing to disk unless --fsync is given. After the last event the contender's memory is
// read, and with --memory what Berth's process holds, part by part.
//
// After each run the cluster is audited from the API server's own state; a finding fails the whole measurement,
// because a fast wrong placement is not a result.
//
// Run it with `make bench-e2e`. Start reading at measurement.run, then contender.
package e2e
