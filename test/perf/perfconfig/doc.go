// Package perfconfig reads the workloads of upstream's scheduler_perf: a file of cases, each a
// list of operations with parameters, and workloads that give the parameters numbers
// (test/integration/scheduler_perf in k8s.io/kubernetes, README and operations.go). The files
// themselves are read from the module; nothing is copied.
//
// What drives a scheduler by them is test/perf/cmd/benchperf. Operations it does not carry out are
// read all the same, and Resolve names them when a workload wants one.
//
// Start reading at Load, then Case.Resolve.
package perfconfig
