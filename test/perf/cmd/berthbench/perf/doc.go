// Package perf runs workloads of upstream's scheduler_perf against schedulers side by side, on a real API server:
// kube-scheduler, Berth in one process, Berth as separate processes, with the same configuration and the same
// clients. The files are upstream's own, read from the module k8s.io/kubernetes. Every run has a fresh cluster; runs
// alternate between the contenders, and after each the placements are audited from the API server's own state.
//
// Where it differs from scheduler_perf: the API server is a process with its admission plugins on (priorities are
// given through classes made on the way), the scheduler runs as it is shipped (feature gates of a workload are not
// applied), and the result is the number of pods divided by the time from the first creation to the last bind, with
// the latency of each pod.
//
// Run it with `make bench-perf`. Start reading at measurement.run, then stage.
package perf
