// Package controlplane brings up a Kubernetes control plane on the loopback address: etcd, kube-apiserver,
// kube-controller-manager and, in place of kubelets, KWOK.
//
// Everything real is real: TLS with client certificates, Node and RBAC authorisation, the default admission plugins,
// priority and fairness. No scheduler runs: the cluster is for testing schedulers.
//
// KWOK runs as a child, its own unchanged program, with a stage file that is written from the stages its module
// embeds. Running its controllers inside this program was the alternative. It would have saved one process and cost
// three things: the driver would link KWOK's whole tree, a fault in it would take the supervisor along, and its load
// could not be told apart from the driver's when a benchmark is read. Both live in one Go module, so the stages and
// the program are always of the same version.
//
// Node life: with KWOK, node leases are renewed and the node lifecycle controller treats the nodes as it would real
// ones. Without KWOK no process renews leases, and that controller would mark every node unknown and taint it after
// its grace period; so it is left out of "all" then, and the nodes stay as they were created.
//
// Start reading at up.go.
package controlplane
