// Package memory measures how much memory one scheduler shard needs for a cluster: the real service from its facade
// down, which reads every fact, decides about pods and reserves their nodes. The log makes up its facts as they are
// read and keeps none of them; ledger and bus are those in memory.
//
// The number includes state, the view of the ledger, the engine with its caches, the reading of facts, and the
// ledger's own documents of decided pods (in production etcd holds those). It does not include the clients of NATS
// and etcd, and their buffers.
//
// The bound that counts is resident memory under a GOMEMLIMIT, so the report has that, together with the limit and
// the live bytes of the heap. Run it with `make bench-placement`. Start reading at measure.
package memory
