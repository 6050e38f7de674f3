// Package search finds the nodes that a pod may be placed on. It tries the shard's home nodes first where that costs
// the pod nothing, leaves out the nodes that the pod avoids, and evaluates hard spread both with and without the
// pods whose places are only held. If it finds none, HeldBack checks whether a node that is avoided for now would
// fit.
//
// Start reading at Searcher.Find.
package search
