// Package crowd lets four scheduler shards place pods at once that have hard rules about each other, on a real etcd,
// and checks every revision of the ledger: at no time do the pods that are bound or promised a place break a rule or
// overfill a node, even if the shards' views were wrong.
//
// The shards are the real ones with their goroutines; the log and the bus are in memory, the test plays the queue,
// the API server and the binders. `make crowd` runs a cluster of 600 nodes, `make crowd LONG=1` one of 5,000.
//
// Start reading at TestFourShardsKeepTheRules, then oracle_test.go.
package crowd
