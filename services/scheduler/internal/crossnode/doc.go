// Package crossnode applies hard rules about pods on other nodes, which need more than a node's document (package
// guard). Rules finds out what such rules demand of a placement: the guards that its transaction compares, and the
// bound pods that it relies on. An attempt may have to wait until every pod in a domain is counted, or until what it
// follows is bound. Terms registers the terms of rules in the ledger before pods are placed by them, and retires those
// that are not used.
//
// Start reading at Rules.Choose.
package crossnode
