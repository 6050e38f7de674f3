// Package crossnode applies hard rules about pods on other nodes, for which a node's document is not enough (package
// guard). Rules determines what such rules require of a placement: the guards that its transaction compares, and the
// bound pods that it relies on. An attempt may have to wait until every pod in a domain is counted, or until the pod
// that it follows is bound. Terms registers the terms of rules in the ledger before pods are placed by them, and
// retires unused ones.
//
// Start reading at Rules.Choose.
package crossnode
