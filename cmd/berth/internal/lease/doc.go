// Package lease keeps a Lease in Kubernetes for what watches kube-scheduler's: the leading queue holds it, as
// kube-scheduler's leader does (kube-system/kube-scheduler). Berth does not read it: the queue's leader is elected in
// etcd, and goes on leading whether it has the Lease or not.
//
// The resource and the times are client-go's (tools/leaderelection), so a kube-scheduler that runs keeps the Lease from
// Berth, and the other way round. A leader that stops does not release it; the next one has it when it has expired.
//
// Start reading at Keeper.Run.
package lease
