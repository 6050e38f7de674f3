// Package search finds the nodes that a pod may go to: among the shard's home nodes first where that costs the pod
// nothing, without the nodes that it avoids, and for hard spread both with and without the pods whose places are only
// held. If it finds none, HeldBack looks whether a node that is avoided for now would do.
//
// Start reading at Searcher.Find.
package search
