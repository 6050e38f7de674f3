// Package stores describes how etcd and nats-server are started: for a
// cluster's own API server, and standing alone for Berth's services.
//
// The two uses differ on purpose. The API server's etcd speaks mutual TLS and
// may skip fsync, because a test cluster is thrown away. A standalone store
// keeps Berth's own truth, so it syncs every write as in production.
package stores
