// Package memory measures how much memory one scheduler shard takes to hold a cluster:
// the real service from its facade down, which reads every fact, decides about pods and
// reserves their nodes. The log makes up its facts as they are read and keeps none of them;
// ledger and bus are those in memory.
//
// In the number: state, ledger picture, engine with its caches, the reading of facts, and
// the ledger's own documents of what has been decided (in production etcd holds those). Not
// in it: clients of NATS and etcd, and their buffers.
//
// The bound that counts is resident memory under a GOMEMLIMIT, so that is what is reported,
// together with the limit; live bytes of the heap are beside it. Run it with
// `make bench-placement`. Start reading at measure.
package memory
