// Package columns is the hot state of all nodes, in arrays indexed by a node's slot: resources, taints and features
// (traits), kinds of pods, images, the domains of topology keys, and a journal of which slot changed when.
//
// Start reading at Columns. Tally sums up pods per domain for one constraint or term of a class, and Column is the
// part of it by which the nodes of the class are grouped. The fields are exported because the engine reads them for
// every node of every decision; those of Columns are changed by its methods alone.
package columns
