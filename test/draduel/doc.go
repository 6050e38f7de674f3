// Package draduel gives one load of claims to two kube-schedulers, and to four shards of Berth, and counts from the
// API server's own state the devices that are in two claims, or in a claim without a pod.
//
// As many pods are created at once as there are devices, each with a claim that is made for it; half name one
// scheduler and half the other. In addition there are pods that want volume claims for one pod (ReadWriteOncePod),
// several pods for each claim. The kube-schedulers are two processes, as teams with their own schedulers run them;
// Berth has two queues, four shards and two binders, and one shard and one binder are killed when a third of the pods
// are bound and started again when two thirds are.
//
// When everything is bound, all pods are deleted, and devices that are still in a claim then have leaked.
//
// Run it with `make dra-duel`. Start reading at account.go (the counts), then duel.play.
package draduel
