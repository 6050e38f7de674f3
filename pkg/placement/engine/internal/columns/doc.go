// Package columns is the hot state of all nodes, in arrays indexed by a node's slot: resources, taints and
// features (traits), kinds of pods, images, the domains of topology keys, and a journal of which slot changed
// when.
//
// A decision of the engine looks at one value of thousands of nodes, not at all values of one node. Therefore the
// values are in arrays, one per property, and things that occur on many nodes have small numbers: a kind of pod,
// a combination of taints, a zone. Comparing two nodes by such a property then is comparing two int32.
//
// Start reading at Columns. Tally sums up pods per domain for one constraint or term of a class, and Column is
// the part of it by which the nodes of the class are grouped.
//
// An example: topology key zone, nodes in slots 0 to 3 in zones a, a, b and none. The axis has IDs {a: 0, b: 1}
// and Of [0, 0, 1, NoDomain]. A tally of pods labelled app=web, of which one is on each node, has the sums [2,
// 1]: the pod on the node without a zone counts nowhere. When another one starts on slot 2, Columns.ChangePods
// records the change {Slot: 2, Kind: k, By: 1}, and each class that reads the journal calls Tally.Add(2, 1): the
// sums are [2, 2].
//
// Who changes what: the engine calls SetNode, DropNode and ChangePods, which keep all arrays consistent and record
// the change in the journal; it records changes of marks itself. Tallies belong to the classes of the engine, and
// each class brings its own up to date from the journal. The fields are exported because the engine reads them for
// every node of every decision; methods of this package alone change them, except Tally.Included, which the rules
// set.
//
// Nothing here is safe for concurrent use.
package columns
