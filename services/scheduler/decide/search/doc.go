// Package search finds the nodes that a pod may be placed on. It tries the shard's home nodes first where that costs
// the pod nothing, leaves out the nodes that the pod avoids, and evaluates hard spread both with and without the
// pods whose places are only held. If it finds none, FitsOnAvoided checks whether a node that is avoided for now
// would fit.
//
// The rules themselves are those of pkg/placement: the engine has their answers for most nodes cached, and the rare
// questions of this package (without holds, on avoided nodes) are evaluated from scratch, on few nodes.
//
// For one goroutine. Start reading at Searcher.Find.
package search
