// Package nodes creates nodes from a short description.
//
// The description is strict YAML: a field that is unknown, missing or out of
// range is an error that names the group and the field. A file is judged as a
// whole before the first node is created.
//
// With KWOK a node is created bare and KWOK makes it ready, as a kubelet
// would. Without KWOK the node is created with a Ready condition, and the
// not-ready taint that the TaintNodesByCondition admission puts on every new
// node is taken off here: the node lifecycle controller, which would do that,
// does not run then.
//
// Start reading at description.go, then object.go and create.go.
package nodes
