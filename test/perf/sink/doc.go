// Package sink is a stand-in for the API server that costs as little as possible: it hands out nodes and pods over
// lists and watches, accepts binds, conditions and events, and remembers the bound pods. It speaks protobuf over
// HTTP/2 and TLS, keeps everything in memory and checks only that no pod is bound twice. The throughput of a
// scheduler against it is the scheduler's own ceiling.
//
// It is no twin of the API server: there is no admission, no update but of a pod's status, no deletion, and kinds
// other than pods and nodes are empty for ever.
//
// Start reading at Server.
package sink
