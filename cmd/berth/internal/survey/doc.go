// Package survey lists the current state of a cluster for the commands that judge it once: Cluster the objects of the
// API server and Ledger the documents of the ledger for `berth check`, and Pages any collection, in pages.
//
// It only reads, keeps no state and makes no watch. The lists are of different moments, while the cluster changes. The
// order in which Cluster reads the kinds ensures that no object refers to one that is missing only because it was
// created in between. A reader of both systems lists the ledger before and after the cluster, and compares the two.
//
// Start reading at Cluster.
package survey
