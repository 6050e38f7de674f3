// Package harness drives real parts through their binaries: the local cluster (kube-apiserver,
// kube-controller-manager, etcd, simulated kubelets), Berth in one process or in many, its
// stores, and the schedulers it is compared with.
//
// Nothing here needs package testing, so that tests and measuring programs share it. Every
// function that starts something returns when it is ready, or an error that carries the end of
// its log. Whatever was started is stopped by Stop; if the caller dies first, the kernel (for
// Berth) and the driver's own watch of its parent (for clusters and stores) stop it.
//
// Waiting is polling of visible state with a deadline, see Eventually; there are no sleeps.
//
// Start reading at Programs, then Cluster and Berth.
package harness
