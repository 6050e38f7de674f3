// Package crossnode applies hard rules about pods on other nodes, for which a node's document is not enough (package
// guard). Rules determines what such rules require of a placement: the guards that its transaction compares, and the
// bound pods that it relies on. An attempt may have to wait until every pod in a domain is counted, or until the pod
// that it follows is bound. Terms registers the terms of rules in the ledger before pods are placed by them, and
// retires unused ones.
//
// A term goes through these states; all changes are transactions about the registry (T11):
//
//	unknown ──register──► registered ──the watch shows it──► usable: placements compare and move its guards
//	usable ──retire, when it has not been used for long──► retiring
//	retiring ──register, when a pod needs it again──► registered
//	retiring ──drop, when it concerns no reserved pod──► unknown
//
// The registry has a revision. Each transaction compares it, so that no shard places a pod by a set of terms that
// another shard has just changed; a change of the registry therefore makes all staged attempts of all shards be
// decided again. Registrations are batched for that reason (registerEvery).
//
// Rules has the index of registered terms and the count of hostnames, both derived. Terms has the registrations that
// attempts wait for; they are lost with the process, and requested again when the pod is decided again.
//
// For one goroutine. Start reading at Rules.Choose.
package crossnode
