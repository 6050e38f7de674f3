// Package draduel gives one load of claims to two kube-schedulers, and to four shards of Berth, and
// counts from the API server's own state what is in two claims, or in the claim of no pod.
//
// As many pods come at once as there are devices, each with a claim that is made for it; half name
// one scheduler and half the other. Beside them come pods that want claims which are for one pod
// (ReadWriteOncePod), several for each. The kube-schedulers are two processes, as teams have them who
// want schedulers of their own; Berth has two queues, four shards and two binders, and one shard and
// one binder are killed when a third of the pods are bound and started again when two thirds are.
//
// When everything is bound, all pods are deleted, and what is still in a claim then has leaked.
//
// Run it with `make dra-duel`. Start reading at account.go (what is counted), then duel.play.
package draduel
